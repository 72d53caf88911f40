"""Which FlashInfer versions an architecture's survey should hold."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

from workers.bench.tiles.versions import is_early, normalise, sort_key

#: Earlier releases are published as sources only.
FIRST = "0.5.0"
#: Where tiles are in doubt every release counts; elsewhere the newest of each minor.
EVERY_RELEASE = frozenset({"sm120", "sm121"})


def due(offered: Iterable[str], arch: str) -> list[str]:
    """The versions to survey on `arch` of those that have a wheel, newest first, without pre-releases."""
    known = {normalise(version) for version in offered}
    versions = sorted(
        (version for version in known if not is_early(version) and sort_key(version) >= sort_key(FIRST)),
        key=sort_key,
        reverse=True,
    )
    if arch in EVERY_RELEASE:
        return versions
    return [next(group) for _, group in itertools.groupby(versions, key=_minor)]


def _minor(version: str) -> tuple[int, ...]:
    return sort_key(version)[0][:2]
