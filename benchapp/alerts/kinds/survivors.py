"""Survivors that vanish between two releases: one alert an architecture, family and pair of releases, closed
once a newer release, or a better survey of the same one, has all of them again."""

from __future__ import annotations

from django.db import transaction

from benchapp.alerts.closing import resolve
from benchapp.alerts.models import Alert, Event
from benchapp.alerts.opening import Proposal, open_or_join
from benchapp.catalog.models import Release
from benchapp.catalog.versions import is_candidate, version_order
from benchapp.runs.models import Document
from benchapp.tiles.diff import compare, losses
from benchapp.tiles.entries import entries
from benchapp.tiles.models import Tile
from benchapp.tiles.queries import PACKAGE, Selection, surveyed_releases

VANISHED = "survivors_vanished"


def vanished(event: Event) -> Alert:
    """Open or join the alert of the releases that the event is about."""
    about = {name: event.payload[name] for name in ("arch", "family", "from", "to")}
    alert, _ = open_or_join(
        Proposal(
            key="survivors:{arch}:{family}:{from}:{to}".format(**about),
            kind=Alert.Kind.SURVIVORS,
            title=f"Survivors vanished: {event.subject}",
            sentence=event.sentence,
            event=event,
            evidence={**about, "survivors": event.payload["survivors"]},
        )
    )
    return alert


@transaction.atomic
def after(document: Document) -> None:
    """Close what the newest surveyed release has again, once one of that architecture was surveyed."""
    assert document.target is not None
    arch = document.target.arch
    waiting = Alert.objects.filter(kind=Alert.Kind.SURVIVORS, closed_at=None, evidence__arch=arch)
    for alert in waiting:
        family, origin = alert.evidence["family"], alert.evidence["from"]
        releases = [each for each in surveyed_releases(arch, family) if not is_candidate(each.version)]
        newest = max(releases, key=lambda each: version_order(each.version), default=None)
        before = Release.objects.filter(package=PACKAGE, version=origin).first()
        if newest is None or before is None:
            continue
        lost = _lost(arch, family, before, newest)
        if not any(survivor.endswith(name) for survivor in alert.evidence["survivors"] for name in lost):
            resolve(alert.key, f"Each of them fits again in {newest.version}.")


def _lost(arch: str, family: str, before: Release, newest: Release) -> set[str]:
    """How the names of what survived in the one release and does not in the other end, whatever its types."""
    kinds = Tile.objects.filter(arch=arch, family=family).values_list("inputs", "output").distinct()
    lost = set()
    for inputs, output in kinds:
        sides = entries(Selection(arch, family, inputs, output), [before, newest])
        deltas = losses(compare(*(sides.get(release.pk, {}) for release in (before, newest))))
        lost |= {f" {delta.key.name}" for delta in deltas}
    return lost
