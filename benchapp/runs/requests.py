"""What may be asked for: each request is checked here, whoever makes it."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from packaging.version import InvalidVersion, Version

from benchapp.catalog.models import Target
from benchapp.people.models import User
from benchapp.runs import queues
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run
from workers.bench.document import Tier
from workers.bench.gemm.suites import SUITES
from workers.bench.tiles.arches import ARCHES
from workers.bench.tiles.explorer.space import ARCHES as EXPLORED_ARCHES

#: The torch of CPU benchmarks.
CPU_TORCH = "2.13.0"
LONGEST_VERSION = 40
#: Whole compiles that one exploration may ask for.
MOST_FULL = 20
#: Background work: a sweep over releases takes most of an hour, an exploration minutes, full compiles hours.
SWEEP_PRIORITY, EXPLORE_PRIORITY, DEEP_PRIORITY = -2, -5, -10


def clean_version(text: str) -> str:
    """A PEP 440 version, normalised. Raises ValidationError."""
    text = text.strip()
    refusal = ValidationError(f"{text[:LONGEST_VERSION]!r} is not a version; expected one such as 0.6.3.")
    if len(text) > LONGEST_VERSION:
        raise refusal
    try:
        version = Version(text)
    except InvalidVersion:
        raise refusal from None
    if version.local or version.epoch:
        raise ValidationError("Local versions (with a +) and epochs (with a !) are not on the package index.")
    return str(version)


def clean_arch(text: str) -> str:
    if text not in ARCHES:
        raise ValidationError(
            f"{text[:20]!r} is not an architecture known here; expected {', '.join(ARCHES)}."
        )
    return text


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
    """Ask for the tile survey of a FlashInfer version. Returns (run, created). Raises ValidationError.

    Tier `full` compiles the bodies of whatever fits: hours, so it is always done in the background.
    """
    version, arch = clean_version(version), clean_arch(arch)
    if tier not in ("types", "full"):
        raise ValidationError(f"{tier[:20]!r} is not a tier to ask for; expected types or full.")
    deep = tier == "full"
    what = "Full compile of what fits in" if deep else "Tile survey of"
    request = Request(
        kind=Run.Kind.TILES,
        title=f"{what} FlashInfer {version} on {arch.upper()}",
        queue=queues.BUILD,
        versions={"flashinfer": version},
        params={"arch": arch, "tier": tier} if deep else {"arch": arch},
        target=_arch_target(arch),
        priority=DEEP_PRIORITY if deep else priority,
    )
    return request_run(request, user=user, source=source, waits_for=waits_for)


def request_exploration(
    version: str,
    arch: str,
    *,
    user: User | None,
    source: Job.Source,
    full: int = 0,
    rescue: bool = False,
) -> tuple[Run, bool]:
    """Ask which tiles that no release ships would fit, by the CUTLASS of a FlashInfer version.

    The `full` most promising are compiled whole too, a minute or two each. With `rescue` it asks which of
    the release's own kernels that overflow would fit with one stage less. Returns (run, created). Raises
    ValidationError.
    """
    version = clean_version(version)
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
    request = Request(
        kind=Run.Kind.TILES,
        title=f"{what} FlashInfer {version} on {arch.upper()}",
        queue=queues.BUILD,
        versions={"flashinfer": version},
        params=params,
        target=_arch_target(arch),
        priority=EXPLORE_PRIORITY,
    )
    return request_run(request, user=user, source=source)


def _arch_target(arch: str) -> Target:
    target, _ = Target.objects.get_or_create(
        key=f"arch:{arch}", defaults={"kind": Target.Kind.ARCH, "arch": arch}
    )
    return target


def request_cpu_gemm(
    suite: str, *, user: User | None, source: Job.Source, waits_for: Run | None = None
) -> tuple[Run, bool]:
    """Ask for a GEMM suite on this host's CPUs. Returns (run, created). Raises ValidationError."""
    if suite not in SUITES:
        raise ValidationError(f"{suite[:40]!r} is not a suite; expected {', '.join(sorted(SUITES))}.")
    cases: list[dict[str, Any]] = [case.params for case in SUITES[suite]]
    request = Request(
        kind=Run.Kind.GEMM,
        title=f"GEMM suite {suite} on this machine's CPUs",
        queue=queues.CPU,
        versions={"torch": CPU_TORCH},
        params={"device": "cpu", "suite": suite, "cases": cases},
        needs_environment=True,
    )
    return request_run(request, user=user, source=source, waits_for=waits_for)
