"""Shared memory, need against limit, as one bar: operands stage by stage, scales, epilogue, rest, padding."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

#: The bar's parts from left to right: class in the style sheet, and what it says.
PARTS = {
    "operands": "operands",
    "scales": "scales",
    "epilogue": "epilogue",
    "rest": "pipelines, scheduler, tensor maps",
    "padding": "padding",
}
#: Width of the bar's drawing in its own units.
BAR_WIDTH = 1000
#: A bar is divided into no more stages than a reader could tell apart.
MOST_TICKS = 24


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """A part of the shared memory needed; `x` and `width` in units of the drawing."""

    name: str
    bytes: int
    look: str
    x: float
    width: float


@dataclasses.dataclass(frozen=True, slots=True)
class Predicted:
    """What CUTLASS's own arithmetic promises, as a mark on the bar."""

    bytes: int
    stages: int | None
    x: float


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """Need against limit, as one bar."""

    need_bytes: int
    limit_bytes: int
    segments: tuple[Segment, ...]
    limit_x: float
    over: Segment | None
    #: borders between the operands of two stages
    ticks: tuple[float, ...] = ()
    predicted: Predicted | None = None
    #: in how many stages, and the operands and scales of one of them
    stages: int | None = None
    stage_bytes: int | None = None


def budget(
    need: int | None,
    limit: int | None,
    parts: Mapping[str, int],
    *,
    stages: int | None = None,
    predicted_bytes: int | None = None,
    predicted_stages: int | None = None,
) -> Budget | None:
    """The bar; None where need or limit is unknown. `parts` are drawn where they sum to the need."""
    if not need or not limit:
        return None
    scale = BAR_WIDTH / max(need, limit, predicted_bytes or 0)
    of_look: dict[str, int] = {}
    if sum(parts.values()) == need:
        for name, part in parts.items():
            of_look[_look(name)] = of_look.get(_look(name), 0) + part
    names = PARTS if of_look else {"operands": "needed"}
    segments = []
    at = 0
    for look, name in names.items():
        if part := of_look.get(look, 0) if of_look else need:
            segments.append(Segment(name, part, look, round(at * scale, 1), round(part * scale, 1)))
            at += part
    over = None
    if need > limit:
        over = Segment(
            "over", need - limit, "over", round(limit * scale, 1), round((need - limit) * scale, 1)
        )
    operands, scales = of_look.get("operands", 0), of_look.get("scales", 0)
    # every stage holds the same; what does not divide is no sum of stages, and is left whole
    divides = bool(stages and operands) and operands % (stages or 1) == scales % (stages or 1) == 0
    ticks = range(1, stages or 0) if divides and (stages or 0) <= MOST_TICKS else ()
    return Budget(
        need_bytes=need,
        limit_bytes=limit,
        segments=tuple(segments),
        limit_x=round(limit * scale, 1),
        over=over,
        ticks=tuple(round(operands * tick / (stages or 1) * scale, 1) for tick in ticks),
        predicted=(
            None
            if predicted_bytes is None
            else Predicted(predicted_bytes, predicted_stages, round(predicted_bytes * scale, 1))
        ),
        stages=stages if divides else None,
        stage_bytes=(operands + scales) // (stages or 1) if divides else None,
    )


def _look(name: str) -> str:
    """The look of a part, by its name in the evidence."""
    if name.startswith("scale"):
        return "scales"
    if name.startswith("operand"):
        return "operands"
    return name if name in ("epilogue", "padding") else "rest"
