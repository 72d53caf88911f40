"""A survey in one line, for a terminal and for a run's page."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from benchapp.runs.models import Document
from benchapp.tiles import families
from benchapp.tiles.families import spoken_of
from benchapp.tiles.fates import FITTING
from benchapp.tiles.keys import Key
from benchapp.tiles.models import Evidence
from benchapp.tiles.queries import FIRST_INPUTS
from benchapp.tiles.verdict import climb
from benchapp.web.templatetags.units import operand_types


def survey_line(document: Document) -> str:
    """E.g. "survey flashinfer=0.6.3 sm120 nvfp4: 16 tile variants, 14 fit, 2 overflow by 1,024 B".

    One part for each family and inputs; the family goes without saying where it is the MoE's.
    """
    findings: dict[tuple[str, str], dict[Key, list[Evidence]]] = defaultdict(lambda: defaultdict(list))
    evidence = Evidence.objects.filter(document=document).select_related("tile").defer("detail", "parts")
    for finding in evidence.order_by("id"):
        findings[finding.tile.family, finding.tile.inputs][Key.of(finding.tile)].append(finding)
    assert document.stack is not None and document.target is not None  # accepted documents have both
    said = "; ".join(
        f"{_name(*key)}: {_fates(found.values())}"
        for key, found in sorted(findings.items(), key=lambda item: _place(*item[0]))
    )
    package = spoken_of(document.stack.components)
    return f"survey {package}={document.stack.components[package]} {document.target.arch} {said}"


def _place(family: str, inputs: str) -> tuple[bool, str, bool, str]:
    return family != families.FIRST, family, inputs != FIRST_INPUTS, inputs


def _name(family: str, inputs: str) -> str:
    """nvfp4 where A and B are of one type, mxfp8xmxfp4 where they differ."""
    types = "x".join(dict.fromkeys(operand_types(inputs)))
    return types if family == families.FIRST else f"{family} {types}"


def _fates(variants: Iterable[list[Evidence]]) -> str:
    fit = total = 0
    shortfalls: list[int] = []
    other: dict[str, int] = defaultdict(int)
    for found in variants:
        total += 1
        highest, stopped = climb(found)
        fit += highest is not None and highest.stage in FITTING
        if stopped is None:
            continue
        if stopped.reason == "smem_overflow" and stopped.need_bytes and stopped.limit_bytes:
            shortfalls.append(stopped.need_bytes - stopped.limit_bytes)
        else:
            other[stopped.reason] += 1
    if fit == total and not other:
        return f"{fit} fit"
    words = [f"{total} tile variants", f"{fit} fit"]
    if shortfalls:
        low, high = min(shortfalls), max(shortfalls)
        span = f"{low:,} B" if low == high else f"{low:,} to {high:,} B"
        words.append(f"{len(shortfalls)} overflow by {span}")
    words += [f"{count} {reason.replace('_', ' ')}" for reason, count in sorted(other.items())]
    return ", ".join(words)
