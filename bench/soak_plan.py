"""What the soak asks for and what it does to the machines, drawn from a seed. Pure: nothing happens here."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

#: torch releases that the soak's own wheels provide; the first is there before the soak begins
BUILT, *TO_BUILD = "2.13.0", "2.12.0", "2.11.0"
#: no wheel provides it
NOWHERE = "0.0.1"

#: what a child may do → codes of the failure that must come of it; "" is success
CHILDREN = {
    "well": ("",),
    "slow clock": ("",),
    "fast clock": ("document_rejected",),
    "crash": ("crashed",),
    "error": ("crashed",),
    "hang": ("timeout",),
    "deaf": ("timeout",),
    "chatter": ("log_limit",),
    "empty": ("stored_nothing",),
    "broken": ("document_rejected",),
    "no environment": ("environment",),
}
FAULTS = {"crash", "error", "hang", "deaf", "chatter", "empty", "broken"}
CLOCKS = {"slow clock": "-3h", "fast clock": "+400d"}
TIME_LIMIT_S = 2

#: what is done to the machines → how often in one round
DISTURBANCES = {
    "GPU worker killed": 3,
    "its pool process killed": 3,
    "measuring child killed": 2,
    "worker frozen": 1,
    "build worker killed": 1,
    "all workers of a host killed": 1,
    "control worker killed": 1,
    "beat killed": 1,
    "Valkey killed, its data gone": 2,
    "Postgres killed": 1,
    "Postgres away": 1,
    "hints doubled": 2,
    "ingest messages doubled": 2,
    "document delivered late": 2,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Size:
    """How long a soak is. `settings` are those of its workers; times in seconds."""

    runs: int
    #: runs that are asked for at once; more are asked for when fewer than that are left
    batch: int
    #: GPUs that the second installation of the host serves too
    shared: int
    #: seconds between two disturbances, from and to
    every_s: tuple[float, float]
    #: None: as long as there is work
    rounds: int | None
    #: how often each disturbance comes in a round; 0: as `DISTURBANCES` says
    times: int
    #: how long Postgres is away, each time
    away_s: tuple[float, ...]
    #: children that it does without: those that take long
    without: tuple[str, ...]
    #: torch releases whose environments are built meanwhile
    builds: Sequence[str]
    settings: str
    heartbeat_timeout_s: float
    #: without any change for so long, the soak is given up
    patience_s: float


FULL = Size(
    runs=1000,
    batch=120,
    shared=4,
    every_s=(4.0, 14.0),
    rounds=None,
    times=0,
    away_s=(150.0, 60.0, 20.0),
    without=(),
    builds=TO_BUILD,
    settings="benchapp.settings.local",
    heartbeat_timeout_s=60.0,
    patience_s=400.0,
)
SHORT = Size(
    runs=40,
    batch=40,
    shared=1,
    every_s=(0.5, 1.5),
    rounds=1,
    times=1,
    away_s=(10.0,),
    without=("deaf",),
    builds=TO_BUILD[:1],
    settings="bench.soak_settings",
    heartbeat_timeout_s=6.0,
    patience_s=150.0,
)


@dataclasses.dataclass(frozen=True, slots=True)
class Asked:
    """One run to ask for. `gpus` are numbers: none for a queue that several serve, two for a gang."""

    number: int
    child: str
    #: uuid, model, arch or gang
    by: str
    gpus: tuple[int, ...]
    torch: str
    priority: int | None
    seconds: float
    #: cancelled so many seconds after it was asked for
    cancelled_after_s: float | None

    def case(self, evidence: str) -> dict[str, Any]:
        """What its child is told."""
        told: dict[str, Any] = {"number": self.number, "seconds": self.seconds, "evidence": evidence}
        if self.child in FAULTS:
            told["fault"] = self.child
        if self.child in CLOCKS:
            told["clock"] = CLOCKS[self.child]
        return told


def asks(size: Size, seed: int, gpus: int) -> list[Asked]:
    """All runs of a soak, most of them well; of each kind of child and of each special wish some."""
    draw = random.Random(seed)
    rare = [child for child in CHILDREN if child not in ("well", *size.without)]
    children = rare * (1 + size.runs // 250)
    children += ["slow clock", "fast clock"] * (size.runs // 60)
    children += ["well"] * (size.runs - len(children))
    draw.shuffle(children)
    drawn = [_ask(number, child, draw, gpus) for number, child in enumerate(children)]
    # on GPUs of one installation, if there are such: each that could do a run builds its environment
    own = range(size.shared, gpus) or range(gpus)
    special = draw.sample([ask.number for ask in drawn if ask.child == "well"], size.runs // 8)
    for place, number in enumerate(special):
        wishes: tuple[dict[str, Any], ...] = (
            {"cancelled_after_s": draw.uniform(0, 3.0)},
            {"torch": draw.choice(size.builds), "by": "uuid", "gpus": (draw.choice(own),)},
            {"by": "gang", "gpus": tuple(sorted(draw.sample(range(gpus), 2)))},
            {"priority": -1},
        )
        drawn[number] = dataclasses.replace(drawn[number], **wishes[place % len(wishes)])
    for ask in drawn:
        if ask.child == "no environment":
            drawn[ask.number] = dataclasses.replace(ask, torch=NOWHERE, by="uuid", gpus=(draw.choice(own),))
    return drawn


def _ask(number: int, child: str, draw: random.Random, gpus: int) -> Asked:
    by = draw.choices(["uuid", "model", "arch"], [50, 25, 25])[0]
    priority = draw.choices([None, 1, 5], [80, 10, 10])[0]
    return Asked(number, child, by, (draw.randrange(gpus),), BUILT, priority, draw.uniform(0.02, 0.2), None)


def disturbances(size: Size, seed: int) -> Iterator[tuple[float, str]]:
    """(seconds since the one before, what), each as often in a round as it should be."""
    draw = random.Random(seed + 1)
    for _ in itertools.count() if size.rounds is None else range(size.rounds):
        one_round = [what for what, times in DISTURBANCES.items() for _ in range(size.times or times)]
        draw.shuffle(one_round)
        for what in one_round:
            yield draw.uniform(*size.every_s), what


def overlaps(intervals: Sequence[tuple[float, float, str]]) -> list[tuple[str, str]]:
    """Pairs of holders, of (from, to, holder) of one GPU, that overlap in time."""
    found = []
    ordered = sorted(intervals)
    for place, (_, until, holder) in enumerate(ordered):
        for since, _, other in ordered[place + 1 :]:
            if since >= until:
                break
            if other != holder:
                found.append((holder, other))
    return found
