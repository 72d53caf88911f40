"""What a bigger tile buys, in work a byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.tiles.intensity import mac_per_byte, tile_intensity

sides = st.integers(1, 4096)
widths = st.sampled_from((0.5, 0.5625, 1.0, 2.0))


@pytest.mark.parametrize(
    ("m", "n", "bare", "scaled"),
    [(128, 128, 128.0, 227.6), (256, 128, 170.7, 303.4), (256, 256, 256.0, 455.1)],
)
def test_nvfp4_tiles(m, n, bare, scaled):
    found = tile_intensity(m, n, "nvfp4", "nvfp4")
    assert found is not None
    assert (round(found[0], 1), round(found[1], 1)) == (bare, scaled)


def test_types_without_scales_have_one_figure_and_unknown_types_none():
    assert tile_intensity(128, 128, "bf16", "bf16") == (32.0, 64.0)
    assert tile_intensity(128, 128, "int3", "bf16") is None


@given(sides, sides, widths, widths)
def test_it_is_symmetric_and_twice_the_tile_buys_at_most_twice_as_much(m, n, a, b):
    assert mac_per_byte(m, n, a, b) == pytest.approx(mac_per_byte(n, m, b, a))
    small, big = mac_per_byte(m, n, a, b), mac_per_byte(2 * m, n, a, b)
    assert small < big < 2 * small
    assert mac_per_byte(2 * m, 2 * n, a, b) == pytest.approx(2 * small)
