import math

import pytest

from workers.bench import hardware, roofline


def known(name: str) -> hardware.GpuModel:
    found = hardware.lookup(name)
    assert found is not None
    return found


def dense(model: hardware.GpuModel, rate: str, clock_mhz: float | None = None) -> float:
    found = model.dense_peak(rate, clock_mhz)
    assert found is not None
    return found


def sparse(model: hardware.GpuModel, rate: str) -> float:
    found = model.sparse_peak(rate)
    assert found is not None
    return found


WORKSTATION = known("NVIDIA RTX PRO 6000 Blackwell Workstation Edition")
H200 = known("NVIDIA H200")


def test_dense_nvfp4_gemm_at_16_tokens_is_bound_by_bandwidth_at_101_tflops():
    peak = dense(WORKSTATION, "fp4")
    flops = roofline.gemm_flops(16, 4096, 6144)
    moved = roofline.gemm_bytes(16, 4096, 6144, "nvfp4", "nvfp4", "bf16")
    assert roofline.bound_by(flops, peak, moved, WORKSTATION.bandwidth) == "memory"
    assert roofline.ceiling(flops, peak, moved, WORKSTATION.bandwidth) / 1e12 == pytest.approx(101, abs=0.6)


def test_glm5_moe_at_16_tokens_touches_102_experts_and_is_capped_at_8_tflops():
    hit = roofline.experts_hit_uniform(256, 8, 16)
    assert hit == pytest.approx(102, abs=0.1)
    flops = roofline.moe_flops(16, 8, 6144, 2048)
    moved = roofline.moe_weight_bytes(hit, 6144, 2048, "nvfp4")
    assert flops / moved == pytest.approx(4.5, abs=0.05)
    ceiling = roofline.ceiling(flops, dense(WORKSTATION, "fp4"), moved, WORKSTATION.bandwidth)
    assert ceiling / 1e12 == pytest.approx(8, abs=0.1)


def test_balanced_routing_touches_every_expert_it_can_and_no_more():
    assert roofline.experts_hit_balanced(256, 8, 16) == 128
    assert roofline.experts_hit_balanced(256, 8, 1000) == 256
    assert roofline.experts_hit_uniform(256, 8, 0) == 0


def test_1300_tflops_is_64_5_percent_of_dense_and_32_3_of_sparse():
    without, with_sparsity = dense(WORKSTATION, "fp4"), sparse(WORKSTATION, "fp4")
    assert without / 1e12 == pytest.approx(2015, abs=1)
    assert with_sparsity / 1e12 == pytest.approx(4030, abs=2)
    assert roofline.share(1300e12, without) == pytest.approx(0.645, abs=0.0005)
    assert roofline.share(1300e12, with_sparsity) == pytest.approx(0.323, abs=0.0005)


def test_tile_arithmetic_intensity_with_nvfp4_scales():
    """128x128 and 256x128 tiles with K = 128: 227.6 and 303.4 FLOP/B, scales counted."""
    for m, n, expected in ((128, 128, 227.6), (256, 128, 303.4)):
        intensity = roofline.gemm_flops(m, n, 128) / roofline.gemm_read_bytes(m, n, 128, "nvfp4", "nvfp4")
        assert intensity == pytest.approx(expected, abs=0.1)


@pytest.mark.parametrize("model", hardware.models(), ids=lambda model: model.name)
def test_peaks_from_sms_and_clock_equal_the_published_ones(model):
    for rate, published in model.published_dense_tflops.items():
        peak = model.dense_peak(rate)
        if peak is not None:
            assert peak / 1e12 == pytest.approx(published, rel=0.02), rate


def test_sparse_is_twice_dense_except_where_the_model_says_otherwise():
    b300 = known("B300")
    assert sparse(b300, "fp4") / 1e12 == pytest.approx(18_000, rel=0.01)
    assert sparse(b300, "fp8") == 2 * dense(b300, "fp8")


def test_mixed_inputs_run_at_the_wider_operands_rate_and_weight_only_at_the_compute_dtypes():
    assert roofline.rate_of("mxfp8", "mxfp4") == "fp8"
    assert roofline.rate_of("nvfp4", "nvfp4") == "fp4"
    assert roofline.rate_of("bf16", "mxfp4") == "bf16"
    assert roofline.rate_of("fp8", "mxfp4", compute="bf16") == "bf16"
    with pytest.raises(KeyError):
        roofline.rate_of("int3", "int3")


def bound(policy, *, m=1, n=4096, k=7168):
    return roofline.hard_bound(
        flops=roofline.gemm_flops(m, n, k),
        highest_peak=dense(H200, "bf16", H200.max_clock_mhz),
        read_bytes=roofline.gemm_read_bytes(m, n, k, "bf16", "bf16"),
        write_bytes=roofline.gemm_write_bytes(m, n, "bf16"),
        bandwidth=H200.bandwidth,
        l2_bytes=60 * 1024**2,
        l2_policy=policy,
    )


def test_hard_bound_uses_the_highest_clock_seen():
    assert dense(H200, "bf16", 1980) / 1e12 == pytest.approx(1070, abs=1)
    assert bound("flushed", m=8192, n=8192, k=8192) == pytest.approx(2 * 8192**3 / 1070.5e12, rel=1e-3)


def test_hard_bound_counts_only_reads_that_cannot_lie_in_l2():
    reads = 2 * (7168 + 4096 * 7168)
    assert bound("flushed") == pytest.approx(reads / 4.8e12)
    # 58.7 MB of weights fit an L2 of 62.9 MB: once warm, only the arithmetic is left.
    assert bound("warm") == bound("rotated") == pytest.approx(2 * 4096 * 7168 / 1070.5e12, rel=1e-3)
    assert bound("rotated", n=16384) == pytest.approx((2 * (7168 + 16384 * 7168) - 60 * 1024**2) / 4.8e12)


def test_impossible_needs_a_bound_and_more_than_the_margin():
    limit = bound("flushed")
    assert not roofline.is_impossible(limit, limit)
    assert not roofline.is_impossible(limit * 0.951, limit)
    assert roofline.is_impossible(limit * 0.949, limit)
    assert bound("unknown") is None
    assert not roofline.is_impossible(1e-12, bound("unknown"))


def test_recoverable_time_stops_at_the_launch_floor():
    assert roofline.recoverable_time(20e-6, 12e-6, 2e-6, calls=78) == pytest.approx(8e-6 * 78)
    assert roofline.recoverable_time(3e-6, 1e-6, 2e-6) == pytest.approx(1e-6)
    assert roofline.recoverable_time(1e-6, 5e-6, 2e-6) == 0


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H200", "H200 SXM"),
        ("nvidia  h200", "H200 SXM"),
        ("H200 SXM", "H200 SXM"),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000 Blackwell Server"),
        ("NVIDIA GeForce RTX 5090", "RTX 5090"),
        ("AMD EPYC", None),
        ("", None),
        (None, None),
    ],
)
def test_lookup_by_device_name(name, expected):
    found = hardware.lookup(name)
    assert (found.name if found else None) == expected


def test_what_is_not_known_is_none():
    spark = known("NVIDIA GB10")
    assert spark.arch == "sm121"
    assert spark.dense_peak("fp4") is None and spark.sparse_peak("fp4") is None
    assert H200.dense_peak("fp4") is None
    assert all(math.isfinite(model.bandwidth) and model.source for model in hardware.models())


def test_a_time_is_impossible_or_above_the_roofline_or_neither():
    def standing(time, roofline_time, hard):
        return roofline.standing(time=time, roofline=roofline_time, hard_bound=hard)

    assert standing(1.0, 2.0, 1.5) == "impossible"
    assert standing(1.0, 2.0, 1.04) == "above_roofline"  # within the margin
    assert standing(1.0, 2.0, None) == "above_roofline"  # the L2 policy is not known
    assert standing(2.0, 2.0, 1.0) == standing(1.0, None, None) == ""
    assert roofline.STANDING_WORDS["above_roofline"] == "L2-warm, above roofline"


@pytest.mark.parametrize(
    ("tokens", "exponent", "drawn"),
    # the collector's generator, mean of 20 draws over 256 experts, top 8
    [
        (1, 1.01, 8),
        (16, 1.01, 79.7),
        (64, 1.01, 181.8),
        (4096, 1.01, 241),
        (32, 1.2, 97.9),
        (256, 1.2, 223.6),
    ],
)
def test_a_power_law_touches_about_as_many_experts_as_its_generator_draws(tokens, exponent, drawn):
    expected = roofline.experts_hit_power_law(256, 8, tokens, exponent)
    assert expected == pytest.approx(drawn, rel=0.05)
    assert expected <= roofline.experts_hit_balanced(256, 8, tokens)
