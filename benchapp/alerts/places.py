"""What alerts ask of the fleet, by signal, since the fleet lies above them: who serves a target now, and
which versions there are of what they suspect."""

from __future__ import annotations

import dataclasses

from benchapp.alerts.signals import releases_known, who_serves
from benchapp.catalog.models import Target
from benchapp.catalog.versions import is_candidate, version_order


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where something can be measured now: its queue, and what people call it ("GPU 3 of boxb"). Without a
    queue it can be measured nowhere, and `why` says so in a sentence."""

    queue: str = ""
    where: str = ""
    why: str = ""


def place_of(target: Target) -> Place:
    """Of that very GPU, of the CPUs of that very host, or of a compiler for an architecture."""
    for _, answer in who_serves.send(sender=Target, target=target):
        if isinstance(answer, Place):
            return answer
    return Place(why=f"No host here serves {target}.")


def releases_of(component: str) -> list[str]:
    """Known releases of a component of recipes, the oldest first, candidates left out."""
    known: set[str] = set()
    for _, answer in releases_known.send(sender=Target, component=component):
        known |= set(answer or ())
    return sorted((version for version in known if not is_candidate(version)), key=version_order)
