"""Where steps were measured: one GPU, or any of a model. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping

from benchapp.catalog.models import Target

#: Before the name of a product, in an address.
ANY = "any:"


def names(targets: Collection[Target]) -> dict[int, str]:
    """A name for each by its key, told apart by host, and by UUID where one host has several."""
    models = Counter(str(target) for target in targets)
    hosts = Counter((str(target), str(target.host or "")) for target in targets)
    named = {}
    for target in targets:
        said = [str(target)]
        if models[str(target)] > 1:
            said += [str(target.host)] if target.host else []
            if hosts[str(target), str(target.host or "")] > 1 and target.uuid:
                said.append(target.uuid[:12])
        named[target.pk] = ", ".join(said)
    return named


def places(ids: Iterable[int], targets: Mapping[int, Target], named: Mapping[int, str]) -> dict[str, str]:
    """What can be chosen, by its value in an address: GPUs first, any of a model before each."""
    of_model: dict[str, list[Target]] = defaultdict(list)
    listed = sorted(
        {targets[pk] for pk in ids if pk in targets}, key=lambda t: (t.kind != "gpu", str(t), t.pk)
    )
    for target in listed:
        of_model[str(target)].append(target)
    found = {}
    for model, those in of_model.items():
        if len(those) > 1 and those[0].kind == Target.Kind.GPU:
            found[f"{ANY}{model}"] = f"any {model}"
        found |= {str(target.pk): named[target.pk] for target in those}
    return found


def is_at(place: str, target: Target) -> bool:
    return str(target) == place.removeprefix(ANY) if place.startswith(ANY) else str(target.pk) == place
