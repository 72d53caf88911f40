"""A collective by one backend, ready to be shown. Pure."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from benchapp.catalog.versions import version_order
from benchapp.moe.bandwidths import algorithm_bandwidth, bus_bandwidth
from benchapp.runs.ranking import DOUBTFUL
from benchapp.web.templatetags.units import percent, si_time
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.models import Model, models

KIND_NAMES = {"all_reduce": "all-reduce", "all_to_all": "all-to-all"}
#: All-reduces of a layer whose attention and experts tensor parallelism splits: one behind each.
REDUCES_A_LAYER = 2


@dataclasses.dataclass(frozen=True, slots=True)
class Exchange:
    """One message by one backend and version. Times in seconds; `mark` is empty where it may stand as a
    speed. `link` says how its GPUs were joined."""

    case: AllReduce | AllToAll
    backend: str
    version: str
    configuration: str
    link: str
    time: tuple[float, float, float] | None
    n: int
    timer: str
    outcome: str
    flags: tuple[str, ...]
    mark: str
    glyph: str
    role: str
    remark: str
    #: what the result was checked against, and how far it was off, in words
    reference: str
    error_words: str
    measured_at: dt.datetime
    href: str
    source: str

    @property
    def label(self) -> str:
        return " · ".join(filter(None, (self.backend, self.version, self.configuration)))

    @property
    def median(self) -> float | None:
        return self.time[0] if self.time and not self.mark else None

    @property
    def algorithm_bandwidth(self) -> float | None:
        return algorithm_bandwidth(self.case.message_bytes, self.median) if self.median else None

    @property
    def bus_bandwidth(self) -> float | None:
        if not self.median:
            return None
        return bus_bandwidth(self.case.kind, self.case.message_bytes, self.case.ranks, self.median)

    @property
    def flag_words(self) -> list[str]:
        return [flag.replace("_", " ") for flag in self.flags]

    @property
    def cautions(self) -> list[str]:
        return [flag.replace("_", " ") for flag in self.flags if flag in DOUBTFUL]


@dataclasses.dataclass(frozen=True, slots=True)
class DecodeStep:
    """A whole model's decode step, measured where the collectives were, split over as many GPUs."""

    model: str
    batch: int
    context: int
    seconds: float


def version_of(backend: str, stack: Mapping[str, Any]) -> str:
    """The version of what exchanges: NCCL's, FlashInfer's, and of gloo that of the torch it comes with."""
    library = backend.partition(".")[0]
    if library in stack:
        return str(stack[library])
    return f"torch {stack['torch']}" if "torch" in stack else "unknown version"


def link_words(properties: Mapping[str, Any], ranks: int) -> str:
    """How GPUs are joined, as their target tells it; "" where it tells nothing."""
    peer = {
        "all": "every GPU reaches every other’s memory",
        "some": "only some GPUs reach one another’s memory",
        "none": "no GPU reaches another’s memory",
    }.get(str(properties.get("peer_access", "")), "")
    return ", ".join(filter(None, (str(properties.get("link", "")), peer if ranks > 1 else "")))


def bandwidth_words(rate: float | None) -> str:
    """ "123 GB/s"; "–" without one."""
    if rate is None:
        return "–"
    gigabytes = rate / 1e9
    digits = f"{gigabytes:,.0f}" if gigabytes >= 100 else f"{gigabytes:.3g}"
    return f"{digits}\u00a0GB/s"


def ordered(exchanges: Sequence[Exchange]) -> list[Exchange]:
    return sorted(
        exchanges,
        key=lambda e: (e.case.tokens, e.backend, version_order(e.version), e.label, e.measured_at),
    )


def headline(exchanges: Sequence[Exchange]) -> str:
    """The quickest of the smallest message, and the most that crosses a link, with bytes and time."""
    ranked = [each for each in exchanges if each.median]
    if not ranked:
        return "Nothing measured here may stand as a speed." if exchanges else ""
    least = min(each.case.tokens for each in ranked)
    quick = min((each for each in ranked if each.case.tokens == least), key=lambda each: each.median or 0)
    wide = max(ranked, key=lambda each: each.bus_bandwidth or 0)
    first = (
        f"{_tokens(least)} ({quick.case.message_bytes:,.0f}\u00a0B) {'takes' if least == 1 else 'take'} "
        f"{si_time(quick.median)} by {quick.label}"
    )
    if len({each.case.tokens for each in ranked}) == 1:
        return f"{first}, {bandwidth_words(quick.bus_bandwidth)} of bus bandwidth."
    return (
        f"{first}; the most that crosses a link is {bandwidth_words(wide.bus_bandwidth)} of bus bandwidth, "
        f"at {_tokens(wide.case.tokens)} by {wide.label} ({wide.case.message_bytes:,.0f}\u00a0B in "
        f"{si_time(wide.median)})."
    )


def _tokens(tokens: int) -> str:
    return f"{tokens:,} token{'' if tokens == 1 else 's'}"


def in_a_step(exchanges: Sequence[Exchange], steps: Sequence[DecodeStep]) -> list[str]:
    """What the quickest all-reduce at each batch comes to in a decode step of the models of this width; with
    what share of the measured step that is, where there is one. Of another collective nothing."""
    said = []
    for model in models():
        quickest = _quickest(exchanges, model)
        measured = {step.batch: step for step in steps if step.model == model.name}
        for batch in _shown(sorted(quickest), measured):
            each = quickest[batch]
            calls = REDUCES_A_LAYER * model.layers
            total = calls * (each.median or 0)
            step = measured.get(batch)
            share = (
                f": {percent(total / step.seconds)} of the {si_time(step.seconds)} that its step was "
                f"measured to take with TP {each.case.ranks} at context {step.context:,}"
                if step
                else ""
            )
            said.append(
                f"{model.name} at batch {batch:,}: {calls:,} all-reduces × {si_time(each.median)} by "
                f"{each.label} = {si_time(total)} a step{share}."
            )
    return said


def _quickest(exchanges: Sequence[Exchange], model: Model) -> dict[int, Exchange]:
    """By tokens; empty where the collective is none of the model's."""
    fits = [
        each for each in exchanges
        if each.median and isinstance(each.case, AllReduce) and each.case.hidden == model.hidden
    ]  # fmt: skip
    return {
        tokens: min((each for each in fits if each.case.tokens == tokens), key=lambda each: each.median or 0)
        for tokens in {each.case.tokens for each in fits}
    }


def _shown(batches: Sequence[int], measured: Mapping[int, DecodeStep]) -> list[int]:
    """Those with a measured step, else the smallest and batch 64: enough to see what dominates."""
    with_step = [batch for batch in batches if batch in measured]
    return with_step or [batch for batch in batches if batch in (*batches[:1], 64)]
