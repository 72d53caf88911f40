"""A measured time against its hardware: checked by hand against the datasheet of an H200."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.catalog.models import Target
from benchapp.trends.utilisation import METRICS, ceiling_at, value, why_no_ceiling
from workers.bench import roofline

H200 = Target(kind="gpu", arch="sm90", model="NVIDIA H200")


def test_shares_of_peak_and_roofline():
    limit = ceiling_at(H200, "bf16")
    assert limit is not None
    assert limit.peak == pytest.approx(132 * 1830e6 * 4096)
    flops, moved = (
        roofline.gemm_flops(16, 4096, 7168),
        roofline.gemm_bytes(16, 4096, 7168, "bf16", "bf16", "bf16"),
    )
    seconds = 20.5e-6
    assert value("us", seconds, flops, moved, limit) == pytest.approx(20.5)
    assert value("tflops", seconds, flops, moved, limit) == pytest.approx(45.83, abs=0.01)
    assert value("peak", seconds, flops, moved, limit) == pytest.approx(4.63, abs=0.01)
    assert value("gbs", seconds, flops, moved, limit) == pytest.approx(2882, abs=1)
    # memory-bound: 59,080,704 B at 4.8 TB/s take 12.31 µs
    assert limit.bound_by(flops, moved) == "memory"
    assert value("roofline", seconds, flops, moved, limit) == pytest.approx(100 * 12.3085 / 20.5, abs=0.01)


@pytest.mark.parametrize(
    "kind, model, says", [("cpu", "AMD EPYC", "for this CPU"), ("gpu", "NVIDIA Unheard Of", "Unheard Of")]
)
def test_an_unknown_device_has_no_share_and_says_so(kind, model, says):
    target = Target(kind=kind, arch="x", model=model)
    assert ceiling_at(target, "bf16") is None
    assert says in why_no_ceiling(target, "bf16")
    assert value("peak", 1e-3, 1e9, 1e6, None) is None
    assert value("roofline", 1e-3, 1e9, 1e6, None) is None
    assert value("tflops", 1e-3, 1e9, 1e6, None) == pytest.approx(1e-3 * 1e3)


def test_an_unknown_dtype_has_no_share():
    assert ceiling_at(H200, "fp4") is None
    assert "No nvfp4 peak is known" in why_no_ceiling(H200, "nvfp4")


@given(m=st.integers(1, 2**14), n=st.integers(1, 2**14), k=st.integers(1, 2**14), slower=st.floats(1.0, 1e3))
def test_at_its_roofline_time_a_gemm_reaches_100_percent_and_never_more_when_slower(m, n, k, slower):
    limit = ceiling_at(H200, "bf16")
    assert limit is not None
    flops, moved = roofline.gemm_flops(m, n, k), roofline.gemm_bytes(m, n, k, "bf16", "bf16", "bf16")
    best = limit.roofline_time(flops, moved)
    assert value("roofline", best, flops, moved, limit) == pytest.approx(100)
    share = value("roofline", best * slower, flops, moved, limit)
    peak = value("peak", best * slower, flops, moved, limit)
    assert share is not None and peak is not None
    assert peak <= share + 1e-9 <= 100 + 1e-6


@given(metric=st.sampled_from(sorted(METRICS)), seconds=st.none() | st.just(0.0) | st.just(-1.0))
def test_no_time_is_no_value(metric, seconds):
    assert value(metric, seconds, 1e9, 1e6, ceiling_at(H200, "bf16")) is None
