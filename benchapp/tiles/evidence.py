"""Everything known of one tile variant in one release: ladder, shared memory, log, siblings."""

from __future__ import annotations

import dataclasses
import shlex

from django.db.models import QuerySet
from django.db.models.functions import Left, Length

from benchapp.catalog.models import Release
from benchapp.runs.models import Document
from benchapp.tiles import words
from benchapp.tiles.fates import GLYPHS, LOOKS, Fate, Variant
from benchapp.tiles.models import Evidence, EvidenceLog, Stage, Tile, Verdict
from benchapp.tiles.queries import PACKAGE, variant_of
from benchapp.tiles.verdict import deciding

#: Characters of a log that a page shows; the whole of it is a link away.
LOG_SHOWN = 12_000
#: The bar's parts from left to right: class in the style sheet, and what it says.
PARTS = {
    "operands": "operand stages",
    "scales": "scales",
    "epilogue": "epilogue",
    "rest": "pipelines, scheduler, tensor maps",
    "padding": "padding",
}
#: Width of the bar's drawing in its own units.
BAR_WIDTH = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class Rung:
    """One stage of the ladder: the finding that decides it, and every other one."""

    stage: str
    state: str
    glyph: str
    note: str
    finding: Evidence | None
    others: tuple[Evidence, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Segment:
    """A part of the shared memory needed; `x` and `width` in units of the drawing."""

    name: str
    bytes: int
    look: str
    x: float
    width: float


@dataclasses.dataclass(frozen=True, slots=True)
class Budget:
    """Need against limit, as one bar."""

    need_bytes: int
    limit_bytes: int
    segments: tuple[Segment, ...]
    limit_x: float
    over: Segment | None


@dataclasses.dataclass(frozen=True, slots=True)
class Sibling:
    tile_id: int
    variant: Variant
    look: str
    glyph: str
    text: str
    current: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Log:
    pk: int
    name: str
    head: str
    length: int


@dataclasses.dataclass(frozen=True, slots=True)
class CellEvidence:
    tile: Tile
    release: Release
    variant: Variant
    look: str
    glyph: str
    said: str
    explanation: tuple[str, ...]
    rungs: tuple[Rung, ...]
    budget: Budget | None
    siblings: tuple[Sibling, ...]
    log: Log | None
    document: Document | None
    command: str


def cell_evidence(tile_id: int, version: str) -> CellEvidence | None:
    """None when the tile or the release is unknown."""
    tile = Tile.objects.filter(pk=tile_id).first()
    release = Release.objects.filter(package=PACKAGE, version=version).first()
    if tile is None or release is None:
        return None
    findings = list(
        Evidence.objects.filter(tile=tile, release=release)
        .select_related("document", "document__run", "stack")
        .defer("document__body")
        .order_by("-found_at", "-id")
    )
    verdicts = {verdict.tile_id: verdict for verdict in _of_same_tile(tile, release)}
    verdict = verdicts.pop(tile.pk, None)
    counting = deciding(findings)
    sized = next((f for f in (counting.get(Stage.FITS), *findings) if f and f.need_bytes is not None), None)
    variant = variant_of(tile, verdict, sized.parts if sized else None)
    if sized and variant.need_bytes is None:
        variant = dataclasses.replace(
            variant, need_bytes=sized.need_bytes, limit_bytes=sized.limit_bytes, stages=sized.stages
        )
    siblings = [Sibling(tile.pk, variant, *_look(variant.fate), words.cell(variant), True)] if verdict else []
    for other in verdicts.values():
        theirs = variant_of(other.tile, other)
        siblings.append(Sibling(other.tile_id, theirs, *_look(theirs.fate), words.cell(theirs), False))
    siblings.sort(key=lambda sibling: (sibling.variant.fusion.lower() != "none", sibling.variant.epilogue))
    decider = _decider(counting, verdict)
    return CellEvidence(
        tile=tile,
        release=release,
        variant=variant,
        said=words.cell(variant),
        **dict(zip(("look", "glyph"), _look(variant.fate), strict=True)),
        explanation=words.explain(variant, [sibling.variant for sibling in siblings]),
        rungs=tuple(_rungs(counting, findings, verdict)),
        budget=budget(variant),
        siblings=tuple(siblings),
        log=_log(decider),
        document=decider.document if decider else None,
        command=shlex.join(str(word) for word in decider.document.facts.get("command", []))
        if decider
        else "",
    )


def _of_same_tile(tile: Tile, release: Release) -> QuerySet[Verdict]:
    """Verdicts of every fusion and swap of this tile in this release, its own among them."""
    return Verdict.objects.filter(
        release=release,
        tile__arch=tile.arch,
        tile__family=tile.family,
        tile__inputs=tile.inputs,
        tile__output=tile.output,
        tile__m=tile.m,
        tile__n=tile.n,
        tile__k=tile.k,
        tile__cluster=tile.cluster,
        tile__schedule=tile.schedule,
    ).select_related("tile")


def _look(fate: Fate) -> tuple[str, str]:
    return LOOKS.get(fate, fate.value), GLYPHS[fate]


def _decider(counting: dict[Stage, Evidence], verdict: Verdict | None) -> Evidence | None:
    """The finding that the verdict rests on."""
    if verdict is None:
        return None
    stage = verdict.failed_stage or verdict.stage
    return counting.get(Stage(stage)) if stage else None


def _rungs(counting: dict[Stage, Evidence], findings: list[Evidence], verdict: Verdict | None) -> list[Rung]:
    rungs = []
    ended = verdict is None
    for stage in Stage:
        finding = counting.get(stage)
        if finding is None:
            later = any(other.passed and other.stage in _above(stage) for other in counting.values())
            rungs.append(
                Rung(stage, "open", "·", "implied by what follows" if later else "not tested", None, ())
            )
        else:
            others = tuple(f for f in findings if f.stage == stage and f is not finding)
            state, glyph = (
                ("yes", "●") if finding.passed else ("no", "≠" if finding.reason == "incorrect" else "▲")
            )
            rungs.append(Rung(stage, state, glyph, _note(finding), finding, others))
        if not ended and stage == (verdict.failed_stage or verdict.stage if verdict else ""):
            ended = True
            beyond = [Rung(s, "open", "·", "", None, ()) for s in _above(stage) if s not in counting]
            if len(beyond) == len(_above(stage)) and beyond:
                beyond[0] = dataclasses.replace(beyond[0], note="not tested beyond here")
                return [*rungs, *beyond]
    return rungs


def _above(stage: Stage) -> list[Stage]:
    ladder = list(Stage)
    return ladder[ladder.index(stage) + 1 :]


def _note(finding: Evidence) -> str:
    """What a rung says in a line: size or reason, tier and the tool that found it."""
    said = []
    if finding.stage == Stage.FITS and finding.need_bytes is not None and finding.limit_bytes is not None:
        margin = finding.limit_bytes - finding.need_bytes
        said.append(f"short by {words.size(-margin)}" if margin < 0 else f"{words.size(margin)} to spare")
    elif not finding.passed and finding.reason:
        said.append(finding.reason.replace("_", " "))
    nvcc = finding.stack.components.get("nvcc")
    if finding.source == "compiler":
        said.append(" ".join(filter(None, ["nvcc", nvcc, f"({finding.tier} tier)" if finding.tier else ""])))
    else:
        said.append(
            {"generator": "read from the generator's output", "device": "on the GPU"}.get(finding.source, "")
        )
    return ", ".join(filter(None, said))


def _log(decider: Evidence | None) -> Log | None:
    if decider is None or decider.log_id is None:
        return None
    row = (
        EvidenceLog.objects.filter(pk=decider.log_id)
        .annotate(head=Left("text", LOG_SHOWN), length=Length("text"))
        .values("pk", "name", "head", "length")
        .get()
    )
    return Log(**row)


def budget(variant: Variant) -> Budget | None:
    """The bar of need against limit; None where either is unknown. Parts must sum to need to be drawn."""
    need, limit = variant.need_bytes, variant.limit_bytes
    if not need or not limit:
        return None
    scale = BAR_WIDTH / max(need, limit)
    parts: dict[str, int] = {}
    if sum(variant.parts.values()) == need:
        for name, part in variant.parts.items():
            parts[_part(name)] = parts.get(_part(name), 0) + part
    segments = []
    at = 0
    for look, said in PARTS.items():
        if part := parts.get(look, need if not parts and look == "operands" else 0):
            name = said if parts else "needed"
            segments.append(Segment(name, part, look, round(at * scale, 1), round(part * scale, 1)))
            at += part
    over = None
    if need > limit:
        over = Segment(
            "over", need - limit, "over", round(limit * scale, 1), round((need - limit) * scale, 1)
        )
    return Budget(need, limit, tuple(segments), round(limit * scale, 1), over)


def _part(name: str) -> str:
    """The look of a part, by its name in the evidence."""
    if name.startswith("scale"):
        return "scales"
    if name.startswith("operand"):
        return "operands"
    return name if name in ("epilogue", "padding") else "rest"
