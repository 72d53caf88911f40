"""Which of the versions that differ explains a move, from all that the moved series have crossed. Pure.

Every pair of successive stacks that a series was measured with is a *crossing*: some components changed, and
the series moved or did not. A component that often changed without a move is a poor suspect; one that changed
where others did not, and the series moved, is a good one.

The score of a component is (moved + 1) / (crossed + 2) over the crossings beyond the alert's own stack change
in which it changed (Laplace's rule of succession: 1/2 where there are none), times a prior: the library whose
kernels a backend runs explains its moves better than what only came along. A component that changed elsewhere
without any other suspect, and never with a move, is exonerated: a tenth remains. Shares are scores over their
sum.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from benchapp.trends.components import component_order
from workers.bench.backends import library_of

#: Prior of a component whose kernels the moved backends run, of what they are made with, of the rest.
OWN, MADE_WITH, ALONG = 8.0, 2.0, 1.0
_EXONERATED = 0.1
#: What a library's kernels are made with, come from, or lie on.
_BELOW = {
    "flashinfer": ("cutlass", "cutlass-dsl", "tvm-ffi", "cudnn-frontend", "toolkit", "triton"),
    "cublas": ("driver", "toolkit"),
    "cudnn": ("cudnn-frontend", "driver"),
    "torch": ("toolkit", "triton"),
}
_PACKAGES = {"cuBLAS": "cublas", "cuDNN": "cudnn"}


@dataclasses.dataclass(frozen=True, slots=True)
class Differs:
    """One component of a stack change; "" where it is not there."""

    component: str
    before: str
    after: str

    def __str__(self) -> str:
        if self.before and self.after:
            return f"{self.component} {self.before} → {self.after}"
        return (
            f"{self.component} {self.after} (new)" if self.after else f"{self.component} {self.before} (gone)"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Crossing:
    """One series going from a stack to the next: what changed, and whether it moved."""

    components: frozenset[str]
    moved: bool
    own: bool  # of the stack change that is asked about


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Differs, ...]:
    """What differs between two stacks, the stack's own library first."""
    names = sorted(before.keys() | after.keys(), key=component_order)
    return tuple(
        Differs(name, str(before.get(name, "")), str(after.get(name, "")))
        for name in names
        if before.get(name) != after.get(name)
    )


def owner(backend: str) -> str:
    """The component whose kernels a backend runs: cublas of "flashinfer.bmm_fp8.cublas" and "torch.mm"."""
    library = library_of(backend)
    return _PACKAGES[library] if library else backend.partition(".")[0].partition("+")[0]


def rank(
    differs: Sequence[Differs], backends: Iterable[str], crossings: Iterable[Crossing]
) -> list[dict[str, Any]]:
    """[{component, before, after, share, why}], the likeliest first. Shares add up to 1."""
    owners = Counter(owner(backend) for backend in backends)
    listed = list(crossings)
    names = {each.component for each in differs}
    found = []
    for each in differs:
        name = each.component
        mine = [c for c in listed if name in c.components]
        here = [c for c in mine if c.own]
        elsewhere = [c for c in mine if not c.own]
        moved = sum(c.moved for c in elsewhere)
        score = (moved + 1) / (len(elsewhere) + 2) * _prior(name, owners)
        alone = [c for c in elsewhere if not (c.components & names) - {name}]
        if alone and not any(c.moved for c in alone):
            score *= _EXONERATED
        found.append((score, each, _why(name, here, elsewhere, alone, owners)))
    total = sum(score for score, _, _ in found) or 1.0
    found.sort(key=lambda one: -one[0])
    return [
        {**dataclasses.asdict(each), "share": round(score / total, 3), "why": why}
        for score, each, why in found
    ]


def _prior(name: str, owners: Counter[str]) -> float:
    if not owners:
        return ALONG
    priors = {
        own: OWN if name == own else MADE_WITH if name in _BELOW.get(own, ()) else ALONG for own in owners
    }
    return sum(priors[own] * count for own, count in owners.items()) / owners.total()


def _why(
    name: str,
    here: Sequence[Crossing],
    elsewhere: Sequence[Crossing],
    alone: Sequence[Crossing],
    owners: Counter[str],
) -> str:
    words = []
    if owners[name]:
        words.append(f"its kernels are what {owners[name]} of {owners.total()} moved series run")
    if here:
        words.append(f"{sum(c.moved for c in here)} of {len(here)} moved here, where it changed")
    if alone:
        words.append(
            f"where it changed without the others {sum(c.moved for c in alone)} of {len(alone)} moved"
        )
    elif elsewhere:
        words.append(f"where else it changed {sum(c.moved for c in elsewhere)} of {len(elsewhere)} moved")
    else:
        words.append("it changed nowhere else that was measured")
    return "; ".join(words)
