"""Told after the transaction in which a run ended: `sender` is Run, `run` the row."""

from django.dispatch import Signal

run_ended = Signal()
