"""What pages say of an alert: levels with their unit, ratios, how sure it is. Pure."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

from benchapp.alerts.models import Alert, Change, Comparison
from benchapp.alerts.suspects import Differs, differences
from benchapp.web.templatetags.units import NBSP, NONE, byte_size, duration, si_time

#: Of each metric: what it is called, and what its values are in.
METRICS = {"time": "GPU time", "host_time": "host time", "cpu_time": "CPU time", "size": "size"}
#: Beyond these no value is written out: it would be digits without end.
_LEAST, _MOST = 1e-12, 1e9
#: Versions that a row names.
_NAMED = 2


def metric_name(metric: str) -> str:
    return METRICS.get(metric, metric.replace("_", " "))


def level(value: float | None, metric: str) -> str:
    """A value of a series with its unit, however absurd."""
    if value is None or not math.isfinite(value):
        return NONE
    if value != 0 and not _LEAST <= abs(value) <= _MOST * (1024 if metric == "size" else 1):
        return f"{value:.1e}{NBSP}{'B' if metric == 'size' else 's'}"
    if metric == "size":
        return byte_size(value)
    return duration(value) if metric == "cpu_time" and value >= 10 else si_time(value)


def ratio(value: float | None) -> str:
    """After / before: 1.084×, 23.4×, 1.2e+07×."""
    if value is None or not math.isfinite(value) or value < 0:
        return NONE
    if value >= 1e4 or 0 < value < 1e-3:
        return f"{value:.1e}×"
    return f"{value:.3f}×" if value < 10 else f"{value:,.1f}×"


def interval(low: float | None, high: float | None) -> str:
    """ "1.071× to 1.097×"; empty where either end is no number."""
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return ""
    return f"{ratio(low)} to {ratio(high)}"


@dataclasses.dataclass(frozen=True, slots=True)
class Chip:
    """`look` is the class of a tag; `words` begin with the glyph that goes with it."""

    look: str
    words: str
    why: str


CHIPS = {
    "SLOW": Chip("regressed", "▲ SLOW", "An A/B on one GPU found the new side slower"),
    "FAST": Chip("improved", "▼ FAST", "An A/B on one GPU found the new side faster"),
    "SAME": Chip("unsupported", "= SAME", "An A/B on one GPU found no difference"),
    "AMBG": Chip("uncertain", "~ AMBG", "An A/B could not decide within its budget"),
}
_CERTAIN = Chip("survived", "● certain", "What was seen decides, without an A/B")
_UNCERTAIN = Chip("uncertain", "? uncertain", "An A/B or more points must decide; nobody was told")


def chip(alert: Alert) -> Chip:
    """How sure an alert is."""
    if alert.verdict:
        return CHIPS[alert.verdict]
    return _CERTAIN if alert.certain else _UNCERTAIN


def confirming(alert: Alert) -> str:
    """How far its A/B is, in a word or two; empty where there is nothing to say."""
    if alert.confirm == Alert.Confirm.ASKED:
        return "A/B asked"
    if alert.confirm == Alert.Confirm.CANNOT:
        return "no A/B possible"
    return ""


def verdict_chip(verdict: str) -> Chip:
    return CHIPS.get(verdict, Chip("unsupported", "– none", "No verdict"))


def direction(alert: Alert) -> Chip:
    if alert.ratio is None:
        return Chip("failed", "▲ wrong", "") if alert.worse else Chip("survived", "● news", "")
    return Chip("regressed", "↑ worse", "") if alert.worse else Chip("improved", "↓ better", "")


def differing(alert: Alert) -> tuple[Differs, ...]:
    """Versions that differ between both sides of an alert."""
    if alert.stack_before is None or alert.stack_after is None:
        return ()
    return differences(alert.stack_before.components, alert.stack_after.components)


def versions(alert: Alert) -> tuple[list[str], int]:
    """(the first versions that differ, how many more do)."""
    told = [str(each) for each in differing(alert)]
    return told[:_NAMED], max(0, len(told) - _NAMED)


def suspects(listed: Sequence[dict[str, Any]]) -> list[tuple[str, str, str, str, str]]:
    """(component, before, after, share as a percentage or "", why) of each; what a kind wrote otherwise is
    left out."""
    found = []
    for each in listed:
        if not isinstance(each, dict) or not each.get("component"):
            continue
        share = each.get("share")
        told = f"{100 * share:.0f}{NBSP}%" if isinstance(share, int | float) and 0 <= share <= 1 else ""
        words = (str(each.get(name) or "") for name in ("before", "after"))
        found.append((str(each["component"]), *words, told, str(each.get("why") or "")))
    return found  # type: ignore[return-value]


def change_levels(change: Change) -> tuple[str, str]:
    metric = change.series.metric
    return level(change.before, metric), level(change.after, metric)


def strength(change: Change | Comparison) -> float:
    """How far it moved: |ln ratio|, 0 of what is no ratio."""
    value = change.ratio
    if value is None or not math.isfinite(value) or value <= 0:
        return 0.0
    return abs(math.log(value))
