"""Survivors that vanish between neighbouring surveyed releases raise one event."""

from __future__ import annotations

import dataclasses

import pytest

from benchapp.alerts.models import Event
from tests.tiles.listed import FROM_0_6_8, NEVER_DISPATCHED, UNTIL_0_6_7, listed_survey
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey

pytestmark = pytest.mark.django_db

FEWER = UNTIL_0_6_7[:3]


def told():
    return [
        (event.payload["from"], event.payload["to"], len(event.payload["survivors"]))
        for event in Event.objects.filter(kind="survivors_vanished").order_by("id")
    ]


def test_variants_that_a_new_release_lacks_are_named():
    store(listed_survey("0.6.9", "4.4.2", UNTIL_0_6_7, day=1))
    store(listed_survey("0.6.10", "4.4.2", FEWER, day=2))
    assert told() == [("0.6.9", "0.6.10", 3)]
    event = Event.objects.get(kind="survivors_vanished")
    assert event.severity == "warning" and event.subject == "SM120 MoE grouped GEMM, 0.6.9 → 0.6.10"
    assert event.sentence.startswith("On SM120 3 variants that fit in 0.6.9 no longer do in 0.6.10: ")
    assert "NVFP4 × NVFP4 256×128×128 none (gone)" in event.sentence


def test_a_survivor_that_falls_counts_and_one_that_never_fit_does_not():
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3), day=1))
    worse = [
        (tile, f, s, g, need + 20_000 if (f, s) == ("none", False) else need)
        for tile, f, s, g, need in IN_0_6_3
    ]
    store(survey("0.6.4", "4.2.1", findings_of(worse), day=2))
    assert told() == [("0.6.3", "0.6.4", 4)]
    assert "(fails at fits)" in Event.objects.get().sentence


def test_the_same_loss_is_told_once():
    for day, (version, tiles) in enumerate((("0.6.3", UNTIL_0_6_7), ("0.6.4", FEWER), ("0.6.4", FEWER)), 1):
        store(listed_survey(version, "4.2.1", tiles, day=day))
    assert told() == [("0.6.3", "0.6.4", 3)]


def test_an_older_release_surveyed_late_is_compared_with_the_next_one():
    store(listed_survey("0.6.10", "4.4.2", FEWER, day=1))
    assert told() == []
    store(listed_survey("0.6.9", "4.4.2", UNTIL_0_6_7, day=2))
    assert told() == [("0.6.9", "0.6.10", 3)]


def test_more_candidates_and_other_architectures_lose_nothing():
    store(listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7, day=1))
    store(listed_survey("0.6.8", "4.4.2", FROM_0_6_8, NEVER_DISPATCHED, day=2))
    store(listed_survey("0.6.9", "4.4.2", FEWER, day=3, arch="sm121"))
    assert told() == []


def test_types_that_a_survey_left_out_are_not_gone():
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3), day=1))
    other = [dataclasses.replace(f, inputs="mxfp8xmxfp4") for f in findings_of(IN_0_6_3[:2])]
    store(survey("0.6.4", "4.2.1", other, day=2))
    assert told() == []


def test_what_others_files_say_makes_nothing_vanish():
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3), day=1))
    theirs = [
        dataclasses.replace(f, source="imported", tier=None)
        for f in findings_of(IN_0_6_3[:1])
        if f.stage in ("candidate", "compiled")
    ]
    store(survey("0.6.4", "4.2.1", theirs, day=2))
    assert told() == []


def test_others_files_beside_a_survey_of_other_types_make_nothing_vanish():
    mxfp8 = [dataclasses.replace(f, inputs="mxfp8xmxfp4") for f in findings_of(IN_0_6_3)]
    theirs = [dataclasses.replace(f, source="imported", tier=None) for f in mxfp8[:1]]
    store(survey("0.6.4", "4.2.1", findings_of(IN_0_6_3), day=1))
    store(survey("0.6.4", "4.2.1", theirs, day=2))
    store(survey("0.6.3", "4.2.1", [*findings_of(IN_0_6_3), *mxfp8], day=3))
    assert told() == []


def test_kernels_of_our_own_are_no_survivors_of_a_release():
    rescues = [dataclasses.replace(f, family="moe_grouped_gemm_rescue") for f in findings_of(IN_0_6_3)]
    store(survey("0.6.3", "4.2.1", rescues, day=1))
    store(survey("0.6.4", "4.2.1", rescues[:4], day=2))
    assert told() == []


def test_a_deep_tier_of_some_kernels_makes_nothing_vanish():
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3), day=1))
    deep = [dataclasses.replace(f, tier="full" if f.tier else None) for f in findings_of(IN_0_6_3[:2])]
    store(survey("0.6.4", "4.2.1", deep, day=2))
    assert told() == []
