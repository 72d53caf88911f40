"""Endpoints: which servers may be measured, and the run that measures one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from benchapp.fleet import builds
from benchapp.fleet.models import Endpoint, Installation
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs import queues
from benchapp.runs.actions import Request, cancel, request_run
from benchapp.runs.models import Job, Run
from benchapp.runs.requests import clean_version
from benchapp.runs.states import ACTIVE
from workers.bench.cases.parse import as_row
from workers.bench.cases.serving import Serving

#: The release of the load generator that is asked for unless another is named.
AIPERF = "0.13.0"
FIELDS = ("url", "model", "hardware", "gpus", "stack", "api_key_env")
#: Of a run beside its cases: AIPerf's start and end, and waiting for the cores.
SPARE_S = 300


@transaction.atomic
def add(name: str, fields: Mapping[str, Any], user: User) -> Endpoint:
    """Allow a server to be measured. Raises ValidationError, {field: sentence}, where the name is taken."""
    try:
        with transaction.atomic():
            endpoint = Endpoint.objects.create(name=name, added_by=user, **_only(fields))
    except IntegrityError:
        raise ValidationError({"name": f"There is an endpoint called {name} already."}) from None
    audit.record(user, "add_endpoint", name, **_only(fields))
    return endpoint


@transaction.atomic
def edit(endpoint: Endpoint, fields: Mapping[str, Any], user: User) -> bool:
    """Change what is known of it; its name stays, since results go by it. False where nothing changes."""
    endpoint = Endpoint.objects.select_for_update().get(pk=endpoint.pk)
    changed = {name: value for name, value in _only(fields).items() if getattr(endpoint, name) != value}
    if not changed:
        return False
    Endpoint.objects.filter(pk=endpoint.pk).update(**changed)
    audit.record(user, "edit_endpoint", endpoint.name, **changed)
    if {"url", "api_key_env"} & changed.keys():
        _cancel_runs(endpoint, user)
    return True


@transaction.atomic
def switch(endpoint: Endpoint, user: User, *, enabled: bool) -> bool:
    """Let it be measured, or no longer: its runs are cancelled then. False where it stands so already."""
    if not Endpoint.objects.filter(pk=endpoint.pk).exclude(enabled=enabled).update(enabled=enabled):
        return False
    audit.record(user, "enable_endpoint" if enabled else "disable_endpoint", endpoint.name)
    if not enabled:
        _cancel_runs(endpoint, user)
    return True


def _cancel_runs(endpoint: Endpoint, user: User) -> None:
    """Those that would still ask the address that they were given."""
    for run in Run.objects.filter(
        kind=Run.Kind.SERVING, state__in=ACTIVE, params__endpoint__name=endpoint.name
    ):
        cancel(run, user)


def _only(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in FIELDS}


@dataclasses.dataclass(frozen=True, slots=True)
class Load:
    """What an endpoint is measured under: `rounds` requests for each of so many at a time."""

    concurrencies: tuple[int, ...]
    input: int
    output: int
    rounds: int
    case_timeout_s: int
    aiperf: str = AIPERF
    #: key of the installation whose CPUs do it; "" for any
    host: str = ""

    def cases(self, model: str) -> list[Serving]:
        """Raises BenchError where one is out of bounds."""
        return [
            Serving.read(
                {
                    "model": model,
                    "concurrency": concurrency,
                    "input": self.input,
                    "output": self.output,
                    "requests": concurrency * self.rounds,
                },
                f"concurrency {concurrency}",
            )
            for concurrency in self.concurrencies
        ]


@transaction.atomic
def measure(endpoint: Endpoint, load: Load, user: User) -> tuple[Run, bool]:
    """Ask for one run. Returns (run, created). Raises ValidationError where it may not be measured now."""
    endpoint = Endpoint.objects.select_for_update().get(pk=endpoint.pk)
    if not endpoint.enabled:
        raise ValidationError(f"{endpoint.name} is disabled: an admin can enable it.")
    if load.host and not builds.live().filter(key=load.host).exists():
        raise ValidationError("This host was not heard of lately: choose another, or any.")
    return request_run(_request(endpoint, load), user=user, source=Job.Source.PERSON)


def _request(endpoint: Endpoint, load: Load) -> Request:
    cases = load.cases(endpoint.model)
    said = ", ".join(str(case.concurrency) for case in cases)
    return Request(
        kind=Run.Kind.SERVING,
        title=f"{endpoint.name}: {endpoint.model} at concurrency {said}",
        queue=queues.cpu_of(load.host) if load.host else queues.CPU,
        versions={"aiperf": clean_version(load.aiperf)},
        params={
            "endpoint": as_told(endpoint),
            "cases": [as_row(case) for case in cases],
            "case_timeout_s": load.case_timeout_s,
        },
        needs_environment=True,
        time_limit_s=len(cases) * load.case_timeout_s + SPARE_S,
    )


def as_told(endpoint: Endpoint) -> dict[str, Any]:
    """What the bench is told of it. The key goes by the name of its variable, and is known to no one here."""
    return {"name": endpoint.name, **{name: getattr(endpoint, name) for name in FIELDS}}


@dataclasses.dataclass(frozen=True, slots=True)
class Row:
    """An endpoint as the list shows it, with the newest run that measures it."""

    endpoint: Endpoint
    run: Run | None


def rows() -> list[Row]:
    newest = (
        Run.objects.filter(kind=Run.Kind.SERVING)
        .order_by("params__endpoint__name", "-pk")
        .distinct("params__endpoint__name")
    )
    by_name = {run.params["endpoint"]["name"]: run for run in newest}
    endpoints = Endpoint.objects.select_related("added_by")
    return [Row(endpoint, by_name.get(endpoint.name)) for endpoint in endpoints]


def hosts() -> list[Installation]:
    """Those whose CPUs could send requests now."""
    return [each for each in builds.live() if queues.cpu_of(each.key) in each.queues]
