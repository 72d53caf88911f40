"""What became of one tile variant in one release. Sizes are bytes, tiles are (M, N, K) in elements."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping

from benchapp.tiles.models import Stage

LADDER = tuple(Stage.values)
#: The highest stage passed is one of these where a variant fits, whatever came after.
FITTING = LADDER[LADDER.index(Stage.FITS) :]


class Fate(enum.StrEnum):
    """What a cell of the matrix shows. Each has a glyph of its own, so that nothing hangs on colour."""

    SURVIVED = "survived"
    OVERFLOW = "overflow"
    COMPILE_ERROR = "compile-error"
    DEVICE_FAILURE = "device-failure"
    INCORRECT = "incorrect"
    NO_DISPATCH = "no-dispatch"
    NO_CANDIDATE = "no-candidate"
    UNSUPPORTED = "unsupported"
    UNTESTED = "untested"
    ABSENT = "absent"


GLYPHS = {
    Fate.SURVIVED: "●",
    Fate.OVERFLOW: "▲",
    Fate.COMPILE_ERROR: "▲",
    Fate.DEVICE_FAILURE: "▲",
    Fate.INCORRECT: "≠",
    Fate.NO_DISPATCH: "○",
    Fate.NO_CANDIDATE: "◌",
    Fate.UNSUPPORTED: "–",
    Fate.UNTESTED: "",
    Fate.ABSENT: "·",
}
#: The three failures share colour and shape and differ in words.
_LOOKS = {
    Fate.OVERFLOW: "failed",
    Fate.COMPILE_ERROR: "failed",
    Fate.DEVICE_FAILURE: "failed",
    Fate.NO_DISPATCH: "nodispatch",
    Fate.NO_CANDIDATE: "nocandidate",
}


def look(fate: Fate) -> str:
    """Class of a cell in the style sheet."""
    return _LOOKS.get(fate, fate.value)


#: Spilt bytes a thread from which survival is no good news. 512 B are 128 registers of 4 B, of the 168 that a
#: thread of a 384-thread block can have.
HEAVY_SPILL_BYTES = 512
_FATE_OF_REASON = {
    "smem_overflow": Fate.OVERFLOW,
    "compile_error": Fate.COMPILE_ERROR,
    "no_dispatch": Fate.NO_DISPATCH,
    "no_candidate": Fate.NO_CANDIDATE,
    "incorrect": Fate.INCORRECT,
    "not_supported": Fate.UNSUPPORTED,
}


def shape(extents: Iterable[int]) -> str:
    """M×N, or M×N×K."""
    return "×".join(map(str, extents))


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """A tile with one epilogue fusion, swapped or not, and what is known of it in one release."""

    tile: tuple[int, int, int]
    fusion: str
    swap_ab: bool
    stage: str = ""
    failed_stage: str = ""
    reason: str = ""
    tier: str = ""
    stages: int | None = None
    need_bytes: int | None = None
    limit_bytes: int | None = None
    parts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    source: str = ""
    spill_store_bytes: int | None = None
    chosen: bool = False
    cluster: str = ""
    schedule: str = ""

    @property
    def shape(self) -> str:
        return shape(self.tile)

    @property
    def epilogue(self) -> str:
        return self.fusion.lower() + (" · swap" if self.swap_ab else "")

    @property
    def extra(self) -> str:
        """Cluster and schedule, as far as they are not what goes without saying."""
        cluster = "" if self.cluster in ("", "1x1x1") else self.cluster
        return f"{cluster} {'' if self.schedule == 'auto' else self.schedule}".strip()

    @property
    def name(self) -> str:
        return f"{self.shape} {self.epilogue} {self.extra}".rstrip()

    @property
    def kind(self) -> str:
        """What the verdict rests on: device, imported, the tier it compiled at, or the release's sources."""
        if self.source in ("device", "imported"):
            return self.source
        return self.tier or ("sources" if self.source else "")

    @property
    def spills(self) -> bool:
        """Whether it fits and spills registers: a survival that is no plain good news."""
        return self.reached(Stage.FITS) and bool(self.spill_store_bytes)

    @property
    def spills_heavily(self) -> bool:
        return self.spills and (self.spill_store_bytes or 0) >= HEAVY_SPILL_BYTES

    @property
    def margin_bytes(self) -> int | None:
        """Bytes left below the limit; negative is a shortfall."""
        if self.need_bytes is None or self.limit_bytes is None:
            return None
        return self.limit_bytes - self.need_bytes

    @property
    def fate(self) -> Fate:
        if self.failed_stage or self.reason:
            return _FATE_OF_REASON.get(self.reason, Fate.DEVICE_FAILURE)
        return Fate.SURVIVED if self.reached(Stage.FITS) else Fate.UNTESTED

    def reached(self, stage: str) -> bool:
        """Whether it passed `stage`, whatever came after."""
        return bool(self.stage) and LADDER.index(self.stage) >= LADDER.index(stage)
