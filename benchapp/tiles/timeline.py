"""One tile variant over releases: its fate in each, and what changed since the surveyed release before."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping, Sequence

from benchapp.catalog.models import Release
from benchapp.tiles import words
from benchapp.tiles.fates import GLYPHS, LADDER, Fate, Variant, look
from benchapp.tiles.models import Evidence, Listing, Stage, Tile, Verdict
from benchapp.tiles.queries import variant_of

#: Runs told one by one; a variant that comes and goes more often is told by the strip.
MOST_RUNS = 8


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """The variant in one release."""

    version: str
    look: str
    glyph: str
    text: str
    held: bool
    current: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Span:
    """Neighbouring surveyed releases in which nothing changed; `first` is where it began."""

    first: str
    last: str
    count: int
    look: str
    glyph: str
    text: str
    held: bool
    current: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    what: str
    before: str
    after: str


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """What is known of the variant in one of two releases."""

    verdict: Verdict | None
    fits: Evidence | None
    listing: Listing | None


@dataclasses.dataclass(frozen=True, slots=True)
class Timeline:
    steps: tuple[Step, ...]
    spans: tuple[Span, ...]
    more_spans: int
    #: releases in which nobody looked
    untested: int
    #: the nearest releases that hold the variant, before and after this one
    earlier: str
    later: str


def previous(releases: Sequence[Release], release: Release, surveyed: set[str]) -> Release | None:
    """The surveyed release before this one; `releases` stand in release order."""
    before = itertools.takewhile(lambda other: other.pk != release.pk, releases)
    return next((other for other in reversed(list(before)) if other.version in surveyed), None)


def timeline(
    tile: Tile,
    releases: Sequence[Release],
    release: Release,
    verdicts: Mapping[int, Verdict],
    surveyed: set[str],
) -> Timeline:
    """The variant in every release; `verdicts` by release, `surveyed` the versions somebody looked at."""
    steps, keys = [], []
    for other in releases:
        verdict = verdicts.get(other.pk)
        variant = _bare(variant_of(tile, verdict))
        fate = variant.fate if verdict else Fate.ABSENT if other.version in surveyed else Fate.UNTESTED
        text = words.cell(variant) if verdict else _missing(fate)
        current = other.pk == release.pk
        steps.append(Step(other.version, look(fate), GLYPHS[fate], text, verdict is not None, current))
        keys.append((fate, text))
    looked_at = (
        pair
        for pair, other in zip(zip(steps, keys, strict=True), releases, strict=True)
        if pair[0].held or other.version in surveyed
    )
    spans = []
    for _, run in itertools.groupby(looked_at, key=lambda pair: pair[1]):
        group = [step for step, _ in run]
        first, last = group[0], group[-1]
        current = any(step.current for step in group)
        spans.append(
            Span(
                first.version,
                last.version,
                len(group),
                first.look,
                first.glyph,
                first.text,
                first.held,
                current,
            )
        )
    at = next((index for index, span in enumerate(spans) if span.current), len(spans))
    start = min(at, max(0, len(spans) - MOST_RUNS))  # the newest, or from the present one on
    here = next(index for index, other in enumerate(releases) if other.pk == release.pk)
    return Timeline(
        steps=tuple(steps),
        spans=tuple(spans[start : start + MOST_RUNS]),
        more_spans=max(0, len(spans) - MOST_RUNS),
        untested=sum(not step.held and step.version not in surveyed for step in steps),
        earlier=next((step.version for step in reversed(steps[:here]) if step.held), ""),
        later=next((step.version for step in steps[here + 1 :] if step.held), ""),
    )


def _missing(fate: Fate) -> str:
    return "not in this version" if fate is Fate.ABSENT else "not tested"


def changes(tile: Tile, before: Side, after: Side) -> tuple[Change, ...]:
    """What differs between two surveyed releases, most telling first; () where nothing does."""
    pairs = list(_pairs(tile, before, after))
    return tuple(Change(what, old, new) for what, old, new in pairs if old != new)


def _pairs(tile: Tile, before: Side, after: Side) -> Iterable[tuple[str, str, str]]:
    old_fate, new_fate = _fate(tile, before.verdict), _fate(tile, after.verdict)
    if old_fate != new_fate and before.verdict and after.verdict:
        # what only one of them was tried for is no change of the release
        old_fate += _not_tried(before.verdict, after.verdict)
        new_fate += _not_tried(after.verdict, before.verdict)
    yield "fate", old_fate, new_fate
    if before.verdict and after.verdict:
        for what, name in (("stages", "stages"), ("need", "need_bytes"), ("limit", "limit_bytes")):
            yield _known(what, getattr(before.verdict, name), getattr(after.verdict, name))
        yield _known("spill stores", before.verdict.spill_store_bytes, after.verdict.spill_store_bytes)
    if before.fits and after.fits and before.fits.parts and after.fits.parts:
        old, new = before.fits.parts, after.fits.parts
        for name in sorted({*old, *new}):
            yield f"{name.replace('_', ' ')}", words.size(old.get(name, 0)), words.size(new.get(name, 0))
    if before.listing and after.listing:
        for gemm in ("gemm1", "gemm2"):
            old_ids, new_ids = (getattr(side, f"{gemm}_tactics") for side in (before.listing, after.listing))
            yield f"{gemm.upper()} tactic ids", words.ids(old_ids), words.ids(new_ids)
        for name in ("candidate", "dispatched", "instantiated"):
            old_said, new_said = (_yes(getattr(side, name)) for side in (before.listing, after.listing))
            yield name, old_said, new_said


def _yes(so: bool) -> str:
    return "yes" if so else "no"


def _fate(tile: Tile, verdict: Verdict | None) -> str:
    if verdict is None:
        return "not in this version"
    variant = _bare(variant_of(tile, verdict))
    return words.cell(dataclasses.replace(variant, stages=None, need_bytes=None, limit_bytes=None))


def _not_tried(verdict: Verdict, other: Verdict) -> str:
    """Says so where `other` failed at a stage that `verdict` was never tried for."""
    if not other.failed_stage or verdict.failed_stage or not verdict.stage:
        return ""
    beyond = LADDER.index(other.failed_stage) > LADDER.index(verdict.stage)
    return f", not tested for {other.failed_stage}" if beyond else ""


def _bare(variant: Variant) -> Variant:
    """Without what tells of the looking and not of the release: how deep somebody looked, and how far up."""
    stage = Stage.FITS.value if variant.fate is Fate.SURVIVED else variant.stage
    return Variant(
        variant.tile,
        variant.fusion,
        variant.swap_ab,
        stage=stage,
        failed_stage=variant.failed_stage,
        reason=variant.reason,
        stages=variant.stages,
        need_bytes=variant.need_bytes,
        limit_bytes=variant.limit_bytes,
    )


def _known(what: str, before: int | None, after: int | None) -> tuple[str, str, str]:
    """A figure that is known on one side only has not changed."""
    if before is None or after is None:
        return what, "", ""
    return (
        (what, str(before), str(after)) if what == "stages" else (what, words.size(before), words.size(after))
    )
