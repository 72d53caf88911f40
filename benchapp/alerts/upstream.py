"""A report for the maintainers of what moved, as Markdown. Pure.

Only what everybody may read: GPU models, versions, cases, figures and what libraries said. No host, UUID,
person, path or address of this installation, and no sentence that a person or an alert wrote. What a document
named stands in code spans, which no Markdown, HTML, mention or link gets out of.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

from benchapp.alerts import words
from benchapp.alerts.detail import Compared, Moved
from benchapp.alerts.evidence import Block
from benchapp.alerts.models import Alert, Bisect
from benchapp.alerts.suspects import Differs
from benchapp.web.templatetags.units import NONE

#: Columns that say where in this installation something was.
PLACES = frozenset({"host", "hosts", "place", "gpu", "gpus", "target", "on", "run", "runs", "uuid", "queue"})
#: Rows of each table; the rest is counted.
CHANGES, COMPARISONS = 20, 20
#: What looks like a place of this installation, wherever it stands.
_PRIVATE = re.compile(
    r"(?:GPU|MIG)-[0-9A-Za-z-]{4,}|[a-z][a-z0-9+.-]{0,30}://\S+"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b|(?<![\w.])(?:/[\w.+-]+){2,}"
    r"|[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+\b",
    re.IGNORECASE,
)


#: An address of IPv4; versions of cuDNN look like it.
_ADDRESS = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")


@dataclasses.dataclass(frozen=True, slots=True)
class Report:
    """`gpus` are product names, `measured` says how it was timed, `versions` is (before, after) by component,
    `commands` are (what it repeats, command), `hosts` are names that must not be told."""

    alert: Alert
    changes: Sequence[Moved]
    total: int
    comparisons: Sequence[Compared]
    bisects: Sequence[Bisect]
    differs: Sequence[Differs]
    versions: dict[str, tuple[str, str]]
    gpus: Sequence[str]
    measured: Sequence[str]
    commands: Sequence[tuple[str, str]]
    hosts: Collection[str]
    evidence: Sequence[Block] = ()


def markdown(report: Report) -> str:
    lines = [
        f"## {_title(report)}",
        "",
        _sentence(report),
        "",
        "### Where",
        "",
        f"- GPU: {', '.join(map(code, report.gpus)) or NONE}",
        *(f"- {how}" for how in report.measured),
        "",
        *_versions(report),
    ]
    lines += _changes(report)
    lines += _evidence(report)
    lines += _comparisons(report)
    lines += _bisects(report)
    if report.commands:
        lines += ["### Repeat", ""]
        for told, command in report.commands:
            lines += [f"{told}:", "", "```sh", _fenced(command, report.hosts), "```", ""]
    return "\n".join(lines).rstrip() + "\n"


def code(text: str, hosts: Collection[str] = ()) -> str:
    """Text of a document in a code span of one line, in a table too; empty text as a dash."""
    return version(_ADDRESS.sub("…", text), hosts)


def version(text: str, hosts: Collection[str] = ()) -> str:
    """The same of what may look like an address and is none: 9.10.2.21."""
    plain = private(" ".join(text.split()), hosts).replace("`", "'").replace("|", "\\|")[:200]
    return f"`{plain}`" if plain else "–"


def private(text: str, hosts: Collection[str] = ()) -> str:
    """Without UUIDs, URLs, paths, addresses of e-mail and the names of these hosts."""
    text = _PRIVATE.sub("…", text)
    for host in sorted(hosts, key=len, reverse=True):
        if host:
            text = re.sub(rf"(?<![\w-]){re.escape(host)}(?![\w-])", "…", text)
    return text


def _fenced(text: str, hosts: Collection[str]) -> str:
    return private(text, hosts).replace("```", "'''")


def _title(report: Report) -> str:
    alert = report.alert
    if report.total > 1:
        what = f"{report.total:,} cases"
    elif report.changes:
        what = code(report.changes[0].change.series.case.label, report.hosts)
    else:
        what = alert.get_kind_display().capitalize()
    if report.differs:
        first = report.differs[0]
        upgrade = f"{code(first.component)} {version(first.before)} → {version(first.after)}"
        return f"{what}: {_moved(report)} with {upgrade}"
    return f"{what}: {_moved(report)}" if report.total else what


def _moved(report: Report) -> str:
    if not report.changes:
        return "changed"
    strongest = report.changes[0]
    upto = "up to " if report.total > 1 else ""
    metric = strongest.change.series.metric
    what = {"time": "the time", "host_time": "the host time", "cpu_time": "the CPU time of its build"}
    return f"{upto}{strongest.ratio} {what.get(metric, f'the {words.metric_name(metric)}')}"


def _sentence(report: Report) -> str:
    if not report.changes:
        return "This is not about the speed of a case."
    strongest = report.changes[0]
    change, (before, after) = strongest.change, strongest.levels
    within = f" (95 % interval {strongest.interval})" if strongest.interval else ""
    told = (
        f"The strongest: {code(change.series.case.label, report.hosts)} with "
        f"{code(change.series.backend, report.hosts)} went from {before} to {after} ({strongest.metric}), "
        f"{strongest.ratio}{within}, over {change.n_before} + {change.n_after} runs."
    )
    if report.alert.verdict:
        chip = words.chip(report.alert)
        told += f" **{report.alert.verdict}**: {chip.why[0].lower()}{chip.why[1:]}."
    elif not report.alert.certain:
        told += " This is not confirmed yet by an A/B."
    return told


def _versions(report: Report) -> list[str]:
    if not report.versions:
        return []
    differ = {each.component for each in report.differs}
    lines = ["| component | before | after |", "|---|---|---|"]
    for name, (before, after) in report.versions.items():
        mark = "**" if name in differ else ""
        cells = (version(value, report.hosts) for value in (name, before, after))
        lines.append(f"| {' | '.join(f'{mark}{cell}{mark}' for cell in cells)} |")
    return [*lines, ""]


def _changes(report: Report) -> list[str]:
    if not report.changes:
        return []
    lines = ["### Numbers", ""]
    if report.total > CHANGES:
        lines += [f"The strongest {CHANGES} of {report.total:,}.", ""]
    lines += [
        "| case | backend | metric | before | after | ratio | 95 % | n |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for each in report.changes[:CHANGES]:
        change, (before, after) = each.change, each.levels
        cells = (
            code(change.series.case.label, report.hosts), code(change.series.backend, report.hosts),
            each.metric, before, after, each.ratio, each.interval or NONE,
            f"{change.n_before} + {change.n_after}",
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _evidence(report: Report) -> list[str]:
    """Tables and lists of what the alert rests on; its facts speak of this installation."""
    lines: list[str] = []
    for block in report.evidence:
        kept = [index for index, column in enumerate(block.columns) if column not in PLACES]
        if block.rows and kept:
            lines += [f"### {block.name.capitalize()}", ""]
            lines += [f"| {' | '.join(block.columns[index] for index in kept)} |", f"|{'---|' * len(kept)}"]
            for row in block.rows[:CHANGES]:
                lines.append(f"| {' | '.join(code(row[index], report.hosts) for index in kept)} |")
        elif block.items:
            lines += [f"### {block.name.capitalize()}", ""]
            lines += [f"- {code(item, report.hosts)}" for item in block.items[:CHANGES]]
        else:
            continue
        more = block.more + max(0, len(block.rows or block.items) - CHANGES)
        lines += ["", *([f"And {more:,} more.", ""] if more else [])]
    return lines


def _comparisons(report: Report) -> list[str]:
    if not report.comparisons:
        return []
    lines = [
        "### A/B",
        "",
        "Old and new in turn (A B A B …), each in a fresh process on the same GPU.",
        "",
        "| case | metric | verdict | ratio | 95 % | pairs |",
        "|---|---|---|---|---|---|",
    ]
    for each in report.comparisons[:COMPARISONS]:
        row = each.comparison
        cells = (
            code(row.case.label, report.hosts), f"{each.metric}{', in cycles' if row.in_cycles else ''}",
            row.verdict, each.ratio, each.interval or NONE, str(row.pairs),
        )  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return [*lines, ""]


def _bisects(report: Report) -> list[str]:
    lines: list[str] = []
    for bisect in report.bisects:
        if bisect.state != Bisect.State.FOUND:
            continue
        lines += [
            "### Bisect",
            "",
            f"First {code(bisect.component)} with it: {version(bisect.first_bad)}.",
            "",
        ]
        for step in bisect.steps.all():
            told = f": {words.ratio(step.comparison.ratio)}" if step.comparison else ""
            versions = f"{version(step.old_version)} against {version(step.new_version)}"
            lines.append(f"- {versions}: {step.verdict or 'under way'}{told}")
        lines.append("")
        break
    return lines
