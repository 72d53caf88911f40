"""What an A/B says of an alert: one verdict and one sentence out of the verdicts of its cases. Pure."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Sequence
from typing import Any, Protocol

from benchapp.alerts.models import Alert

Verdict = Alert.Verdict

METRICS = {"time": "time", "host_time": "host time", "cpu_time": "CPU time of its build", "size": "its size"}


class Compared(Protocol):
    """Of `benchapp.alerts.models.Comparison`."""

    verdict: str
    metric: str
    ratio: float | None
    low: float | None
    high: float | None
    pairs: int
    in_cycles: bool
    facts: dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Tried:
    """One case: what its own metric says, and beside GPU time what host time does."""

    label: str
    main: Compared
    host: Compared | None = None
    on_gpu: bool = False


def decide(tried: Sequence[Tried], *, worse: bool) -> tuple[str, str]:
    """(verdict, sentence), of at least one case, the strongest first.

    The strongest decides. It decides nothing where another one moved while it stands still, where two moved
    in different directions, and where it moved the other way than its series said.
    """
    first, *others = tried
    said = str(first.main.verdict)
    moved = {str(each.main.verdict) for each in tried} & {Verdict.SLOW, Verdict.FAST}
    sentence = words(first)
    counted = Counter(str(each.main.verdict) for each in others)
    if counted:
        told = ", ".join(f"{number} {verdict}" for verdict, number in sorted(counted.items()))
        sentence += f" Of {len(others)} more case{'s' * (len(others) != 1)}: {told}."
    if said == Verdict.SAME and moved:
        return Verdict.AMBG, f"{sentence} The cases disagree."
    if len(moved) > 1:
        return Verdict.AMBG, f"{sentence} The cases disagree."
    expected = Verdict.SLOW if worse else Verdict.FAST
    if moved and said in moved and said != expected:
        return Verdict.AMBG, f"{sentence} Its series said the opposite."
    return said, sentence


def words(tried: Tried) -> str:
    """ "gemm bf16 …: SLOW ×1.042 [1.038, 1.046] over 8 pairs of fresh processes, GPU time, in cycles since
    the clock moved; host time: SAME." """
    main = tried.main
    metric = "GPU time" if tried.on_gpu and main.metric == "time" else METRICS.get(main.metric, main.metric)
    said = f"{tried.label}: {main.verdict}{factor(main)} over {main.pairs} pairs of fresh processes, {metric}"
    if main.in_cycles:
        said += ", in cycles since the clock moved"
        said += f" (in time ×{times:.3f})" if (times := main.facts.get("time_ratio")) else ""
    if main.verdict == Verdict.AMBG and (why := main.facts.get("why")):
        said += f" ({why})"
    if tried.host is not None:
        host = "uncertain" if tried.host.verdict == Verdict.AMBG else tried.host.verdict
        said += f"; host time: {host}{factor(tried.host)}"
    return f"{said}."


def factor(main: Compared) -> str:
    """ " ×1.042 [1.038, 1.046]", "" without a value."""
    if main.ratio is None:
        return ""
    interval = f" [{main.low:.3f}, {main.high:.3f}]" if main.low is not None and main.high is not None else ""
    return f" ×{main.ratio:.3f}{interval}"
