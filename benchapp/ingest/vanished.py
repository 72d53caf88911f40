"""Survivors that vanish between two neighbouring surveyed releases are told as an event."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchapp.alerts.actions import raise_event
from benchapp.alerts.models import Event
from benchapp.catalog.models import Release
from benchapp.catalog.versions import is_candidate
from benchapp.ingest import schema
from benchapp.ingest.identities import release_of
from benchapp.tiles import families
from benchapp.tiles.diff import Change, Delta, compare, losses
from benchapp.tiles.entries import Entry, entries
from benchapp.tiles.queries import PACKAGE, Selection, surveyed_releases
from benchapp.tiles.words import listed
from benchapp.web.templatetags.units import operands

KIND = "survivors_vanished"
#: A sentence names no more variants than this; the payload names NAMED of them.
SAID = 6
NAMED = 200


def tell(document: schema.Document) -> int:
    """Compare the release a survey speaks of with its surveyed neighbours; returns how many events are new.

    An older release surveyed late is compared with the next one too. One event an architecture, a family and
    a pair of releases. Only a survey of a FlashInfer release's types counts: others' files and deeper tiers
    are not whole, so that nothing is known to be gone.
    """
    compiled = [f for f in document.evidence if f.source == "compiler" and f.tier == "types"]
    if document.target.kind != "arch" or PACKAGE not in document.stack or not compiled:
        return 0
    arch, release = document.target.arch, release_of(document)
    kinds: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for finding in compiled:
        if finding.family not in families.NOT_SHIPPED:
            kinds[finding.family].add((finding.inputs, finding.output))
    new = 0
    for family, of_family in sorted(kinds.items()):
        selections = [Selection(arch, family, *types) for types in sorted(of_family)]
        for before, after in _neighbours(surveyed_releases(arch, family), release):
            new += _compare(selections, before, after)
    return new


def _neighbours(releases: Sequence[Release], release: Release) -> Iterable[tuple[Release, Release]]:
    """The pairs of neighbouring surveyed releases of which `release` is one, older first; no candidate is."""
    proper = [other for other in releases if not is_candidate(other.version)]
    return [pair for pair in itertools.pairwise(proper) if release in pair]


def _looked_at(found: Iterable[Entry]) -> bool:
    """Whether a survey found any of these; others' files are not whole."""
    return any(entry.listing or entry.variant.source != "imported" for entry in found)


def _compare(selections: Sequence[Selection], before: Release, after: Release) -> bool:
    lost: dict[str, Delta] = {}
    for selection in selections:
        sides = entries(selection, [before, after])
        # types that one side's survey did not look at are not known to be gone
        if not all(_looked_at(sides.get(release.pk, {}).values()) for release in (before, after)):
            continue
        for delta in losses(compare(sides[before.pk], sides[after.pk])):
            lost.setdefault(f"{operands(selection.inputs)} {delta.key.name}", delta)
    if not lost:
        return False
    arch, family = selections[0].arch, selections[0].family
    return raise_event(
        KIND,
        Event.Severity.WARNING,
        subject=f"{arch.upper()} {families.label(family)}, {before.version} → {after.version}",
        sentence=_sentence(lost, before.version, after.version, arch),
        dedupe_key=f"{KIND}:{arch}:{family}:{before.version}:{after.version}",
        payload={
            "arch": arch,
            "family": family,
            "from": before.version,
            "to": after.version,
            "survivors": list(itertools.islice(lost, NAMED)),
        },
    )


def _sentence(lost: dict[str, Delta], before: str, after: str, arch: str) -> str:
    """ "On SM120 2 variants that fit in 0.6.3 no longer do in 0.7.4: … (gone) and … (fails at fits)." """
    names = [
        f"{name} ({'gone' if delta.change is Change.VANISHED else f'fails at {_failed(delta)}'})"
        for name, delta in lost.items()
    ]
    what = "1 variant that fits" if len(lost) == 1 else f"{len(lost):,} variants that fit"
    do = "does" if len(lost) == 1 else "do"
    return f"On {arch.upper()} {what} in {before} no longer {do} in {after}: {listed(names, SAID)}."


def _failed(delta: Delta) -> str:
    return delta.after.variant.failed_stage if delta.after else ""
