"""Where steps were measured: one GPU, or any of a model. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from benchapp.catalog.models import Target

#: Before the name of a product, in an address.
ANY = "any:"


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
