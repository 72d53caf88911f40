"""What a page of steps says in words, and its bars. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from benchapp.moe.change import Change
from benchapp.moe.points import Point
from benchapp.runs import steps
from workers.bench.document import Part

VERDICTS = {"better": "faster", "worse": "slower", "same": "the same", "uncertain": "uncertain"}
#: A part that changed by less than this share of the step is not named.
NAMED_FROM = 0.005
#: Libraries whose kernels are no measured library's: they belong to this bench.
OURS = frozenset({"triton", "torch", "cuda", "tilewatch"})

#: Parts that the backend of the routed experts computes.
EXPERTS: tuple[Part, ...] = ("dispatch", "fc1", "activation", "fc2", "combine")


def rate_words(rate: float | None) -> str:
    if rate is None:
        return "–"
    return f"{rate:,.0f}" if rate >= 100 else f"{rate:.3g}"


def seconds(value: float) -> str:
    return f"{value * 1e3:,.3g}\u00a0ms" if abs(value) >= 1e-3 else f"{value * 1e6:,.3g}\u00a0µs"


@dataclasses.dataclass(frozen=True, slots=True)
class Bar:
    """A part of a traced step: where it starts and how wide it is, in thousandths of the longest step."""

    part: str
    name: str
    seconds: float
    share: float
    x: float
    width: float


def bars(point: Point, longest: float) -> list[Bar]:
    """The parts in their fixed order, the gaps last; empty where the step was not traced."""
    if point.step is None or not point.step.parts or longest <= 0:
        return []
    parts, start, found = point.step.parts, 0.0, []
    total = sum(parts.values()) or 1.0
    for part in steps.PARTS:
        value = parts.get(part, 0.0)
        if value > 0:
            wide = 1000 * value / longest
            found.append(Bar(part, steps.part_name(part), value, value / total, start, wide))
            start += wide
    return found


def shares(point: Point) -> str:
    """How the traced step splits between libraries that are measured, this bench's kernels and gaps."""
    step = point.step
    if step is None or not step.libraries or not step.parts:
        return ""
    gaps = step.parts.get("gaps", 0.0)
    ours = sum(value for name, value in step.libraries.items() if name in OURS)
    measured = sum(value for name, value in step.libraries.items() if name not in OURS)
    total = gaps + ours + measured
    if total <= 0:
        return ""
    said = ", ".join(
        f"{name} {value / total:.1%}"
        for name, value in sorted(step.libraries.items(), key=lambda each: -each[1])
    )
    told = (
        f"measured libraries {measured / total:.1%} / torch, Triton and CUDA copies {ours / total:.1%} / "
        f"gaps {gaps / total:.1%} ({said})"
    )
    routed = point.backend.partition("+")[2]
    if routed.partition(".")[0] not in OURS:
        return told
    experts = min(ours, sum(step.parts.get(part, 0.0) for part in EXPERTS))
    return (
        f"{told}; {routed} is held constant over versions, and beside its {experts / total:.1%} kernels "
        f"of no measured library and gaps take {(ours - experts + gaps) / total:.1%}"
    )


def traced(point: Point) -> str:
    """The traced step beside the untraced one; "" where none was traced."""
    if point.step is None or point.step.traced_s is None or point.time is None or point.mark:
        return ""
    inside, outside = point.step.traced_s, point.time[0]
    said = f"traced {seconds(inside)}, untraced {seconds(outside)} ({inside / outside - 1:+.1%})"
    if point.step.overlap_s:
        said += f"; kernels overlap by {seconds(point.step.overlap_s)}"
    return said


def moved(before: Point, after: Point) -> list[tuple[str, float]]:
    """(part, seconds more) of two traced steps, what grew most first; what hardly changed left out."""
    if before.ranked is None or after.ranked is None or not before.ranked.parts or not after.ranked.parts:
        return []
    old, new = before.ranked.parts, after.ranked.parts
    least = NAMED_FROM * sum(old.values())
    found = [(steps.part_name(part), new.get(part, 0.0) - old.get(part, 0.0)) for part in steps.PARTS]
    return sorted((each for each in found if abs(each[1]) >= least), key=lambda each: -each[1])


def moved_words(before: Point, after: Point) -> str:
    """ "From 0.6.13 to 0.6.18 grew: FC1 by 1.2 ms (+4.0 %); shrank: …"; "" where neither can be told."""
    if not (before.ranked and after.ranked and before.ranked.parts and after.ranked.parts):
        return ""
    found = moved(before, after)
    if not found:
        return f"From {before.version} to {after.version} no part changed by 0.5 % of the step."
    old = {steps.part_name(part): value for part, value in before.ranked.parts.items()}
    grew = [_moved_by(name, value, old) for name, value in found if value > 0]
    shrank = [_moved_by(name, value, old) for name, value in reversed(found) if value < 0]
    said = [f"grew: {', '.join(grew[:3])}"] if grew else []
    said += [f"shrank: {', '.join(shrank[:3])}"] if shrank else []
    return f"From {before.version} to {after.version} {'; '.join(said)}."


def _moved_by(name: str, value: float, old: Mapping[str, float]) -> str:
    said = f"{name} by {seconds(abs(value))}"
    return f"{said} ({value / old[name]:+.1%})" if old.get(name) else f"{said} (from nothing)"


def change_words(found: Change) -> str:
    more = "more" if found.ratio >= 1 else "less"
    said = f"{abs(found.percent):.1f} % {more} than with {found.before}: {VERDICTS[found.verdict]}"
    return f"{said} ({found.why})" if found.why else said


def headline(
    points: Sequence[Point],
    batch: int,
    versions: Sequence[str],
    pairs: Mapping[int, tuple[Point, Change | None]],
) -> str:
    """The newest version's best tok/s at a batch, its change and the part that changed most."""
    at = [point for point in points if point.case.batch == batch]
    ranked = [point for point in at if point.rate]
    newest = next((version for version in versions if any(p.version == version for p in at)), "")
    if not ranked:
        return f"At batch {batch:,} nothing measured may stand as a speed; the table says what happened."
    told = next(version for version in versions if any(point.version == version for point in ranked))
    best = max((point for point in ranked if point.version == told), key=lambda point: point.rate or 0.0)
    said = f"{rate_words(best.rate)} tok/s at batch {batch:,} with {told} by {best.backend} ({best.window}"
    said += f"; {best.sliced})." if best.sliced else ")."
    if told != newest:
        said += f" {newest} has no speed here."
    before, changed = pairs.get(best.measurement, (None, None))
    if before is not None and changed is not None:
        said += f" That is {change_words(changed)}."
        most = max(moved(before, best), key=lambda each: abs(each[1]), default=None)
        if most:
            said += (
                f" {'Grew' if most[1] > 0 else 'Shrank'} most: {most[0]}, by {seconds(abs(most[1]))} a step."
            )
    return said
