"""What a whole model's step, or a server under load, told: read from `Measurement.facts`; its rates. Pure.

tok/s is tokens over the timed window. Of a slice it is the projected step's, and `layers_words` says so; no
page shows the one without the other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_args

from workers.bench.document import Part, Percentiles, Serving, Step

#: Kinds of case that whole models have, and servers.
STEPS = ("decode", "prefill")
SERVING = "serving"
COLLECTIVES = ("all_reduce", "all_to_all")
#: Parts of a step in the order in which pages show them; the gaps are last.
PARTS: tuple[Part, ...] = get_args(Part)
PART_NAMES: dict[str, str] = {
    "norms": "norms",
    "fc1": "FC1 (gate, up)",
    "fc2": "FC2 (down)",
    "shared": "shared expert",
    "dense": "dense layers",
    "gaps": "gaps between kernels",
}
#: What one step of a kind is called.
STEP_NAMES = {"decode": "step", "prefill": "prefill"}

_STEP = frozenset(field.name for field in dataclasses.fields(Step))
_SERVING = frozenset(field.name for field in dataclasses.fields(Serving))
_PERCENTILES = ("ttft", "tpot", "itl", "latency")


def step_of(facts: Mapping[str, Any] | None) -> Step | None:
    """The step that facts tell of; None where they tell of none. Fields that are not read may be missing."""
    if not facts or facts.get("window_s") is None or facts.get("steps") is None:
        return None
    told = {name: value for name, value in facts.items() if name in _STEP and value is not None}
    for name in ("rank_medians", "routing", "left_out"):
        told[name] = tuple(told.get(name, ()))
    return Step(**told)


def serving_of(facts: Mapping[str, Any] | None) -> Serving | None:
    """What a load generator saw; None where facts tell of no server."""
    if not facts or facts.get("sent") is None:
        return None
    told = {name: value for name, value in facts.items() if name in _SERVING and value is not None}
    for name in _PERCENTILES:
        if name in told:
            told[name] = Percentiles(**told[name])
    return Serving(**told)


def part_name(part: str) -> str:
    return PART_NAMES.get(part, part)


def is_slice(step: Step) -> bool:
    return step.projected_s is not None


def tokens_a_step(step: Step) -> float:
    return step.tokens / step.steps


def step_seconds(step: Step) -> float:
    """Seconds of one step of the whole model: as the window has it, of a slice as projected."""
    return step.window_s / step.steps if step.projected_s is None else step.projected_s


def rate(step: Step) -> float:
    """Tokens a second of all GPUs together; of a slice those of the projected step."""
    return tokens_a_step(step) / step_seconds(step)


def per_gpu(step: Step) -> float:
    return rate(step) / max(1, step.gpus)


def per_watt(step: Step) -> float | None:
    """Tokens a joule: tok/s of all GPUs over their power together. None of a slice, whose GPUs draw the power
    of another load, and where power was not read."""
    return None if is_slice(step) or not step.power_w else rate(step) / step.power_w


def layers_words(step: Step) -> str:
    """ "26 of 78 layers, projected"; "" of a whole model."""
    return f"{step.layers} of {step.layers_total} layers, projected" if is_slice(step) else ""


def window_words(kind: str, step: Step) -> str:
    """Numerator and window: "64 tokens a step × 300 steps in 4.10 s"."""
    name = STEP_NAMES.get(kind, "step")
    tokens = tokens_a_step(step)
    each = f"{tokens:,.0f}" if abs(tokens - round(tokens)) < 0.05 else f"{tokens:,.1f}"
    some = "token" if each == "1" else "tokens"
    many = name if step.steps == 1 else f"{name}s"
    return f"{each} {some} a {name} × {step.steps:,} {many} in {_seconds(step.window_s)}"


def _seconds(seconds: float) -> str:
    if seconds >= 100:
        return f"{seconds:,.0f}\u00a0s"
    if seconds >= 0.1:
        return f"{seconds:.3g}\u00a0s"
    return f"{seconds * 1e3:.3g}\u00a0ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g}\u00a0µs"


def output_rate(serving: Serving) -> float:
    """Tokens a second that a server put out, of requests that ended well."""
    return serving.output_tokens / serving.window_s


def serving_words(serving: Serving) -> str:
    """Numerator and window of a server's tok/s."""
    return (
        f"{serving.output_tokens:,} tokens out of {serving.completed:,} requests in "
        f"{_seconds(serving.window_s)}"
    )
