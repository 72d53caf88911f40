"""Which component a bisect searches in, and over which of its versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.core.exceptions import ValidationError
from packaging.version import InvalidVersion, Version

from benchapp.alerts.places import releases_of
from benchapp.catalog.versions import version_order
from benchapp.runs.requests import clean_version
from benchapp.trends.components import component_order

#: More versions than any package has had in a year; the search itself takes some seven steps over them.
MOST_VERSIONS = 120
#: Of recipes: the CUDA that torch is built for is no version of a package.
_NO_PACKAGE = "cuda"


def component_of(old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """What differs between two recipes, a library before the torch below it. Raises ValidationError."""
    both = sorted(old.keys() & new.keys() - {_NO_PACKAGE}, key=component_order)
    found = next((name for name in both if old[name] != new[name]), None)
    if found is None:
        raise ValidationError("Its two recipes differ in no package that both have: there is no range.")
    return found


def between(component: str, good: str, bad: str, asked: Sequence[str] | None) -> list[str]:
    """The versions to search in, from the good one to the bad one, both included: those asked for, or the
    releases known, without pre-releases.

    Raises ValidationError, {"versions": sentence} of those asked for.
    """
    back = version_order(bad) < version_order(good)
    if asked is None:
        low, high = sorted((good, bad), key=version_order)
        inside = [
            version
            for version in releases_of(component)
            if version_order(low) < version_order(version) < version_order(high) and _is_final(version)
        ]
        if not inside:
            raise ValidationError(
                f"No release of {component} is known between {good} and {bad}: the change came with {bad}."
            )
        found = [low, *inside, high]
    else:
        try:
            cleaned = [clean_version(version, candidates=True) for version in asked]
        except ValidationError as error:
            raise ValidationError({"versions": error.messages}) from None
        found = sorted({version_order(each): each for each in cleaned}.values(), key=version_order)
        low, high = sorted((good, bad), key=version_order)
        outside = [x for x in found if not version_order(low) <= version_order(x) <= version_order(high)]
        if outside:
            raise ValidationError(
                {"versions": f"{outside[0]} is not between {good} and {bad}, where the change is."}
            )
        if len(found) < 2:
            raise ValidationError({"versions": "Expected two versions or more, the good one first."})
    if len(found) > MOST_VERSIONS:
        raise ValidationError({"versions": f"{len(found)} versions: expected at most {MOST_VERSIONS}."})
    return found[::-1] if back else found


def _is_final(version: str) -> bool:
    try:
        return not Version(version).is_prerelease
    except InvalidVersion:
        return False
