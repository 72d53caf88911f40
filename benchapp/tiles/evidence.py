"""Everything known of one tile variant in one release: what a cell of the matrix opens."""

from __future__ import annotations

import dataclasses
import shlex
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from django.db.models import Count, F, Window
from django.db.models.functions import Left, Length, RowNumber

from benchapp.catalog.models import Release
from benchapp.catalog.versions import is_candidate, version_order
from benchapp.runs.models import Document
from benchapp.tiles import budget as bars
from benchapp.tiles import families, findings_words, ladder, neighbours, reasons, timeline, words
from benchapp.tiles.fates import GLYPHS, Variant, look
from benchapp.tiles.keys import Key
from benchapp.tiles.models import Evidence, EvidenceLog, Listing, Stage, Tile, Verdict
from benchapp.tiles.queries import Selection, looked_at, variant_of
from benchapp.tiles.verdict import deciding

#: Characters of a log that a page shows; the whole of it is a link away.
LOG_SHOWN = 12_000
#: Findings of one kind (stage, source, tier, outcome) that are looked at: the newest.
MOST_OF_KIND = 3
#: Shapes named that an autotuner chose the variant for.
MOST_CHOSEN = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Log:
    pk: int
    name: str
    head: str
    length: int


@dataclasses.dataclass(frozen=True, slots=True)
class Chosen:
    """The shapes for which an autotuner took this variant."""

    shapes: tuple[str, ...]
    more: bool
    wrong: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Since:
    """What changed since the surveyed release before; `version` is empty where there is none."""

    version: str
    changes: tuple[timeline.Change, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class CellEvidence:
    tile: Tile
    release: Release
    #: "FlashInfer" or "CUTLASS": whose version this is
    package: str
    variant: Variant
    #: whether this release holds the variant, and whether a survey looked at its family there
    held: bool
    surveyed: bool
    look: str
    glyph: str
    said: str
    explanation: tuple[str, ...]
    rungs: tuple[ladder.Rung, ...]
    tiers: ladder.Tiers | None
    budget: bars.Budget | None
    prediction: str
    mispredicted: bool
    one_less: str
    spills: str
    spills_look: str
    registers: str
    chosen: Chosen | None
    listing: Listing | None
    near: neighbours.Neighbours
    history: timeline.Timeline
    since: Since
    elsewhere: tuple[neighbours.Elsewhere, ...]
    log_id: int | None
    document: Document | None
    producer: str
    command: str
    unit: str

    @property
    def selection_query(self) -> str:
        """The query string, with its `?`, of the matrix that the tile stands in."""
        tile = self.tile
        return Selection(tile.arch, tile.family, tile.inputs, tile.output).query()

    @property
    def siblings(self) -> tuple[neighbours.Neighbour, ...]:
        """The same tile's variants in this release, itself among them."""
        return self.near.siblings

    @property
    def log(self) -> Log | None:
        """The compiler's or generator's words; read when a page shows them."""
        found = EvidenceLog.objects.filter(pk=self.log_id) if self.log_id else EvidenceLog.objects.none()
        head = found.annotate(head=Left("text", LOG_SHOWN), length=Length("text"))
        row = head.values("pk", "name", "head", "length").first()
        return Log(**row) if row else None


def cell_evidence(tile_id: int, version: str) -> CellEvidence | None:
    """None when the tile or the release is unknown. At most nine queries, however much is stored."""
    tile = Tile.objects.filter(pk=tile_id).first()
    if tile is None:
        return None
    of_package = Release.objects.filter(package=families.package(tile.family))
    # beside the release asked for, candidates are no part of a variant's history
    releases = sorted(
        (other for other in of_package if other.version == version or not is_candidate(other.version)),
        key=lambda release: version_order(release.version),
    )
    release = next((release for release in releases if release.version == version), None)
    if release is None:
        return None
    surveyed = _surveyed(tile.family)
    verdicts = {verdict.release_id: verdict for verdict in Verdict.objects.filter(tile=tile)}
    before = timeline.previous(releases, release, surveyed[tile.arch])
    sides = [release, *filter(None, [before])]
    found = _findings(tile, sides)
    listings = {listing.release_id: listing for listing in _listings(tile, sides)}
    here, left_out = found[release.pk]
    verdict, listing = verdicts.get(release.pk), listings.get(release.pk)
    near = neighbours.near(tile, release)
    arranged = neighbours.arrange(tile, near)

    counting = deciding(here)
    sized = next((f for f in _telling(counting, here) if f.need_bytes is not None), None)
    variant = variant_of(tile, verdict, sized.parts if sized else None)
    if sized and variant.need_bytes is None:
        variant = dataclasses.replace(
            variant, need_bytes=sized.need_bytes, limit_bytes=sized.limit_bytes, stages=sized.stages
        )
    predicted = _predicted(sized, here)
    bar = bars.budget(
        variant.need_bytes,
        variant.limit_bytes,
        variant.parts,
        stages=variant.stages,
        predicted_bytes=predicted.predicted_bytes if predicted else None,
        predicted_stages=predicted.predicted_stages if predicted else None,
    )
    prediction, mispredicted = findings_words.prediction(predicted) if predicted else ("", False)
    compiled = counting.get(Stage.COMPILED)
    spills, spills_look = findings_words.spills(compiled, variant.reached(Stage.FITS))
    decider = _decider(counting, verdict)
    return CellEvidence(
        tile=tile,
        release=release,
        package=families.package_label(release.package),
        variant=variant,
        held=verdict is not None,
        surveyed=version in surveyed[tile.arch],
        look=look(variant.fate),
        glyph=GLYPHS[variant.fate],
        said=words.cell(dataclasses.replace(variant, chosen=False)),  # that has a badge of its own
        explanation=reasons.explain(variant, [one.variant for one in arranged.siblings]),
        rungs=ladder.rungs(here, verdict, listing, left_out),
        tiers=ladder.tiers(here),
        budget=bar,
        prediction=prediction,
        mispredicted=mispredicted,
        one_less=findings_words.one_stage_less(bar.need_bytes, bar.limit_bytes, bar.stages, bar.stage_bytes)
        if bar
        else "",
        spills=spills,
        spills_look=spills_look,
        registers=findings_words.registers(compiled) if compiled else "",
        chosen=_chosen(tile, release, counting) if verdict and verdict.chosen else None,
        listing=listing,
        near=arranged,
        history=timeline.timeline(tile, releases, release, verdicts, surveyed[tile.arch]),
        since=_since(tile, before, release, verdicts, found, listings),
        elsewhere=neighbours.elsewhere(
            tile,
            near,
            [arch for arch, seen in surveyed.items() if version in seen],
        ),
        log_id=next((f.log_id for f in (decider, compiled, sized) if f and f.log_id), None),
        document=decider.document if decider else None,
        producer=str(decider.document.facts.get("producer", "")) if decider else "",
        command=shlex.join(map(str, decider.document.facts.get("command", []))) if decider else "",
        unit=next((f.unit for f in (decider, counting.get(Stage.DISPATCHED), *here) if f and f.unit), ""),
    )


def _surveyed(family: str) -> dict[str, set[str]]:
    """Versions in which a survey looked at a family, by architecture."""
    looked = looked_at(tile__family=family).values_list("tile__arch", "release__version")
    versions: dict[str, set[str]] = defaultdict(set)
    for arch, version in looked.distinct():
        versions[arch].add(version)
    return versions


def _findings(tile: Tile, releases: Sequence[Release]) -> dict[int, tuple[list[Evidence], dict[str, int]]]:
    """By release: the newest findings of each kind, oldest first, and by stage how many were left out.

    The one that decides a stage is always among them: it is the newest of its kind.
    """
    kind = [F(name) for name in ("release_id", "stage", "source", "tier", "passed")]
    placed = (
        Evidence.objects.filter(tile=tile, release__in=releases)
        .annotate(
            place=Window(RowNumber(), partition_by=kind, order_by=[F("found_at").desc(), F("id").desc()]),
            alike=Window(Count("pk"), partition_by=kind),
        )
        .filter(place__lte=MOST_OF_KIND)
        .select_related("document", "document__target", "stack")
        .defer("document__body")
    )
    found: dict[int, tuple[list[Evidence], dict[str, int]]] = {
        release.pk: ([], defaultdict(int)) for release in releases
    }
    for finding in sorted(placed, key=lambda finding: finding.pk):
        kept, left_out = found[finding.release_id]
        kept.append(finding)
        if finding.place == MOST_OF_KIND:
            left_out[finding.stage] += finding.alike - MOST_OF_KIND
    return found


def _listings(tile: Tile, releases: Sequence[Release]) -> Sequence[Listing]:
    of_tile = {name: getattr(tile, name) for name in ("arch", "family", "inputs", *Key._fields)}
    return list(Listing.objects.filter(release__in=releases, **of_tile))


def _telling(counting: Mapping[Stage, Evidence], here: Sequence[Evidence]) -> Iterator[Evidence]:
    """Findings that may know the size: the one that counts, then the newest first."""
    if Stage.FITS in counting:
        yield counting[Stage.FITS]
    yield from reversed(here)


def _predicted(sized: Evidence | None, here: Sequence[Evidence]) -> Evidence | None:
    """The newest prediction of that size: a survey that computed none does not undo it."""
    if sized is None:
        return None
    alike = (f for f in (sized, *reversed(here)) if f.predicted_bytes and f.need_bytes == sized.need_bytes)
    return next(alike, None)


def _decider(counting: Mapping[Stage, Evidence], verdict: Verdict | None) -> Evidence | None:
    """The finding that the verdict rests on."""
    if verdict is None:
        return None
    stage = verdict.failed_stage or verdict.stage
    return counting.get(Stage(stage)) if stage else None


def _chosen(tile: Tile, release: Release, counting: Mapping[Stage, Evidence]) -> Chosen:
    shapes = (
        Evidence.objects.filter(tile=tile, release=release)
        .exclude(chosen_for="")
        .order_by("chosen_for")
        .values_list("chosen_for", flat=True)
        .distinct()[: MOST_CHOSEN + 1]
    )
    named = list(shapes)
    correct = counting.get(Stage.CORRECT)
    return Chosen(
        tuple(named[:MOST_CHOSEN]), len(named) > MOST_CHOSEN, wrong=correct is not None and not correct.passed
    )


def _since(
    tile: Tile,
    before: Release | None,
    release: Release,
    verdicts: Mapping[int, Verdict],
    found: Mapping[int, tuple[list[Evidence], dict[str, int]]],
    listings: Mapping[int, Listing],
) -> Since:
    if before is None:
        return Since("", ())
    old, new = (
        timeline.Side(
            verdicts.get(side.pk), deciding(found[side.pk][0]).get(Stage.FITS), listings.get(side.pk)
        )
        for side in (before, release)
    )
    return Since(before.version, timeline.changes(tile, old, new))
