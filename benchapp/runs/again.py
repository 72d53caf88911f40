"""Addresses of the trigger page that fill it with what was done before: of a run, a point, a tile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlencode

from django.urls import reverse

from benchapp.catalog.models import Target
from benchapp.catalog.versions import is_candidate
from benchapp.runs import queues
from benchapp.runs.models import Job, Run
from benchapp.runs.requests import gpus_of, is_of_models, library_of
from workers.bench.cases.base import Case
from workers.bench.cases.parse import as_row, from_params, from_row
from workers.bench.cases.serving import Serving
from workers.bench.document import BenchError
from workers.bench.suites import SUITES
from workers.bench.suites.models import MODEL_SUITES
from workers.bench.tiles.arches import ARCHES

#: How UUIDs of GPUs begin that nobody here has: what was measured on them came with Tilewatch.
RECORDED = "GPU-recorded"
#: Parameters of addresses → the fields that they are repeated for.
PARAMETERS = {
    "version": "versions", "target": "targets", "case": "cases", "backend": "backends",
    "model": "models", "phase": "phases", "batch": "batches", "context": "contexts",
}  # fmt: skip
#: What else of a benchmark an ask may set: as its fields and a run's parameters call it.
OPTIONS = ("processes", "case_timeout_s", "timer", "backends")


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
    if run.kind in (Run.Kind.GEMM, Run.Kind.MOE):
        target = _target_of(run)
        if not target:
            return ""
        limits = {
            name: params[name] for name in ("foreign", *OPTIONS) if params.get(name) not in (None, "", [])
        }
        if run.time_limit_s:
            limits["time_limit_s"] = run.time_limit_s
        what, suites = ("moe", MODEL_SUITES) if run.kind == Run.Kind.MOE else ("gemm", SUITES)
        suite = params.get("suite", "")
        return _of_cases(
            what, versions, target, params.get("cases", ()), suite, suites.get(suite, ()), limits
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


def of_point(stack: Mapping[str, Any], target_key: str, kind: str, params: Mapping[str, Any]) -> str:
    """The address that measures one case again where it was measured; on CPUs by any host's, on a recorded
    GPU by any of its model. What a gang measured is asked for without saying where: a point names one GPU.

    `stack` is what was observed, and each version as the package tells it: 2.13.0+cu130. `target_key`,
    `kind` and `params` are of the catalog. "" of a case that no bench here measures.
    """
    try:
        case = from_params(kind, params, "case")
    except BenchError:
        return ""
    if isinstance(case, Serving):
        return ""
    target_kind, _, uuid = target_key.partition(":")
    target = target_key if target_kind == "gpu" else "cpu"
    library = library_of(stack)
    if not library or (library != "torch" and target == "cpu"):
        return ""
    if uuid.startswith(RECORDED):
        target = f"model:{_recorded_model(target_key)}"
    version = str(stack[library])
    plain = version if is_candidate(version) else version.partition("+")[0]
    if gpus_of(case) > 1 and target != "cpu":
        target = ""
    what = "moe" if is_of_models(case) else "gemm"
    return _of_cases(what, {library: plain}, target, [as_row(case)])


@lru_cache(maxsize=64)
def _recorded_model(target_key: str) -> str:
    """The slug of a recorded GPU's model. A page of points asks once: what was recorded does not change."""
    return queues.slug(Target.objects.values_list("model", flat=True).get(key=target_key))


def _of_cases(
    what: str,
    versions: Mapping[str, str],
    target: str,
    cases: Sequence[Mapping[str, Any]],
    suite: str = "",
    of_suite: Sequence[Case] = (),
    options: Mapping[str, Any] | None = None,
) -> str:
    named = [_text_of(case) for case in cases]
    known = [str(case) for case in of_suite]
    if not set(named) <= set(known):
        suite = ""  # the list has changed since
    library = library_of(versions)
    words = [("what", what), ("version", versions.get(library, ""))]
    words += [("target", target)] if target else []
    if library and library != "torch":
        words.append(("library", library))
    if suite:
        words.append(("suite", suite))
    if not suite or named != known:
        words += [("case", name) for name in named]
    return _address(words + words_of(options or {}))


def _text_of(case: Mapping[str, Any]) -> str:
    """A case as an ask names it; also one that cannot be read, so that the page says what is wrong."""
    try:
        return str(from_row(case, "case"))
    except BenchError:
        return "{m}x{n}x{k}:{dtype}".format_map(_Known(case))


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
