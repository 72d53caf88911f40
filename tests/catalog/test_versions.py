from __future__ import annotations

import re

from benchapp.catalog.versions import PATTERN, version_order


def test_releases_stand_in_their_order_and_what_is_none_comes_first():
    versions = ["0.6.10", "nightly", "0.6.9", "0.6.9.post1", "0.6.10rc1", "", "0.6.9+cu129"]
    assert sorted(versions, key=version_order) == [
        "", "nightly", "0.6.9", "0.6.9+cu129", "0.6.9.post1", "0.6.10rc1", "0.6.10",
    ]  # fmt: skip


def test_an_address_takes_every_version_and_nothing_else():
    for version in ("0.6.3", "1!2.0", "0.6.18.post1", "2.13.0+cpu", "nightly-2026_11"):
        assert re.fullmatch(PATTERN, version)
    for text in ("", "a" * 41, "0.6 ", "0/6", "\0", "٣"):
        assert not re.fullmatch(PATTERN, text)
