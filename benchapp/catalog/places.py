"""What targets are called beside each other. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from benchapp.catalog.models import Target


def names(targets: Collection[Target]) -> dict[int, str]:
    """A name for each by its key: of several of one model with their host, and with the start of their UUID
    where one host has several."""
    models = Counter(str(target) for target in targets)
    hosts = Counter((str(target), str(target.host or "")) for target in targets)
    named = {}
    for target in targets:
        said = [str(target)]
        if models[str(target)] > 1:
            host = str(target.host or "")
            said += [host] if host else []
            said += [target.uuid[:12]] if hosts[str(target), host] > 1 and target.uuid else []
        named[target.pk] = ", ".join(said)
    return named
