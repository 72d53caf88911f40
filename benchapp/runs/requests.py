"""What may be asked for: each request is checked here, whoever makes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from packaging.version import InvalidVersion, Version

from benchapp.catalog.models import Target
from benchapp.catalog.versions import is_candidate
from benchapp.people.models import User
from benchapp.runs import queues
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run
from workers.bench.cases.base import Case
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.cases.model import Decode, Prefill
from workers.bench.cases.modules import JitModule
from workers.bench.cases.parse import as_row
from workers.bench.cases.serving import Serving
from workers.bench.document import Tier
from workers.bench.suites import SUITES
from workers.bench.tiles.arches import ARCHES
from workers.bench.tiles.explorer.space import ARCHES as EXPLORED_ARCHES

#: The torch of CPU benchmarks.
CPU_TORCH = "2.13.0"
#: The torch beside the libraries of GPU benchmarks: FlashInfer 0.5.3 to 0.6.18 were seen to work with it.
GPU_TORCH = "2.11.0"
#: The CUDA major release that torch is built for, of GPU benchmarks.
GPU_CUDA = "13"
#: What a benchmark may be of, the most particular last → what people call it. Recipes have one of them, and
#: torch beside it.
LIBRARIES = {"torch": "torch", "flashinfer": "FlashInfer", "sgl-kernel": "sgl-kernel"}
#: Those that a step of a whole model can be measured with.
MODEL_LIBRARIES = ("torch", "flashinfer")
LONGEST_VERSION = 60
#: Whole compiles that one exploration may ask for.
MOST_FULL = 20
#: Benches that an A/B runs, and how many cases of one.
CONFIRMING = ("gemm", "moe", "modules")
MOST_CONFIRMED = 20
#: Of an A/B: a difference within is none; seconds past which it starts no process, and until it has written.
CONFIRM_MARGIN = 0.01
CONFIRM_BUDGET_S, MOST_CONFIRM_S, CONFIRM_GRACE_S = 1800, 6 * 3600, 300
#: Background work: a sweep over releases takes most of an hour, an exploration minutes, full compiles hours.
SWEEP_PRIORITY, EXPLORE_PRIORITY, DEEP_PRIORITY = -2, -5, -10


def clean_version(text: str, *, candidates: bool = False) -> str:
    """A PEP 440 version, normalised. Raises ValidationError.

    With `candidates` also one of a wheel registered here; whether there is such a one is for the caller.
    """
    text = text.strip()
    refusal = ValidationError(f"{text[:LONGEST_VERSION]!r} is not a version; expected one such as 0.6.3.")
    if len(text) > LONGEST_VERSION:
        raise refusal
    try:
        version = Version(text)
    except InvalidVersion:
        raise refusal from None
    if version.epoch or (version.local and not (candidates and is_candidate(str(version)))):
        raise ValidationError("Local versions (with a +) and epochs (with a !) are not on the package index.")
    return str(version)


def clean_arch(text: str) -> str:
    if text not in ARCHES:
        raise ValidationError(
            f"{text[:20]!r} is not an architecture known here; expected {', '.join(ARCHES)}."
        )
    return text


def survey(version: str, arch: str, *, tier: Tier = "types", priority: int | None = None) -> Request:
    """The tile survey of a FlashInfer version. Raises ValidationError.

    Tier `full` compiles the bodies of whatever fits: hours, so it is always done in the background.
    """
    version, arch = clean_version(version, candidates=True), clean_arch(arch)
    if tier not in ("types", "full"):
        raise ValidationError(f"{tier[:20]!r} is not a tier to ask for; expected types or full.")
    deep = tier == "full"
    what = "Full compile of what fits in" if deep else "Tile survey of"
    return Request(
        kind=Run.Kind.TILES,
        title=f"{what} FlashInfer {version} on {arch.upper()}",
        queue=queues.BUILD,
        versions={"flashinfer": version},
        params={"arch": arch, "tier": tier} if deep else {"arch": arch},
        priority=DEEP_PRIORITY if deep else priority,
    )


def request_survey(
    version: str,
    arch: str,
    *,
    user: User | None,
    source: Job.Source,
    waits_for: Run | None = None,
    tier: Tier = "types",
    priority: int | None = None,
) -> tuple[Run, bool]:
    """Ask for a `survey`. Returns (run, created). Raises ValidationError."""
    request = placed(survey(clean_version(version), arch, tier=tier, priority=priority))
    return request_run(request, user=user, source=source, waits_for=waits_for)


def exploration(version: str, arch: str, *, full: int = 0, rescue: bool = False) -> Request:
    """Which tiles that no release ships would fit, by the CUTLASS of a FlashInfer version.

    The `full` most promising are compiled whole too, a minute or two each. With `rescue` it asks which of
    the release's own kernels that overflow would fit with one stage less. Raises ValidationError.
    """
    version = clean_version(version, candidates=True)
    if arch not in EXPLORED_ARCHES:
        raise ValidationError(f"{arch[:20]!r} is not explored; expected {', '.join(EXPLORED_ARCHES)}.")
    if not 0 <= full <= MOST_FULL:
        raise ValidationError(f"{full} is not a number of whole compiles; expected 0 to {MOST_FULL}.")
    if full and rescue:
        raise ValidationError("A rescue compiles nothing whole: expected either one.")
    what = "Stage rescues of" if rescue else "Exploration of tiles with the CUTLASS of"
    params: dict[str, Any] = {"arch": arch, "task": "explore"}
    params |= {"rescue": True} if rescue else {}
    params |= {"full": full} if full else {}
    return Request(
        kind=Run.Kind.TILES,
        title=f"{what} FlashInfer {version} on {arch.upper()}",
        queue=queues.BUILD,
        versions={"flashinfer": version},
        params=params,
        priority=EXPLORE_PRIORITY,
    )


def request_exploration(
    version: str,
    arch: str,
    *,
    user: User | None,
    source: Job.Source,
    full: int = 0,
    rescue: bool = False,
) -> tuple[Run, bool]:
    """Ask for an `exploration`. Returns (run, created). Raises ValidationError."""
    request = placed(exploration(clean_version(version), arch, full=full, rescue=rescue))
    return request_run(request, user=user, source=source)


def placed(request: Request) -> Request:
    """With the row of the architecture that a static request is of, made if it is the first."""
    arch = request.params["arch"]
    target, _ = Target.objects.get_or_create(
        key=f"arch:{arch}", defaults={"kind": Target.Kind.ARCH, "arch": arch}
    )
    return dataclasses.replace(request, target=target)


def recipe(library: str, version: str, *, device: str) -> dict[str, str]:
    """Versions of the environment that a version of a library is measured in, on "cpu" or "cuda"."""
    cuda = {"cuda": GPU_CUDA} if device == "cuda" else {}
    return {"torch": GPU_TORCH} | cuda | {library: version}


def library_of(versions: Mapping[str, str]) -> str:
    """The library that a recipe, or a stack, is for; "" where it has none of them."""
    return next((name for name in reversed(LIBRARIES) if name in versions), "")


def noun(cases: Sequence[Case]) -> str:
    """What cases are, in front of "suite" or "case": GEMM, or kernel where others are among them."""
    return "GEMM" if all(case.kind in ("gemm", "grouped_gemm") for case in cases) else "kernel"


def gemm(
    cases: Sequence[Case],
    *,
    suite: str,
    version: str,
    library: str = "torch",
    queue: str = queues.CPU,
    where: str = "this machine's CPUs",
    gpus: Sequence[str] = (),
    foreign: str = "",
    time_limit_s: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Request:
    """Cases with a version of a library, on what `queue` stands for. On GPUs `foreign` says what becomes of
    a measurement beside another program: it is refused, or flagged. `suite` is the list that the cases are
    of, "" for none; `options` are more parameters of the run."""
    return _measured(
        Run.Kind.GEMM, noun(cases), cases, suite=suite, version=version, library=library, queue=queue,
        where=where, gpus=gpus, foreign=foreign, time_limit_s=time_limit_s, options=options,
    )  # fmt: skip


def _measured(
    kind: Run.Kind,
    noun: str,
    cases: Sequence[Case],
    *,
    suite: str,
    version: str,
    library: str,
    queue: str,
    where: str,
    gpus: Sequence[str],
    foreign: str,
    time_limit_s: int | None,
    options: Mapping[str, Any] | None,
) -> Request:
    device = _device(queue)
    params: dict[str, Any] = {"device": device, "suite": suite, "cases": [as_row(case) for case in cases]}
    if device == "cuda":
        params["foreign"] = foreign
    what = f"{noun} suite {suite}" if suite else f"{len(cases)} {noun} case{'s' * (len(cases) != 1)}"
    return Request(
        kind=kind,
        title=f"{what[0].upper()}{what[1:]} on {where}",
        queue=queue,
        versions=recipe(library, version, device=device),
        params=params | dict(options or {}),
        needs_environment=True,
        gpus=tuple(gpus),
        time_limit_s=time_limit_s,
    )


def _device(queue: str) -> str:
    return "cpu" if queue.partition(".")[0] == queues.CPU else "cuda"


def is_of_models(case: Case) -> bool:
    """Whether the bench of whole models measures it, and no other does."""
    return isinstance(case, Decode | Prefill | AllReduce | AllToAll)


def is_kernel(case: Case) -> bool:
    """Whether the GEMM bench takes it: it is measured on one GPU, in one process."""
    return not is_of_models(case) and not isinstance(case, Serving)


def gang_size(cases: Sequence[Case]) -> int:
    """GPUs that each of these cases takes together: tp × ep of a model, ranks of a collective.

    Raises ValidationError, {field: sentence}, where there are none, where one is of no model, and where they
    differ: a run holds its GPUs from its first case to its last.
    """
    strange = next((case for case in cases if not is_of_models(case)), None)
    if strange is not None or not cases:
        what = f"{strange} is no case of a whole model" if strange else "There are no cases"
        raise ValidationError(
            {"cases": f"{what}: expected decode:…, prefill:…, all_reduce:… or all_to_all:…."}
        )
    sizes = sorted({gpus_of(case) for case in cases})
    if len(sizes) > 1:
        said = ", ".join(map(str, sizes[:-1]))
        raise ValidationError(
            {
                "cases": f"Cases of {said} and of {sizes[-1]} GPUs (tp × ep): expected one number of GPUs; "
                "ask for each number by itself."
            }
        )
    return sizes[0]


def gpus_of(case: Case) -> int:
    """GPUs that a case takes together; 1 of one that is of no model."""
    if isinstance(case, Decode | Prefill):
        return case.layout.gpus
    return case.ranks if isinstance(case, AllReduce | AllToAll) else 1


def moe(
    cases: Sequence[Case],
    *,
    suite: str,
    version: str,
    library: str = "torch",
    queue: str = queues.CPU,
    where: str = "this machine's CPUs",
    gpus: Sequence[str] = (),
    foreign: str = "",
    time_limit_s: int | None = None,
    options: Mapping[str, Any] | None = None,
) -> Request:
    """Steps of whole models, or collectives, with a version of a library: as `gemm`. All cases take the same
    number of GPUs; where that is more than one, `gpus` names the gang. Raises ValidationError, {field:
    sentence}."""
    if library not in MODEL_LIBRARIES:
        raise ValidationError({"library": f"Expected {' or '.join(MODEL_LIBRARIES)} for whole models."})
    size, there = gang_size(cases), max(1, len(gpus))
    if _device(queue) == "cuda" and size != there:
        raise ValidationError(
            {"gpus": f"These cases take {size} GPUs together (tp × ep), and {there} would be held."}
        )
    return _measured(
        Run.Kind.MOE, "MoE", cases, suite=suite, version=version, library=library, queue=queue, where=where,
        gpus=gpus, foreign=foreign, time_limit_s=time_limit_s, options=options,
    )  # fmt: skip


def confirm(
    cases: Sequence[Case],
    *,
    bench: str,
    old: dict[str, str],
    new: dict[str, str],
    queue: str = queues.CPU,
    where: str = "this machine's CPUs",
    gpus: Sequence[str] = (),
    backends: Sequence[str] = (),
    margin: float = CONFIRM_MARGIN,
    budget_s: int = CONFIRM_BUDGET_S,
    foreign: str = "flag",
    alert: int | None = None,
    priority: int | None = None,
) -> Request:
    """An A/B of two recipes (package → version) on what `queue` stands for, by one bench. `backends` restrict
    it, none takes all; a difference within `margin` is none; past `budget_s` no process is started. JIT
    modules are built by a build worker, whichever queue is named. Raises ValidationError, {field: sentence}.
    """
    _check_sides(old, new)
    _check_confirmed(cases, bench, gpus)
    if not 0 < margin < 1:
        raise ValidationError({"margin": f"{margin:g}: expected more than 0 and less than 1, as in 0.01."})
    if not 60 <= budget_s <= MOST_CONFIRM_S:
        raise ValidationError({"budget_s": f"{budget_s:,} s: expected 60 to {MOST_CONFIRM_S:,} s."})
    static = bench == "modules"
    device = "cpu" if static else _device(queue)
    if device == "cpu" and any("cuda" in side for side in (old, new)) and not static:
        raise ValidationError(
            {"queue": "Environments for CUDA are compared on GPUs, and this queue has none."}
        )
    params: dict[str, Any] = {
        "bench": bench,
        "device": device,
        "cases": [as_row(case) for case in cases],
        "margin": margin,
        "budget_s": budget_s,
    }
    params |= {"backends": list(backends)} if backends else {}
    params |= {"foreign": foreign} if device == "cuda" else {}
    params |= {} if alert is None else {"alert": alert}
    names = " against ".join(f"{side[library_of(side)]}" for side in (new, old))
    what = LIBRARIES[library_of(new)]
    return Request(
        kind=Run.Kind.CONFIRM,
        title=f"A/B of {what} {names}: {cases[0]}{' …' if len(cases) > 1 else ''} on {where}"[:200],
        queue=queues.BUILD if static and not queue.startswith(queues.BUILD) else queue,
        versions=dict(new),
        beside=dict(old),
        params=params,
        needs_environment=True,
        gpus=() if static else tuple(gpus),
        time_limit_s=budget_s + CONFIRM_GRACE_S,
        priority=priority,
    )


def _check_sides(old: Mapping[str, str], new: Mapping[str, str]) -> None:
    for name, versions in (("old", old), ("new", new)):
        if not library_of(versions):
            known = ", ".join(LIBRARIES)
            raise ValidationError({name: f"Expected versions of an environment with one of {known}."})
        for package, version in versions.items():
            if package != "cuda":
                try:
                    clean_version(version, candidates=True)
                except ValidationError as error:
                    raise ValidationError({name: f"{package}: {error.message}"}) from None
    if dict(old) == dict(new):
        raise ValidationError({"new": "Both sides are one environment: expected two that differ."})


def _check_confirmed(cases: Sequence[Case], bench: str, gpus: Sequence[str]) -> None:
    if bench not in CONFIRMING:
        raise ValidationError({"bench": f"{bench[:20]!r}: expected {', '.join(CONFIRMING)}."})
    if not 1 <= len(cases) <= MOST_CONFIRMED:
        raise ValidationError({"cases": f"{len(cases)} cases: expected 1 to {MOST_CONFIRMED}."})
    for case in cases:
        modules = isinstance(case, JitModule)
        of = "modules" if modules else "moe" if is_of_models(case) else "gemm"
        if of != bench or isinstance(case, Serving):
            raise ValidationError({"cases": f"{case} is not measured by the bench {bench}."})
    if bench == "moe" and gpus and gang_size(cases) != len(gpus):
        raise ValidationError(
            {"gpus": f"These cases take {gang_size(cases)} GPUs together, and {len(gpus)} would be held."}
        )


def request_cpu_models(
    cases: Sequence[Case],
    *,
    suite: str = "",
    user: User | None,
    source: Job.Source,
    waits_for: Run | None = None,
) -> tuple[Run, bool]:
    """Ask for steps of whole models on this host's CPUs. Returns (run, created). Raises ValidationError."""
    request = moe(cases, suite=suite, version=CPU_TORCH)
    return request_run(request, user=user, source=source, waits_for=waits_for)


def request_cpu_gemm(
    suite: str, *, user: User | None, source: Job.Source, waits_for: Run | None = None
) -> tuple[Run, bool]:
    """Ask for a GEMM suite on this host's CPUs. Returns (run, created). Raises ValidationError."""
    if suite not in SUITES:
        raise ValidationError(f"{suite[:40]!r} is not a suite; expected {', '.join(sorted(SUITES))}.")
    request = gemm(SUITES[suite], suite=suite, version=CPU_TORCH)
    return request_run(request, user=user, source=source, waits_for=waits_for)
