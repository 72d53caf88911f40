"""Words that alerts of several kinds are made of. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchapp.alerts.words import level

#: Items that a sentence names; the alert's evidence has them all.
NAMED = 4
#: Rows of evidence that pages show.
SHOWN = 200
#: Of what a library or a bench said.
_SAID = 160
_COMPONENTS = 3


def cases(number: int) -> str:
    return f"{number:,} case{'s' * (number != 1)}"


def seconds(value: float | None) -> str:
    return level(value, "time")


def percent(share: float) -> str:
    """0.0614 is "6.14 %"."""
    return f"{100 * share:.3g}\u00a0%"


def listed(names: Sequence[str], more: str = "more") -> str:
    """ "a; b; c; d; and 3 more"."""
    told = [*names[:NAMED], *([f"and {len(names) - NAMED:,} {more}"] if len(names) > NAMED else [])]
    return "; ".join(told)


def first_line(said: str) -> str:
    """The first line with words, cut."""
    line = next((line.strip() for line in said.splitlines() if line.strip()), "")
    return line if len(line) <= _SAID else f"{line[: _SAID - 1]}…"


def outcome_words(outcome: str) -> str:
    return {"unsupported": "not supported", "oom": "out of memory"}.get(outcome, outcome.replace("_", " "))


def since(about: Mapping[str, Any]) -> str:
    """What differs between the sides: "flashinfer 0.6.9 → 0.6.13", "driver 580 → 590" with the same version,
    or that nothing does."""
    if about["before"] != about["after"]:
        return f"{about['library']} {about['before']} → {about['after']}"
    others = about.get("others") or []
    named = ", ".join(
        f"{name} {before or 'none'} → {after or 'none'}" for name, before, after in others[:_COMPONENTS]
    )
    rest = f" and {len(others) - _COMPONENTS} more" if len(others) > _COMPONENTS else ""
    same = f"{about['library']} {about['after']}"
    return f"{same}, {named}{rest}" if named else f"{same}, the same versions"


def others(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """(component, before, after) of what differs between two stacks."""
    return [
        (name, str(before.get(name, "")), str(after.get(name, "")))
        for name in sorted({*before, *after})
        if before.get(name) != after.get(name)
    ]
