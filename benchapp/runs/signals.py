"""Told in the transaction in which a run ends: `sender` is Run, `run` the row. What a listener writes is
there exactly when the end of the run is."""

from django.dispatch import Signal

run_ended = Signal()
