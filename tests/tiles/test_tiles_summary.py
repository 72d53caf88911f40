"""A survey in one line."""

from __future__ import annotations

import dataclasses

import pytest

from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey, variant

pytestmark = pytest.mark.django_db


def line(findings):
    return store(survey("0.6.3", "4.2.1", findings)).facts["summary"]


def on_device(one, stage, reason=None):
    """A variant's findings, and one of the device above them."""
    fits = one[-1]
    return [
        *one,
        dataclasses.replace(
            fits, stage=stage, passed=reason is None, reason=reason, source="device", tier=None, log=None
        ),
    ]


def test_what_fits_and_what_overflows_is_counted():
    mixed = [dataclasses.replace(f, inputs="mxfp8xmxfp4") for f in findings_of(IN_0_6_3[:4])]
    assert line([*findings_of(IN_0_6_3), *mixed]) == (
        "survey flashinfer=0.6.3 sm120 nvfp4: 16 tile variants, 14 fit, 2 overflow by 1,024 B; "
        "mxfp8xmxfp4: 4 fit"
    )


def test_families_are_counted_apart_and_the_moes_comes_first():
    dense = [dataclasses.replace(f, family="mm_fp4") for f in findings_of(IN_0_6_3[:1])]
    assert line([*dense, *findings_of(IN_0_6_3[:2])]).endswith("sm120 nvfp4: 2 fit; mm_fp4 nvfp4: 1 fit")


def test_what_got_further_on_a_device_fits_too():
    assert line(on_device(variant(*IN_0_6_3[0]), "correct")).endswith("nvfp4: 1 fit")


def test_what_fits_and_fails_on_a_device_is_no_overflow():
    broken = on_device(variant(*IN_0_6_3[0]), "initialised", "init_failed")
    found = line([*broken, *variant(*IN_0_6_3[1])])
    assert found.endswith("nvfp4: 2 tile variants, 2 fit, 1 init failed")
