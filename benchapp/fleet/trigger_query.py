"""How the trigger page reads an address: what is typed, ticked, and chosen at first sight."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from django.http import QueryDict

from benchapp.fleet import asks, model_asks, offers
from benchapp.fleet.ask_fields import NEWEST, size_of
from benchapp.fleet.ask_kinds import MEASURED
from benchapp.fleet.targets import gpus_of
from benchapp.fleet.trigger_targets import measuring
from benchapp.runs.requests import LIBRARIES
from benchapp.tiles.queries import FIRST_ARCH
from workers.bench.suites.models import CONTEXT, DECODE_BATCHES

#: Suites chosen at first sight, on CPUs and on GPUs.
FIRST_SUITES = {"gemm": ("cpu-smoke", "h200-core"), "moe": ("tiny", "qwen3-30b-decode")}
#: Lists that are typed into one box each → the fields that they are of.
TYPED = {"own_backends": "backends", "own_batches": "batches", "own_contexts": "contexts"}
OWN_CASES = "own_cases"
#: GPUs ticked one by one, to be a gang.
MEMBER = "member"
CHOICE = tuple(field.name for field in dataclasses.fields(model_asks.Choice))
#: What an own choice of models begins with.
FIRSTCHOICE: dict[str, Any] = {
    "models": ["Qwen3-30B-A3B"],
    "phases": ["decode"],
    "batches": [str(batch) for batch in DECODE_BATCHES],
    "contexts": [str(CONTEXT)],
}


def settled(query: QueryDict, machines: offers.Machines) -> dict[str, Any]:
    """What the address asks for. One that names nothing, or just changed what it asks for, begins anew."""
    data = asks.from_query(query)
    what, library = data.get("what", "survey"), data.get("library", "torch")
    empty = not set(data) - {"what", "library"} and "was" not in query
    if empty or query.get("was", what) != what:
        return _first(what, library, machines)
    if query.get("was_library", library) != library:
        # what is to be measured, and where, may stay; versions and backends are of the other library
        data |= {"versions": _first_versions(library), "backends": []}
        data["targets"] = _first_targets(library, data.get("targets", []), machines)
    if query.get("was_suite", data.get("suite", "")) != data.get("suite", ""):
        # of another suite; an own choice begins with one that stands for many
        data = {name: value for name, value in data.items() if name not in ("cases", *CHOICE)}
        if what == "moe" and not data.get("suite"):
            data |= FIRSTCHOICE
    if not data.get("suite") and (typed := query.get(OWN_CASES, "")):
        # a comma may be within a case: rmsnorm:tokens=64,hidden=7168
        data["cases"] = [*data.get("cases", ()), *(word.strip(",") for word in typed.split())]
    for box, field in TYPED.items():
        if (typed := query.get(box, "")) and (field == "backends" or not data.get("suite")):
            data[field] = [*data.get(field, ()), *typed.replace(",", " ").split()]
    if what == "moe":
        if data.get("cases") and not data.get("models"):
            data = {name: value for name, value in data.items() if name not in CHOICE}
        data = _placed(data, query, machines)
    if what not in MEASURED:
        data = {name: value for name, value in data.items() if value or name in ("versions", "targets")}
    return {"what": what} | data


def _placed(data: dict[str, Any], query: QueryDict, machines: offers.Machines) -> dict[str, Any]:
    """With the GPUs that were ticked as one gang; where another number of GPUs was just chosen, on the first
    that has as many."""
    size, targets = size_of(data), list(data.get("targets", ()))
    if "size" in query and query["size"] != str(size):
        fitting = [each for each in targets if gpus_of(each) in (None, size)]
        offered = [
            choice.value
            for group in measuring(machines, (), size, cpus=data.get("library", "torch") == "torch")
            for choice in group.choices
            if size == 1 or choice.value.startswith("gang:")
        ]
        targets = fitting or offered[:1] or targets
    elif len(members := list(dict.fromkeys(query.getlist(MEMBER)))) > 1 and size > 1:
        targets.append(f"gang:{'+'.join(members)}")
    return data | {"targets": targets}


def _first(what: str, library: str, machines: offers.Machines) -> dict[str, Any]:
    if what not in MEASURED:
        versions = [NEWEST] if offers.newest("flashinfer") else []
        return {"what": what, "versions": versions, "targets": [f"arch:{FIRST_ARCH}"]}
    targets = _first_targets(library, ["cpu"], machines)
    return {
        "what": what,
        "library": library,
        "versions": _first_versions(library),
        "targets": targets,
        "suite": FIRST_SUITES[what][targets != ["cpu"]],
    }


def _first_versions(library: str) -> list[str]:
    newest = offers.newest(library) if library in LIBRARIES else None
    return [newest] if newest else []


def _first_targets(library: str, before: Sequence[str], machines: offers.Machines) -> list[str]:
    """Those before, for a library that needs GPUs without CPUs; then any GPU of the first architecture."""
    if library == "torch":
        return list(before)
    kept = [target for target in before if target.partition(":")[0] != "cpu"]
    first = next(iter(sorted(machines.archs)), None)
    return kept or ([f"gpuarch:{first}"] if first else [])
