"""What makes a tile variant the same one in two releases, whatever its output type."""

from __future__ import annotations

from typing import NamedTuple

from benchapp.tiles.fates import Variant
from benchapp.tiles.models import Listing, Tile


class Key(NamedTuple):
    """(m, n, k) in elements. A tuple, since a page looks thousands of them up."""

    m: int
    n: int
    k: int
    cluster: str
    schedule: str
    fusion: str
    swap_ab: bool

    @classmethod
    def of(cls, row: Tile | Listing) -> Key:
        return cls(row.m, row.n, row.k, row.cluster, row.schedule, row.fusion, row.swap_ab)

    @property
    def tile(self) -> tuple[int, int, int]:
        return self.m, self.n, self.k

    @property
    def place(self) -> tuple[int, int, int, str, str, bool, str, bool]:
        """A key that sorts as the matrix does: by tile, and fusion none first."""
        plain = self.fusion.lower() != "none"
        return self.m, self.n, self.k, self.cluster, self.schedule, plain, self.fusion, self.swap_ab

    @property
    def variant(self) -> Variant:
        """The variant with nothing known of it."""
        return Variant(self.tile, self.fusion, self.swap_ab, cluster=self.cluster, schedule=self.schedule)

    @property
    def name(self) -> str:
        return self.variant.name
