"""What a run says of a whole model's step, of a server under load and of a collective, in words. Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from benchapp.runs import steps
from benchapp.web.templatetags.units import byte_size, si_time
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.cases.parse import from_params
from workers.bench.document import BenchError, Percentiles, Serving, Step

#: Parts of a step that are named, the largest first.
PARTS_NAMED = 3


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """`rate` in words, "" where none is meant; `lines` say what it is made of."""

    rate: str
    lines: tuple[str, ...]


def told(
    kind: str, params: Mapping[str, Any], facts: Mapping[str, Any] | None, median: float | None
) -> Told | None:
    """None of other kinds: these have FLOP/s."""
    if kind in steps.STEPS:
        step = steps.step_of(facts)
        return Told("", ()) if step is None else _of_step(kind, step, median)
    if kind == steps.SERVING:
        serving = steps.serving_of(facts)
        return Told("", ()) if serving is None else _of_serving(serving)
    if kind in steps.COLLECTIVES:
        return Told("", _of_collective(kind, params))
    return None


def rate_words(step: Step) -> str:
    """ "3,449 tok/s", of a slice with what is projected."""
    return ", ".join(filter(None, (f"{steps.rate(step):,.0f} tok/s", steps.layers_words(step))))


def _of_step(kind: str, step: Step, median: float | None) -> Told:
    name = "TPOT" if kind == "decode" else "prefill"
    lines = [steps.window_words(kind, step) + (" with those layers" if steps.is_slice(step) else "")]
    if steps.is_slice(step):
        lines.append(f"{name} {si_time(steps.step_seconds(step))}, projected")
    elif median is not None:
        lines.append(f"{name} {si_time(median)}")
    if step.parts and step.traced_s:
        largest = sorted(step.parts.items(), key=lambda part: -part[1])[:PARTS_NAMED]
        named = (
            f"{steps.part_name(part)} {si_time(seconds)} ({seconds / step.traced_s:.0%})"
            for part, seconds in largest
        )
        lines.append(f"largest parts of a traced {steps.STEP_NAMES[kind]}: {', '.join(named)}")
    lines.append(
        f"memory of the fullest GPU: weights {byte_size(step.weight_bytes)}, "
        f"KV cache {byte_size(step.kv_bytes)}, peak {byte_size(step.peak_memory_bytes)}"
    )
    if step.experts_hit is not None:
        lines.append(f"experts hit: {step.experts_hit:,.1f} a layer")
    return Told(rate_words(step), (*lines, *step.left_out))


def _of_serving(serving: Serving) -> Told:
    lines = [steps.serving_words(serving)]
    lines += [
        f"{name} p50 {si_time(seen.p50)}, p99 {si_time(seen.p99)}"
        for name, seen in (("TTFT", serving.ttft), ("TPOT", serving.tpot))
        if isinstance(seen, Percentiles)
    ]
    failed = ", ".join(f"{number:,} {name.replace('_', ' ')}" for name, number in serving.errors.items())
    lines.append(f"errors: {failed or 'none'}")
    return Told(f"{steps.output_rate(serving):,.0f} tok/s out" if serving.completed else "", tuple(lines))


def _of_collective(kind: str, params: Mapping[str, Any]) -> tuple[str, ...]:
    try:
        case = from_params(kind, dict(params), kind)
    except BenchError:
        return ()
    assert isinstance(case, AllReduce | AllToAll)
    return (f"{byte_size(case.message_bytes)} a rank, {case.ranks} ranks",)
