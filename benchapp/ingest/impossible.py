"""Faster than the hardware allows: the kernel did not do the work."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from benchapp.catalog.models import Target
from benchapp.ingest import schema
from benchapp.runs.steps import COLLECTIVES, SERVING, STEPS
from workers.bench import hardware, model_work, roofline
from workers.bench.cases.base import Value, Work
from workers.bench.cases.model import Decode, Prefill
from workers.bench.cases.parse import from_params, work_of
from workers.bench.document import BenchError

#: Kinds without a bound: an exchange waits for links and other GPUs, and what a server does is not known.
UNBOUND = (*COLLECTIVES, SERVING)
#: Kinds whose work follows the routing that a document tells.
ROUTED = ("moe", "moe_layer")

#: (name, type, value) of each parameter: as keys, True and 1 are equal
_Key = tuple[tuple[str, type, Value], ...]


def is_impossible(item: schema.Measurement, target: Target) -> bool:
    """Whether a case's median undercuts the hard bound of its GPU.

    False wherever the bound is not known: no GPU, unknown model, kind, parameters or L2 policy.
    """
    if item.statistics is None or item.metric != "time" or item.l2_policy == "unknown":
        return False
    return roofline.is_impossible(item.statistics.median, hard_bound(item, target))


def hard_bound(item: schema.Measurement, target: Target) -> float | None:
    """Seconds that no kernel can beat for a measurement's case, before the margin; None: not known."""
    model = hardware.lookup(target.model)
    if model is None:
        return None
    work = _work_seen(item)
    l2_bytes = target.properties.get("l2_bytes") or model.l2_bytes
    if work is None or l2_bytes is None:
        return None
    return roofline.hard_bound(
        flops=work.flops,
        highest_peak=model.highest_peak(work.rate, item.readings.sm_clock_mhz_max if item.readings else None),
        read_bytes=work.read_bytes,
        write_bytes=work.write_bytes,
        bandwidth=model.bandwidth,
        l2_bytes=l2_bytes,
        l2_policy=item.l2_policy,
    )


def _work_seen(item: schema.Measurement) -> Work | None:
    """Of a model's step, that of the experts really hit, in the middle of its window: a routing that hits few
    experts reads few weights. Of a layer whose routing was drawn, what the document counted by it."""
    if item.kind in UNBOUND:
        return None
    if item.kind not in STEPS:
        work = _work_of(item.kind, item.params)
        if work is None or item.kind not in ROUTED or not item.routing:
            return work
        if item.flops is None or item.bytes is None:
            return work
        share = item.bytes / work.bytes
        return Work(item.flops, work.read_bytes * share, work.write_bytes * share, work.rate)
    if item.step is None or item.step.experts_hit is None:
        return None
    try:
        case = from_params(item.kind, item.params, item.kind)
    except BenchError:
        return None
    if not isinstance(case, Decode | Prefill):
        return None
    grown = item.step.steps // 2 if isinstance(case, Decode) else 0
    # every token goes to so many at least
    hit = max(item.step.experts_hit, float(case.layout.model.top_k))
    return model_work.step_work(case.layout, case.phase, case.batch, case.context + grown, hit)


def _work_of(kind: str, params: Mapping[str, Value]) -> Work | None:
    return _work(kind, tuple((name, type(value), value) for name, value in params.items()))


@functools.lru_cache(maxsize=65_536)
def _work(kind: str, params: _Key) -> Work | None:
    return work_of(kind, {name: value for name, _, value in params})
