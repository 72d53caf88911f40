"""Versions of packages: their order, and how they stand in an address."""

from __future__ import annotations

from packaging.version import InvalidVersion, Version

#: What a version may look like in an address; PEP 440 needs no other characters.
PATTERN = r"[0-9A-Za-z.!+_-]{1,40}"


def version_order(version: str) -> tuple[int, Version | str]:
    """A key that sorts by release, 0.6.9 before 0.6.10; what is no PEP 440 version comes first, by name."""
    try:
        return 1, Version(version)
    except InvalidVersion:
        return 0, version


def is_candidate(version: str) -> bool:
    """Whether it names a wheel registered here, a patch under test, and no release."""
    return "+candidate." in version


def newest_order(version: str) -> tuple[bool, tuple[int, Version | str]]:
    """A key whose greatest is the newest release: a candidate is newest only where there is no release."""
    return not is_candidate(version), version_order(version)
