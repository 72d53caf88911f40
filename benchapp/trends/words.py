"""What a sweep says, in sentences. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from benchapp.catalog.versions import newest_order
from benchapp.trends.points import Point, kind_name
from benchapp.web.templatetags.units import NBSP, percent, si_time, tflops

#: ln of the ratio of two medians that a page calls a change: one value a side, no interval
CHANGED = math.log(1.05)


def headline(points: Sequence[Point]) -> str:
    """How near the ends of the best-filled line come to their roofline; without one, their time and rate."""
    line = _fullest(points)
    if not line:
        return f"Nothing measured here may rank as a speed: {_marked(points)}." if points else ""
    ends = [line[0]] if line[0].where == line[-1].where else [line[0], line[-1]]
    what = line[0].dtype or kind_name(line[0].kind)
    shares = [point.at("roofline") for point in ends]
    if all(shares):
        said = [
            f"{percent((share or 0) / 100)}{' (L2-warm)' if p.above_roofline else ''} at {p.where}"
            for share, p in zip(shares, ends, strict=True)
        ]
        reached = f"{what} reaches {' and '.join(said)} of what the hardware allows for this shape"
        return f"{reached}{_by(line[0], points)}."
    said = [f"{si_time(p.median)}{_rate(p)} at {p.where}" for p in ends]
    return f"{what} takes {' and '.join(said)}{_by(line[0], points)}."


def _by(point: Point, points: Sequence[Point]) -> str:
    """Whose line is told, where there are several."""
    ranked = [each for each in points if not each.mark]
    said = ""
    if point.backend and len({each.backend for each in ranked}) > 1:
        said = f", by {point.backend}"
    if len({each.version for each in ranked}) > 1:
        said += f"{'' if said else ','} in {point.version}"
    return said


def change(points: Sequence[Point]) -> str:
    """The largest change of one case and backend from its first version to its last, both free of cautions;
    empty where nothing has two versions."""
    cases: dict[tuple[object, ...], dict[str, Point]] = {}
    for point in sorted(points, key=lambda point: point.measured_at):
        if not (point.mark or point.caution or point.borrowed or not point.median):
            how = (point.timer, point.l2_policy)
            key = (point.where, point.dtype, point.backend, point.configuration, how)
            cases.setdefault(key, {})[point.version] = point
    ends = []
    for of in cases.values():
        versions = sorted(of, key=newest_order)
        if len(versions) > 1:
            ends.append((of[versions[0]], of[versions[-1]]))
    if not ends:
        return ""
    first, last = max(ends, key=lambda pair: abs(math.log((pair[1].median or 1) / (pair[0].median or 1))))
    factor = (first.median or 1) / (last.median or 1)
    library = f" ({last.library})" if last.library else ""
    what = ", ".join(filter(None, (last.where, last.dtype, f"{last.backend}{library}")))
    if abs(math.log(factor)) < CHANGED:
        return f"Nothing drawn changed by more than 5{NBSP}% from its first version to its last."
    if factor >= 2:
        told = f"{factor:.1f} times as fast"
    else:
        told = f"{percent(abs(1 - 1 / factor))} {'less' if factor > 1 else 'more'}"
    return (
        f"Largest change: {what} took {si_time(first.median)} in {first.version} and takes "
        f"{si_time(last.median)} in {last.version}, {told}."
    )


def _rate(point: Point) -> str:
    if point.flops and point.median:
        return f" ({tflops(point.flops / point.median)})"
    traffic = point.at("gbs")
    return f" ({traffic:,.0f}{NBSP}GB/s)" if traffic else ""


def about_bound(points: Sequence[Point]) -> str:
    """Why a small share of dense peak may be no fault of the kernel."""
    line = [point for point in _fullest(points) if point.bound_by]
    memory = [point for point in line if point.bound_by == "memory"]
    if not memory:
        return "Arithmetic sets the roofline throughout." if line else ""
    first = memory[0]
    if first.flops is None:
        return "Memory bandwidth alone sets that roofline: no peak is stated for its arithmetic."
    reached, of_roofline = first.at("peak") or 0, first.at("roofline") or 0
    allowed = reached / of_roofline if of_roofline else 0
    size = f"every {first.where.partition(NBSP)[0]}"
    until = f"at {size} here" if len(memory) == len(line) else f"up to {memory[-1].where}"
    return (
        f"Memory bandwidth sets that roofline {until}: at {first.where} this shape allows "
        f"no more than {percent(allowed)} of dense peak, whatever the kernel."
    )


def against_peaks(points: Sequence[Point]) -> tuple[str, str] | None:
    """The fastest point against the dense and against the 2:4 sparse peak: what each of the two would say.

    None where no point has both.
    """
    rated = [p for p in points if p.at("sparse") is not None]
    if not rated:
        return None
    best = max(rated, key=lambda point: point.at("tflops") or 0)
    limit = best.limit
    assert limit is not None
    dense = (
        f"{percent((best.at('peak') or 0) / 100)} of {(limit.peak or 0) / 1e12:,.0f} dense "
        f"({limit.clock_mhz or 0:,.0f}{NBSP}MHz)"
    )
    measured = best.at("peak_measured")
    if measured is not None:
        dense += f", {percent(measured / 100)} at the {best.clock_mhz or 0:,.0f}{NBSP}MHz it ran at"
    sparse = (
        f"{percent((best.at('sparse') or 0) / 100)} of {(limit.sparse or 0) / 1e12:,.0f}{NBSP}TFLOP/s sparse"
    )
    return (f"{tflops((best.at('tflops') or 0) * 1e12)} of {best.dtype} at {best.where} is {dense}", sparse)


def left_standing(points: Sequence[Point]) -> str:
    """What was counted out, and which flags stand on what was not."""
    flags = Counter(flag for point in points if not point.mark for flag in point.flag_words)
    said = []
    if any(point.mark for point in points):
        said.append(f"Marked and not ranked: {_marked(points)}.")
    if flags:
        counted = ", ".join(f"{flag} {number:,}" for flag, number in sorted(flags.items()))
        said.append(f"Flags on {len(points):,} points: {counted}.")
    return " ".join(said)


def _marked(points: Sequence[Point]) -> str:
    """ "6 incorrect, 4 unsupported" """
    marks = Counter(point.mark for point in points if point.mark)
    return ", ".join(f"{number:,} {mark}" for mark, number in sorted(marks.items()))


def how(points: Sequence[Point]) -> str:
    """By what timer, from which cache state, over how many samples; a number without these is none."""
    timed = [point for point in points if point.n]
    if not timed:
        return ""
    timers = " and ".join(sorted({point.timer for point in timed if point.timer})) or "unknown"
    policies = " and ".join(sorted({point.l2_policy for point in timed if point.l2_policy})) or "unknown"
    fewest, most = min(point.n for point in timed), max(point.n for point in timed)
    samples = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    plural = "" if most == 1 else "s"
    quartiles = ", band at the quartiles" if most > 1 else ""
    return f"Median of {samples} sample{plural}{quartiles}; timer {timers}, cache {policies}."


def drawn_so(points: Sequence[Point]) -> str:
    """What rings and hollow points mean, where there are any."""
    said = []
    if any(point.caution for point in points):
        said.append("Ringed points carry a flag.")
    if any(point.borrowed for point in points):
        said.append("Hollow points are borrowed from another version by their source.")
    return " ".join(said)


def ceilings(points: Sequence[Point]) -> list[str]:
    """Each dtype's peak with its clock, once."""
    said: dict[str, str] = {}
    for point in points:
        limit = point.limit
        if limit is None or point.dtype in said:
            continue
        bandwidth = f"{limit.bandwidth / 1e12:,.2f} TB/s ({limit.model}, datasheet)"
        peak = (
            f"dense peak {tflops(limit.peak)} at {limit.clock_mhz:,.0f} MHz, " if limit.peak else "bandwidth "
        )
        said[point.dtype] = f"{point.dtype}: {peak}{bandwidth}" if point.dtype else f"{peak}{bandwidth}"
    return list(said.values())


def recoverable(points: Sequence[Point], model: str) -> str:
    """How recoverable time is counted here: floors, and calls of which model's decode step."""
    counted = [point for point in points if point.at("recoverable") is not None]
    if not counted:
        return ""
    floors = sorted({(point.floor, point.timer) for point in counted if point.floor is not None})
    floor = (
        " and ".join(f"{si_time(seconds)} by {timer}" for seconds, timer in floors[:3])
        if floors
        else "unknown here, so that time is counted from the roofline alone"
    )
    calls = max(point.calls for point in counted)
    step = (
        f" × {calls:,} call{'' if calls == 1 else 's'} in a decode step of {model}"
        if model
        else " a call; no model known here computes this shape in a decode step"
    )
    return f"Recoverable: (time − the larger of roofline time and launch floor){step}. Launch floor {floor}."


def per_step(points: Sequence[Point], model: str) -> str:
    """Over what recoverable time is counted, for an axis: ", GLM-5 step: 75 calls"."""
    calls = max((point.calls for point in points), default=1)
    return f", {model} step: {calls:,} call{'' if calls == 1 else 's'}" if model else " a call"


def libraries(points: Sequence[Point]) -> str:
    """Which backends are NVIDIA's own libraries, whose speed no FlashInfer version makes."""
    named: dict[str, set[str]] = {}
    for point in points:
        if point.library:
            named.setdefault(point.library, set()).add(point.backend)
    return " ".join(
        f"{' and '.join(sorted(backends))}: {library}, so that a FlashInfer version changes little here."
        for library, backends in sorted(named.items())
    )


def _fullest(points: Sequence[Point]) -> list[Point]:
    """The ranked points of the line with most of them, by size; of several in the newest version the fastest
    at the largest size."""
    lines: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        if not point.mark:
            key = (point.dtype, point.version, point.backend, point.configuration)
            lines.setdefault(key, []).append(point)
    fullest = max(
        lines.values(),
        key=lambda line: (
            len({point.size for point in line}),
            newest_order(line[0].version),
            -(max(line, key=lambda point: point.size or 0).median or 0),
        ),
        default=[],
    )
    return sorted(fullest, key=lambda point: point.size or 0)
