"""The ladder of one tile variant in one release: for each stage what decides it, why, and what disagrees."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from benchapp.tiles import findings_words as says
from benchapp.tiles.models import Evidence, Listing, Stage, Verdict
from benchapp.tiles.verdict import STRENGTH, deciding
from benchapp.tiles.words import listed
from workers.bench.document import Tier

TIERS: tuple[Tier, ...] = ("types", "body", "full")
#: What a compile may tell beside its outcome; fields of a finding.
FIGURES = (
    "spill_store_bytes", "spill_load_bytes", "stack_bytes", "registers", "threads", "object_bytes",
    "cpu_seconds",
)  # fmt: skip
#: Characters of a finding's own words that a rung shows.
DETAIL_SHOWN = 400
_FAILED_LOOKS = {
    "incorrect": ("wrong", "≠"),
    "not_supported": ("none", "–"),
    "no_dispatch": ("lost", "○"),
    "no_candidate": ("lost", "◌"),
}
#: Stages that need a GPU.
ON_DEVICE = (Stage.INITIALISED, Stage.RAN, Stage.CORRECT)


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """One finding as a line of its rung; `standing` says why it counts or does not."""

    finding: Evidence
    look: str
    glyph: str
    said: str
    source: str
    standing: str = ""
    #: its own words, where the line does not say all
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Rung:
    """One stage, and the finding that decides it; `why` says why that one counts.

    `state` is yes, no, wrong (an incorrect result), lost (the sources name it in one place and not in
    another), none (not supported) or open.
    """

    stage: str
    state: str
    glyph: str
    note: str
    decider: Told | None = None
    why: str = ""
    #: whether `why` concerns every reader: something weaker or other was outvoted
    telling: bool = False
    #: whether the note is tactic ids
    tactics: bool = False
    #: the compiler's own words, where it refused
    assertion: str = ""
    meaning: str = ""
    conflicts: tuple[Told, ...] = ()
    others: tuple[Told, ...] = ()
    #: older findings that are not shown
    left_out: int = 0

    @property
    def outcome(self) -> str:
        outcomes = {"yes": "passed", "open": "", "none": "not supported"}
        return outcomes.get(self.state, "failed")


@dataclasses.dataclass(frozen=True, slots=True)
class Tiered:
    """What the newest compile at one tier said; `finding` is None where nobody compiled it that far."""

    tier: str
    finding: Evidence | None


@dataclasses.dataclass(frozen=True, slots=True)
class Tiers:
    """All tiers, and which of FIGURES any of them knows."""

    columns: tuple[Tiered, ...]
    measured: frozenset[str]


def rungs(
    findings: Sequence[Evidence],
    verdict: Verdict | None,
    listing: Listing | None,
    left_out: Mapping[str, int],
) -> tuple[Rung, ...]:
    """All stages from bottom to top; `left_out` counts by stage the older findings not among these."""
    counting = deciding(findings)
    top = max((stage for stage in counting if counting[stage].passed), key=list(Stage).index, default=None)
    said_open = False
    ladder = []
    for stage in Stage:
        decider = counting.get(stage)
        if decider is not None:
            others = [found for found in findings if found.stage == stage and found.pk != decider.pk]
            ladder.append(_rung(decider, others, listing, left_out.get(stage, 0)))
        elif stage in (Stage.CANDIDATE, Stage.DISPATCHED) and listing is not None:
            ladder.append(_listed(stage, listing))
        elif top is not None and list(Stage).index(stage) < list(Stage).index(top):
            ladder.append(Rung(stage, "open", "·", "no finding of its own; what follows implies it"))
        else:
            ladder.append(Rung(stage, "open", "·", "" if said_open else _untested(stage, counting, verdict)))
            said_open = True
    return tuple(ladder)


def _untested(stage: Stage, counting: dict[Stage, Evidence], verdict: Verdict | None) -> str:
    if not counting:
        return "not tested"
    if verdict is not None and verdict.failed_stage:
        return "not tested beyond here"
    return "not tested beyond here: this takes a GPU" if stage in ON_DEVICE else "not tested beyond here"


def _listed(stage: Stage, listing: Listing) -> Rung:
    """A stage that the version's sources answer though no finding does."""
    if stage == Stage.CANDIDATE:
        if listing.candidate:
            ids = says.tactics(listing)
            return Rung(stage, "yes", "●", ids or says.PASSED[stage], tactics=bool(ids))
        return Rung(stage, *_FAILED_LOOKS["no_candidate"], says.FAILED["no_candidate"])
    held = [
        word
        for word, there in (("dispatch table", listing.dispatched), ("instantiated", listing.instantiated))
        if there
    ]
    if len(held) == 2:
        return Rung(stage, "yes", "●", "in the dispatch table, instantiated")
    lacks = "instantiated, but not in the dispatch table" if listing.instantiated else "not instantiated"
    said = lacks if held else "neither in the dispatch table nor instantiated"
    return Rung(stage, *_FAILED_LOOKS["no_dispatch"], said)


def _rung(decider: Evidence, others: Sequence[Evidence], listing: Listing | None, left_out: int) -> Rung:
    look, glyph = _look(decider)
    told = [_told(other, decider) for other in sorted(others, key=_rank, reverse=True)]
    conflicts = _newest_of_each([one for one in told if one.finding.passed != decider.passed])
    candidate = decider.stage == Stage.CANDIDATE and decider.passed
    ids = says.tactics(listing) if candidate and listing is not None else ""
    note = ids or says.said(decider)
    broken = decider.reason == "compile_error"
    message = says.assertion(decider.detail) if broken else ""
    return Rung(
        stage=decider.stage,
        state=look,
        glyph=glyph,
        note=note,
        decider=Told(
            decider, look, glyph, note, says.source(decider), detail="" if broken or ids else _detail(decider)
        ),
        why=_why(decider, others),
        telling=bool(conflicts) or any(_weight(other) < _weight(decider) for other in others),
        tactics=bool(ids),
        assertion=message,
        meaning=says.meaning(message),
        conflicts=tuple(conflicts),
        others=tuple(one for one in told if one not in conflicts),
        left_out=left_out,
    )


def _look(finding: Evidence) -> tuple[str, str]:
    if finding.passed:
        return "yes", "●"
    return _FAILED_LOOKS.get(finding.reason, ("no", "▲"))


def _told(finding: Evidence, decider: Evidence) -> Told:
    if _weight(finding) < _weight(decider):
        standing = f"outweighed by {says.kind(decider)}"
    elif finding.found_at < decider.found_at:
        standing = "superseded by a newer one"
    else:
        standing = "of the same time, stored before the one that counts"
    return Told(
        finding, *_look(finding), says.said(finding), says.source(finding), standing, _detail(finding)
    )


def _detail(finding: Evidence) -> str:
    """A finding's own words, where they say more than the line does: that names a shortfall already."""
    shortfall = (finding.need_bytes or 0) - (finding.limit_bytes or 0)
    said = shortfall > 0 and finding.detail.startswith(f"{shortfall:,} B more ")
    return "" if said else finding.detail[:DETAIL_SHOWN]


def _newest_of_each(told: Sequence[Told]) -> list[Told]:
    """One of each kind of evidence: the first, where the newest stand first."""
    return list({says.kind(one.finding): one for one in reversed(told)}.values())[::-1]


def _why(decider: Evidence, others: Sequence[Evidence]) -> str:
    """Why one of several findings decides: strength first, age second; "" where there is only one."""
    weaker = sorted(
        {(_weight(other), says.kind(other)) for other in others if _weight(other) < _weight(decider)},
        reverse=True,
    )
    equal = any(_weight(other) == _weight(decider) for other in others)
    kind = says.kind(decider)
    said = []
    if weaker:
        said.append(f"{kind} outweighs {listed([name for _, name in weaker])}")
    if equal:
        said.append("of equally strong findings the newest counts")
    return ("; ".join(said)[:1].upper() + "; ".join(said)[1:] + ".") if said else ""


def _weight(finding: Evidence) -> int:
    return STRENGTH.get((finding.source, finding.tier if finding.source == "compiler" else ""), 0)


def _rank(finding: Evidence) -> tuple[int, float, int]:
    return _weight(finding), finding.found_at.timestamp(), finding.pk


def tiers(findings: Sequence[Evidence]) -> Tiers | None:
    """What nvcc said at each tier, shallow to deep; None where it never saw the variant."""
    compiled = [found for found in findings if found.stage == Stage.COMPILED and found.source == "compiler"]
    newest = {found.tier: found for found in sorted(compiled, key=_rank)}
    if not newest:
        return None
    known = {name for name in FIGURES for found in newest.values() if getattr(found, name) is not None}
    return Tiers(tuple(Tiered(tier, newest.get(tier)) for tier in TIERS), frozenset(known))
