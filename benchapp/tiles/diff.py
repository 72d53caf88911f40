"""Two releases of one selection side by side: what appeared, vanished, fell, rose, and what else moved."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping, Sequence

from benchapp.tiles import words
from benchapp.tiles.entries import Entry
from benchapp.tiles.fates import Fate
from benchapp.tiles.keys import Key


class Change(enum.StrEnum):
    """How a variant differs between two releases; a page tells them in this order."""

    VANISHED = "vanished"
    FELL = "fell"
    ROSE = "rose"
    APPEARED = "appeared"
    MOVED = "moved"


_OF_SIDE = (
    "stage", "failed_stage", "reason", "stages", "need_bytes", "margin_bytes", "spill_store_bytes", "tactics",
)  # fmt: skip
#: Columns of a difference as CSV.
COLUMNS = (
    "change", *Key._fields, "from", "to", "moved",
    *(f"{name}_{side}" for side in ("before", "after") for name in _OF_SIDE),
)  # fmt: skip
#: How a heading reads, with the glyph of what became of the variants under it.
HEADINGS = {
    Change.VANISHED: "Vanished: in the older release only",
    Change.FELL: "Fell: fail at a stage that they passed before",
    Change.ROSE: "Rose: pass the stage at which they failed before",
    Change.APPEARED: "Appeared: in the newer release only",
    Change.MOVED: "Same fate, other figures or tactic ids",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Delta:
    """One variant whose two sides differ; a side is None where its release does not hold the variant."""

    change: Change
    key: Key
    before: Entry | None
    after: Entry | None

    @property
    def was_survivor(self) -> bool:
        return self.before is not None and self.before.variant.fate is Fate.SURVIVED

    @property
    def moved(self) -> str:
        return moved_in_words(self.before, self.after)


def compare(before: Mapping[Key, Entry], after: Mapping[Key, Entry]) -> list[Delta]:
    """What differs, in the order of Change and of the tiles."""
    order = list(Change)
    found = [
        Delta(change, key, before.get(key), after.get(key))
        for key in before.keys() | after.keys()
        if (change := change_of(before.get(key), after.get(key))) is not None
    ]
    return sorted(found, key=lambda delta: (order.index(delta.change), delta.key.place))


def change_of(before: Entry | None, after: Entry | None) -> Change | None:
    """None where nothing differs. Tested less far, or farther without a failure, is neither fall nor rise."""
    if before is None or after is None:
        return Change.APPEARED if before is None else Change.VANISHED
    was, now = before.variant.failed_stage, after.variant.failed_stage
    if now and before.passed(now):
        return Change.FELL
    if was and after.passed(was):
        return Change.ROSE
    return Change.MOVED if moved_in_words(before, after) else None


def moved_in_words(before: Entry | None, after: Entry | None) -> str:
    """What moved, e.g. "need −1,024 B, tactic ids 3, 8 → 2, 7"; what one side does not know has not moved."""
    if before is None or after is None:
        return ""
    was, now = before.variant, after.variant
    said = [
        f"{what} {change:+,} B".replace("-", "−")
        for what, change in (
            ("need", _change(was.need_bytes, now.need_bytes)),
            ("margin", _change(was.margin_bytes, now.margin_bytes)),
            ("spills", _change(was.spill_store_bytes, now.spill_store_bytes)),
        )
        if change
    ]
    if _change(was.stages, now.stages):
        said.append(f"pipeline stages {was.stages} → {now.stages}")
    if was.reason and now.reason and was.reason != now.reason:
        said.append(f"{was.reason.replace('_', ' ')} → {now.reason.replace('_', ' ')}")
    if before.listing and after.listing and before.tactics != after.tactics:
        said.append(f"tactic ids {words.ids(before.tactics)} → {words.ids(after.tactics)}")
    return ", ".join(said)


def _change(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else after - before


def headline(from_: str, to: str, deltas: Sequence[Delta], shared: int) -> str:
    """ "From 0.6.3 to 0.7.4, 12 appeared and two fell; 14 in both have the same fate." """
    counts = {change: sum(delta.change is change for delta in deltas) for change in Change}
    said = [f"{words.count(counts[change])} {change}" for change in list(Change)[:4] if counts[change]]
    same = shared - sum(counts[change] for change in (Change.FELL, Change.ROSE))
    rest = f"{words.count(same)} in both {'has' if same == 1 else 'have'} the same fate"
    if moved := counts[Change.MOVED]:
        some = "" if moved == same else f"{words.count(moved)} of them "
        rest += f", {some}with other figures or tactic ids"
    if not said:
        return f"From {from_} to {to} no variant appeared, vanished, fell or rose; {rest}."
    return f"From {from_} to {to}, {words.listed(said)}; {rest}."


def losses(deltas: Sequence[Delta]) -> list[Delta]:
    """Survivors that vanished or fell."""
    return [d for d in deltas if d.was_survivor and d.change in (Change.VANISHED, Change.FELL)]


def flat(deltas: Sequence[Delta], from_: str, to: str) -> Iterator[dict[str, str | int | bool | None]]:
    """One row a delta, for CSV and JSON: sizes in bytes, tiles in elements."""
    for delta in deltas:
        row: dict[str, str | int | bool | None] = {
            "change": delta.change.value,
            **delta.key._asdict(),
            "from": from_,
            "to": to,
            "moved": delta.moved,
        }
        for side, entry in (("before", delta.before), ("after", delta.after)):
            for name in _OF_SIDE[:-1]:
                row[f"{name}_{side}"] = getattr(entry.variant, name) if entry else None
            row[f"tactics_{side}"] = " ".join(map(str, entry.tactics)) if entry else None
        yield row
