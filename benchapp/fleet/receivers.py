"""Listens to jobs and runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.dispatch import receiver

from benchapp.alerts.places import Place
from benchapp.alerts.signals import environments_wanted, releases_known, who_serves
from benchapp.catalog.models import Target
from benchapp.fleet import builds, serves, waiting
from benchapp.runs import broker
from benchapp.runs.models import Run
from benchapp.runs.signals import run_ended, runs_asked, why_runs_wait


@receiver(runs_asked)
def build_what_they_need(sender: type[Run], runs: Sequence[Run], **kwargs: Any) -> None:
    if any(run.environment for run in runs):
        broker.ask_control(builds.TASK)


@receiver(run_ended)
def build_ended(sender: type[Run], run: Run, **kwargs: Any) -> None:
    if run.kind == Run.Kind.BUILD:
        builds.after_build(run)


@receiver(why_runs_wait)
def what_the_fleet_says(sender: type[Run], runs: Sequence[Run], **kwargs: Any) -> dict[int, str]:
    return waiting.reasons(runs)


@receiver(who_serves)
def where_it_is_measured(sender: object, target: Target, **kwargs: Any) -> Place:
    return serves.place_of(target)


@receiver(releases_known)
def what_there_is(sender: object, component: str, **kwargs: Any) -> list[str]:
    return serves.releases(component)


@receiver(environments_wanted)
def build_ahead(sender: object, recipes: Sequence[dict[str, str]], queue: str, **kwargs: Any) -> None:
    builds.ask_ahead(recipes, queue)
