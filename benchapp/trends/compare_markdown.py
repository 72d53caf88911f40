"""A comparison as Markdown, to be pasted into an issue. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchapp.runs.ranking import RANKED_OUTCOMES
from benchapp.trends import compare_words as words
from benchapp.trends.compare_queries import Group, Half, Row
from benchapp.trends.compare_sides import Side, differing
from benchapp.web.templatetags.units import NONE, percent, si_time


def markdown(
    before: Side,
    after: Side,
    whole: Group,
    missing: Sequence[str],
    host: str,
    top: Mapping[str, Sequence[Row]],
    address: str,
) -> str:
    """Summary, lost coverage, the first rows of some classes, and both stacks with what differs in bold."""
    lines = [
        f"**{plain(words.apart(before, after))}**",
        "",
        f"{words.summary(whole)} {words.about_speed(whole.spread)} {host}".strip(),
        "",
    ]
    lines += [f"- {plain(line)}" for line in missing]
    if missing:
        lines.append("")
    for verdict, rows in top.items():
        if rows:
            lines += [
                f"{verdict.capitalize()}, {len(rows)} of {whole.counts[verdict]:,}:",
                "",
                *_table(rows),
                "",
            ]
    lines += ["| component | before | after |", "|---|---|---|"]
    for name, old, new, differs in differing(before.stacks, after.stacks):
        mark = "**" if differs else ""
        lines.append(
            f"| {plain(name)} | {mark}{plain(old) or NONE}{mark} | {mark}{plain(new) or NONE}{mark} |"
        )
    return "\n".join([*lines, "", address])


def _table(rows: Sequence[Row]) -> list[str]:
    head = ["| case | before | after | ratio | of roofline | why |", "|---|---|---|---|---|---|"]
    return head + [
        "| "
        + " | ".join(
            (
                plain(row.case),
                _time(row.before),
                _time(row.after),
                _ratio(row),
                f"{_share(row.before)} → {_share(row.after)}",
                plain(words.verdict(row)),
            )
        )
        + " |"
        for row in rows
    ]


def _time(half: Half | None) -> str:
    if half is None:
        return NONE
    if half.outcome not in RANKED_OUTCOMES or half.seconds is None:
        return plain(f"{half.outcome.replace('_', ' ')} {half.backend}")
    if "impossible" in half.flags:
        return plain(f"impossible {half.backend}")
    within = f" ({si_time(half.low)} to {si_time(half.high)})" if half.low is not None else ""
    return plain(f"{si_time(half.seconds)}{within} {half.backend}")


def _share(half: Half | None) -> str:
    return percent(half.of_roofline if half else None)


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return NONE
    interval = f" ({row.interval.low:.3f} to {row.interval.high:.3f})" if row.interval else ""
    return f"{row.ratio:.3f}{interval}"


def plain(text: str) -> str:
    """Text that Markdown and HTML leave as it is, on one line."""
    return re.sub(r"([\\|`*_<>\[\]])", r"\\\1", " ".join(text.split()))
