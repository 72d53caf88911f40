"""What a sweep says, in sentences. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchapp.trends.queries import Point
from benchapp.web.templatetags.units import percent, si_time, tflops


def headline(points: Sequence[Point]) -> str:
    """How near the ends of the best-filled line come to their roofline; without one, their time and rate."""
    line = _fullest(points)
    if not line:
        return "Nothing measured here may rank as a speed." if points else ""
    ends = [line[0]] if line[0].m == line[-1].m else [line[0], line[-1]]
    shares = [point.at("roofline", point.median) for point in ends]
    if all(share is not None for share in shares):
        said = [
            f"{percent((share or 0) / 100)} at M\u00a0=\u00a0{p.m:,}"
            for share, p in zip(shares, ends, strict=True)
        ]
        return f"{line[0].dtype} reaches {' and '.join(said)} of what the hardware allows for this shape."
    said = [
        f"{si_time(p.median)} ({tflops((p.flops or 0) / (p.median or 1))}) at M\u00a0=\u00a0{p.m:,}"
        for p in ends
    ]
    return f"{line[0].dtype} takes {' and '.join(said)}."


def about_bound(points: Sequence[Point]) -> str:
    """Why a small share of dense peak may be no fault of the kernel."""
    line = [point for point in _fullest(points) if point.bound_by]
    memory = [point for point in line if point.bound_by == "memory"]
    if not memory:
        return "Arithmetic sets the roofline throughout." if line else ""
    first = memory[0]
    reached, of_roofline = first.at("peak", first.median) or 0, first.at("roofline", first.median) or 0
    allowed = reached / of_roofline if of_roofline else 0
    until = "at every M here" if len(memory) == len(line) else f"up to M\u00a0=\u00a0{memory[-1].m:,}"
    return (
        f"Memory bandwidth sets that roofline {until}: at M\u00a0=\u00a0{first.m:,} this shape allows "
        f"no more than {percent(allowed)} of dense peak, whatever the kernel."
    )


def left_standing(points: Sequence[Point]) -> str:
    """What was counted out, and which flags stand on what was not."""
    marks = Counter(point.mark for point in points if point.mark)
    flags = Counter(flag for point in points if not point.mark for flag in point.flag_words)
    said = []
    if marks:
        counted = ", ".join(f"{number} {mark}" for mark, number in sorted(marks.items()))
        said.append(f"Marked and not ranked: {counted}.")
    if flags:
        counted = ", ".join(f"{flag} {number}" for flag, number in sorted(flags.items()))
        said.append(f"Flags on {len(points)} points: {counted}.")
    return " ".join(said)


def how(points: Sequence[Point]) -> str:
    """By what timer, from which cache state, over how many samples; a number without these is none."""
    timed = [point for point in points if point.n]
    if not timed:
        return ""
    timers = " and ".join(sorted({point.timer for point in timed if point.timer})) or "an unknown timer"
    policies = " and ".join(sorted({point.l2_policy for point in timed if point.l2_policy})) or "unknown"
    fewest, most = min(point.n for point in timed), max(point.n for point in timed)
    samples = f"{fewest:,}" if fewest == most else f"{fewest:,} to {most:,}"
    return f"Median of {samples} samples, whiskers at the quartiles; timer {timers}, cache {policies}."


def ceilings(points: Sequence[Point]) -> list[str]:
    """Each dtype's peak with its clock, once."""
    said = {}
    for point in points:
        if (limit := point.limit) is not None and point.dtype not in said:
            said[point.dtype] = (
                f"{point.dtype}: dense peak {tflops(limit.peak)} at {limit.clock_mhz:,.0f} MHz, "
                f"{limit.bandwidth / 1e12:,.2f} TB/s ({limit.model}, datasheet)"
            )
    return list(said.values())


def _fullest(points: Sequence[Point]) -> list[Point]:
    """The ranked points of the line with most of them, by M."""
    lines: dict[tuple[str, str, str], list[Point]] = {}
    for point in points:
        if not point.mark:
            lines.setdefault((point.dtype, point.version, point.backend), []).append(point)
    fullest = max(
        lines.values(), key=lambda line: (len({point.m for point in line}), line[0].measured_at), default=[]
    )
    return sorted(fullest, key=lambda point: point.m)
