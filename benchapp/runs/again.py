"""Addresses of the trigger page that fill it with what was done before: of a run, a point, a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.catalog.models import Target
from benchapp.runs import queues
from benchapp.runs.models import Job, Run
from workers.bench.cases.parse import from_row
from workers.bench.document import BenchError
from workers.bench.gemm.suites import SUITES
from workers.bench.tiles.arches import ARCHES

#: How UUIDs of GPUs begin that nobody here has: what was measured on them came with Tilewatch.
RECORDED = "GPU-recorded"
#: Parameters of addresses → the fields that they are repeated for.
PARAMETERS = {"version": "versions", "target": "targets", "case": "cases"}


def of_run(run: Run) -> str:
    """The address that asks for the same run; "" of one that nobody asks for by hand.

    An exploration is asked for without the whole compiles that may have followed it.
    """
    params, versions = run.params, run.recipe.versions
    if run.kind == Run.Kind.TILES:
        what = "full" if params.get("tier") == "full" else "survey"
        if params.get("task") == "explore":
            what = "rescue" if params.get("rescue") else "explore"
        return of_tiles(versions.get("flashinfer", ""), params.get("arch", ""), what=what)
    if run.kind == Run.Kind.GEMM:
        target = _target_of(run)
        if not target:
            return ""
        return _of_gemm(
            versions.get("torch", ""),
            target,
            params.get("suite", ""),
            params.get("cases", ()),
            foreign=params.get("foreign", ""),
            time_limit_s=run.time_limit_s,
        )
    return ""


def of_job(job: Job) -> str:
    """The address that asks for all of a job again; "" of one that keeps no words of what was asked."""
    return _address(words_of(job.asked)) if job.asked else ""


def words_of(asked: Mapping[str, Any]) -> list[tuple[str, str]]:
    """An address's parameters for what a job keeps of what was asked; `benchapp.fleet.asks` reads them."""
    names = {field: parameter for parameter, field in PARAMETERS.items()}
    return [
        (names.get(field, field), str(value))
        for field, said in asked.items()
        for value in (said if isinstance(said, list) else [said])
    ]


def of_tiles(version: str, arch: str, *, what: str = "survey") -> str:
    """The address that asks for the tiles of a FlashInfer version; "" where nobody surveys `arch`."""
    if arch not in ARCHES:
        return ""
    return _address([("what", what), ("version", version), ("target", f"arch:{arch}")])


def of_case(torch: str, target_key: str, case: Mapping[str, Any]) -> str:
    """The address that measures one GEMM again where it was measured; on CPUs by any host's, on a recorded
    GPU by any of its model.

    `target_key` is of the catalog, and `torch` as torch tells it: 2.13.0+cu130. "" of a case that no bench
    here measures.
    """
    try:
        from_row(dict(case), "case")
    except BenchError:
        return ""
    kind, _, uuid = target_key.partition(":")
    target = target_key if kind == "gpu" else "cpu"
    if uuid.startswith(RECORDED):
        target = f"model:{_recorded_model(target_key)}"
    return _of_gemm(torch.partition("+")[0], target, "", [case])


@lru_cache(maxsize=64)
def _recorded_model(target_key: str) -> str:
    """The slug of a recorded GPU's model. A page of points asks once: what was recorded does not change."""
    return queues.slug(Target.objects.values_list("model", flat=True).get(key=target_key))


def _of_gemm(
    torch: str,
    target: str,
    suite: str,
    cases: Sequence[Mapping[str, Any]],
    *,
    foreign: str = "",
    time_limit_s: int | None = None,
) -> str:
    named = ["{m}x{n}x{k}:{dtype}".format_map(_Known(case)) for case in cases]
    of_suite = [str(case) for case in SUITES.get(suite, ())]
    if not set(named) <= set(of_suite):
        suite = ""  # the list has changed since
    words = [("what", "gemm"), ("version", torch), ("target", target)]
    if suite:
        words.append(("suite", suite))
    if not suite or named != of_suite:
        words += [("case", name) for name in named]
    if time_limit_s:
        words.append(("time_limit_s", str(time_limit_s)))
    if foreign:
        words.append(("foreign", foreign))
    return _address(words)


class _Known(dict[str, Any]):
    """A case's parameters, "" for those that it lacks."""

    def __missing__(self, key: str) -> str:
        return ""


def _target_of(run: Run) -> str:
    if run.gpus:
        return f"gang:{'+'.join(run.gpus)}"
    kind, _, rest = run.queue.partition(".")
    if kind == queues.CPU:
        return f"cpu:{rest}" if rest else "cpu"
    by, _, which = rest.partition(".")
    named = {"uuid": "gpu", "model": "model", "arch": "gpuarch"}.get(by)
    return f"{named}:{which}" if named else ""


def _address(words: Sequence[tuple[str, str]]) -> str:
    return f"{reverse('fleet:trigger')}?{urlencode(words, safe=':')}"
