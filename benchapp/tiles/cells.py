"""One cell of a matrix or a grid: how it looks, what it says, where its evidence is."""

from __future__ import annotations

import dataclasses

from benchapp.tiles.fates import GLYPHS, Fate, Variant, look
from benchapp.tiles.listings import Listed
from benchapp.tiles.models import Tile, Verdict
from benchapp.tiles.queries import Column, variant_of
from benchapp.tiles.words import cell, signed


@dataclasses.dataclass(frozen=True, slots=True)
class Cell:
    variant: Variant
    fate: Fate
    look: str
    glyph: str
    text: str
    title: str
    href: str

    @property
    def margin(self) -> str:
        """Bytes to spare or short with their sign, where there is room for it."""
        return signed(self.variant.margin_bytes)

    @property
    def classes(self) -> str:
        """For the style sheet: look, evidence kind, spills, chosen."""
        variant = self.variant
        spills = "spills heavy" if variant.spills_heavily else "spills" if variant.spills else ""
        kind = f"by-{variant.kind}" if variant.kind else ""
        return " ".join(filter(None, [self.look, kind, spills, "chosen" if variant.chosen else ""]))


def cell_of(tile: Tile, column: Column, verdict: Verdict | None, item: Listed | None, base: str) -> Cell:
    """`base` is the address of the room, `item` what the release's sources list of the variant."""
    variant = variant_of(tile, verdict)
    fate = fate_of(variant, verdict, column, item)
    if verdict is not None:
        text = cell(variant)
    elif item is not None:
        text = "listed, not tested"
    else:
        text = "not in this version" if fate is Fate.ABSENT else "not tested"
    if item is not None and item.ids:
        text += f"; {item.ids}"
    return Cell(
        variant=variant,
        fate=fate,
        look=look(fate),
        glyph=GLYPHS[fate],
        text=text,
        title=f"{variant.name} in {column.version}: {text}",
        href=f"{base}{tile.pk}/{column.version}/" if verdict is not None else "",
    )


def fate_of(variant: Variant, verdict: Verdict | None, column: Column, item: Listed | None = None) -> Fate:
    if verdict is not None:
        return variant.fate
    return Fate.ABSENT if column.surveyed and item is None else Fate.UNTESTED
