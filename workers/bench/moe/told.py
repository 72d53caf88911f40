"""Measurements of a gang: from what rank 0 says, and with what a trace adds. Pure."""

from __future__ import annotations

import dataclasses
from typing import Any

from workers.bench.cases import parse
from workers.bench.document import Measurement, Step
from workers.bench.gemm.results import rebuild as rebuild_plain
from workers.bench.gemm.untimed import without_time

#: of the untraced step, by which a traced one may differ before it is said
AGREEMENT = 0.05
_LISTS = ("rank_medians", "routing", "left_out")


def rebuild(told: dict[str, Any]) -> Measurement:
    """A Measurement, with its Step, from the JSON of its dataclass."""
    step = told.pop("step", None)
    plain = rebuild_plain({**told, "step": None})
    if step is None:
        return plain
    return dataclasses.replace(plain, step=Step(**{**step, **{name: tuple(step[name]) for name in _LISTS}}))


def with_trace(measured: Measurement, trace: dict[str, Any]) -> Measurement:
    """`measured` with the parts of its step; of fewer layers than the model has, with the whole projected if
    the time of a layer was seen."""
    assert measured.step is not None
    step = dataclasses.replace(
        measured.step,
        parts=trace["parts"],
        libraries=trace["libraries"],
        traced_s=trace["traced_s"],
        overlap_s=trace["overlap_s"],
        kernels=trace["kernels"],
    )
    traced = dataclasses.replace(measured, step=step, kernel=trace["kernel"] and trace["kernel"][:300])
    missing = step.layers_total - step.layers
    layer_s, found = trace["layer_s"], measured.statistics
    if not missing or layer_s is None or found is None:
        return traced
    layer = layer_s * found.median / trace["traced_s"]
    words = (
        f"{step.layers} of {step.layers_total} layers, projected: {missing} more of {layer * 1e6:,.1f} µs"
        " each, as between two layers with experts in the traced step."
    )
    whole = dataclasses.replace(
        step, projected_s=found.median + missing * layer, left_out=(words, *step.left_out)
    )
    return dataclasses.replace(traced, step=whole)


def stands(measured: Measurement) -> bool:
    """Whether it may be told: a slice only with the projection of the whole."""
    step = measured.step
    return step is None or step.layers == step.layers_total or step.projected_s is not None


def complete(measured: Measurement) -> Measurement:
    """`measured`, but no time of a slice whose whole model could not be projected: it would be told alone.

    One step of the whole is that of the layers measured, and for each one missing the time between two layers
    with experts, as traced and scaled to the untraced step.
    """
    if stands(measured):
        return measured
    case = parse.from_params(measured.kind, measured.params, measured.kind)
    why = "measured as a slice, but the time of one layer was not traced; it takes two with experts"
    return without_time(case, measured.backend, "unsupported", f"{case}: {why}.")


def disagreement(measured: Measurement) -> str | None:
    """A sentence where the traced step is not as long as the untraced one."""
    step, found = measured.step, measured.statistics
    if step is None or found is None or step.traced_s is None:
        return None
    difference = step.traced_s / found.median - 1
    if abs(difference) <= AGREEMENT:
        return None
    label = f"{measured.kind} of {measured.params['model']}, batch {measured.params['batch']}"
    return (
        f"{label}, context {measured.params['context']}, by {measured.backend}: the traced step took"
        f" {step.traced_s * 1e3:,.3f} ms, the untraced one {found.median * 1e3:,.3f} ms ({difference:+.1%})."
    )
