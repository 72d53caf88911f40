"""The funnel over versions: how many variants of a selection pass each stage, release by release."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Count
from django.urls import reverse

from benchapp.catalog.models import Release
from benchapp.catalog.versions import is_candidate
from benchapp.tiles import families
from benchapp.tiles.fates import LADDER, Fate, Variant
from benchapp.tiles.models import Evidence, Stage, Verdict
from benchapp.tiles.queries import Selection, surveyed_releases

#: (stage, failed_stage, reason) of a verdict.
Ending = tuple[str, str, str]
#: Stages that only a version's own lists tell; that a kernel compiles implies neither.
LISTED = (Stage.CANDIDATE, Stage.DISPATCHED)


@dataclasses.dataclass(frozen=True, slots=True)
class Rung:
    """How many variants passed a stage, failed at it, and came as far and were not tested at it."""

    stage: str
    passed: int
    failed: int
    untested: int

    @property
    def known(self) -> bool:
        """Whether anybody looked: else nothing may be read as zero."""
        return bool(self.passed or self.failed)


@dataclasses.dataclass(frozen=True, slots=True)
class Step:
    """One release: `total` variants that its sources name."""

    version: str
    cutlass: str
    #: "surveyed", "absent" (surveyed, without a variant of this selection) or "untested"
    state: str
    total: int
    rungs: tuple[Rung, ...]
    endings: Mapping[Ending, int]

    def at(self, stage: str) -> Rung:
        return next(rung for rung in self.rungs if rung.stage == stage)


@dataclasses.dataclass(frozen=True, slots=True)
class Layer:
    """A part of a column of the chart: where a variant ended. `fill` is how static/js/tiles-history.js draws
    it, so that layers of one colour are told apart."""

    label: str
    role: str
    fill: str


#: From the ground up: the farther a variant came, the lower it stands.
LAYERS = {
    "correct": Layer("● correct on the GPU", "survived", "cross"),
    "ran": Layer("● ran, result not checked", "survived", "lines"),
    "initialised": Layer("● initialised on the GPU", "survived", "dots"),
    "fits": Layer("● fits", "survived", "solid"),
    "open": Layer("not tested that far", "untested", "hatch"),
    Fate.INCORRECT: Layer("≠ wrong result", "incorrect", "solid"),
    Fate.DEVICE_FAILURE: Layer("▲ fails on the GPU", "failed", "dots"),
    Fate.OVERFLOW: Layer("▲ does not fit", "failed", "solid"),
    Fate.COMPILE_ERROR: Layer("▲ does not compile", "failed", "hatch"),
    Fate.UNSUPPORTED: Layer("– not supported", "unsupported", "solid"),
    Fate.NO_DISPATCH: Layer("○ candidate, never dispatched", "uncertain", "solid"),
    Fate.NO_CANDIDATE: Layer("◌ instantiated, never a candidate", "unsupported", "dots"),
}


def layer_of(ending: Ending) -> str:
    """The key in LAYERS of where a variant ended."""
    stage, failed_stage, reason = ending
    fate = Variant((0, 0, 0), "", False, stage, failed_stage, reason).fate
    if fate is Fate.SURVIVED:
        return stage
    return "open" if fate is Fate.UNTESTED else fate


def rungs(endings: Mapping[Ending, int], read: frozenset[str]) -> tuple[Rung, ...]:
    """All rungs of the ladder; `read` holds the stages of LISTED that were read from the version's lists.

    A stage that nobody tested and a later success implies counts as passed, but for those of LISTED.
    """
    found = []
    for at, stage in enumerate(LADDER):
        passed = failed = untested = 0
        for (reached, stopped, _), number in endings.items():
            end = LADDER.index(stopped) if stopped else len(LADDER)
            if end == at:
                failed += number
            elif at < end and (stopped or (reached and at <= LADDER.index(reached))):
                passed += number
            elif at < end:
                untested += number
        if stage in LISTED and stage not in read and not failed:
            passed, untested = 0, passed + untested
        found.append(Rung(stage, passed, failed, untested))
    return tuple(found)


def steps(selection: Selection, releases: Sequence[Release]) -> list[Step]:
    """One a release, in their order. Three queries."""
    of_tile = {f"tile__{name}": value for name, value in dataclasses.asdict(selection).items()}
    endings: dict[int, dict[Ending, int]] = defaultdict(dict)
    counted = (
        Verdict.objects.filter(**of_tile).order_by().values_list("release", "stage", "failed_stage", "reason")
    )
    for release, *ending, number in counted.annotate(variants=Count("pk")):
        endings[release][ending[0], ending[1], ending[2]] = number
    read: dict[int, set[str]] = defaultdict(set)
    told = Evidence.objects.filter(**of_tile, stage__in=LISTED).order_by()
    for release, stage in told.values_list("release", "stage").distinct():
        read[release].add(stage)
    looked = {release.pk for release in surveyed_releases(selection.arch, selection.family)}
    ladder = stages_of(selection.family)
    return [
        Step(
            release.version,
            release.cutlass,
            "surveyed" if release.pk in endings else "absent" if release.pk in looked else "untested",
            sum(endings[release.pk].values()) if release.pk in endings else 0,
            tuple(
                rung
                for rung in rungs(endings.get(release.pk, {}), frozenset(read[release.pk]))
                if rung.stage in ladder
            ),
            endings.get(release.pk, {}),
        )
        for release in releases
    ]


def stages_of(family: str) -> tuple[str, ...]:
    """The stages a family's variants go through: lists name only what a release ships."""
    return tuple(stage for stage in LADDER if family not in families.NOT_SHIPPED or stage not in LISTED)


def sentence(step: Step) -> str:
    """ "In 0.6.3, 16 variants: 16 candidates, 16 compiled, 14 fit; not tested beyond that." """
    if step.state != "surveyed":
        why = "it holds no such variant" if step.state == "absent" else "no survey has looked"
        return f"Nothing is known of {step.version} here: {why}."
    words = {Stage.CANDIDATE: "candidates", Stage.FITS: "fit", Stage.RAN: "ran"}
    said = [
        f"{rung.passed:,} {words.get(Stage(rung.stage), rung.stage)}" for rung in step.rungs if rung.known
    ]
    last = max((at for at, rung in enumerate(step.rungs) if rung.known), default=-1)
    unread = [rung.stage for rung in step.rungs[:last] if not rung.known]
    end = "; not tested beyond that" if last + 1 < len(step.rungs) else ""
    missing = f"; {' and '.join(unread)}: not read from its sources" if unread else ""
    return f"In {step.version}, {step.total:,} variants: {', '.join(said)}{end}{missing}."


def turns(found: Sequence[Step]) -> list[str]:
    """Where variants or fitting ones change from one surveyed release to the next, in words."""
    said = []
    known = [step for step in found if step.state == "surveyed" and not is_candidate(step.version)]
    for before, after in itertools.pairwise(known):
        changed = [
            f"{what} {old:,} → {new:,}"
            for what, old, new in (
                ("variants", before.total, after.total),
                ("fit", before.at(Stage.FITS).passed, after.at(Stage.FITS).passed),
            )
            if old != new
        ]
        if changed:
            said.append(f"{after.version} ({', '.join(changed)})")
    return said


def chart(found: Sequence[Step], selection: Selection) -> dict[str, Any]:
    """For static/js/charts.js and tiles-history.js: a stacked column a release, in tile variants."""
    base = reverse("tiles:index")
    package = families.package(selection.family)
    heights: dict[str, list[int]] = {}
    for at, step in enumerate(found):
        for ending, number in step.endings.items():
            heights.setdefault(layer_of(ending), [0] * len(found))[at] += number
    series = [
        {
            "label": layer.label,
            "role": layer.role,
            "fill": layer.fill,
            "points": [
                {"x": step.version, "y": y, "href": base + selection.query(version=step.version)}
                for step, y in zip(found, heights[key], strict=True)
            ],
        }
        for key, layer in LAYERS.items()
        if key in heights
    ]
    return {
        "type": "bar",
        "stacked": True,
        "x": {
            "title": f"{families.package_label(package)} release",
            "type": "category",
            "labels": [step.version for step in found],
        },
        "y": {"title": "Tile variants (count)", "type": "linear", "min": 0},
        "series": series,
        "bands": [
            [cutlass or "?", len(list(run))]
            for cutlass, run in itertools.groupby(found, key=lambda step: step.cutlass)
        ]
        if package != "cutlass"
        else [],
        "untested": [at for at, step in enumerate(found) if step.state == "untested"],
    }


def context(selection: Selection, releases: Sequence[Release], focus: str) -> dict[str, Any]:
    """What `tiles/_funnel.html` shows."""
    found = steps(selection, releases)
    here = next((step for step in found if step.version == focus), None)
    return {
        "funnel": found,
        "funnel_stages": stages_of(selection.family),
        "funnel_package": families.package_label(families.package(selection.family)),
        "funnel_diff": reverse("tiles:diff") + selection.query(),
        "funnel_said": sentence(here) if here else "",
        "funnel_turns": turns(found),
        "funnel_untested": sum(step.state == "untested" for step in found),
        "funnel_chart": chart(found, selection) if any(step.total for step in found) else None,
    }
