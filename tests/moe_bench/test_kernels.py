"""Names of kernels, and the events of a profiler."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench.moe import reading
from workers.bench.moe.kernels import Launched, align, library_of, refined
from workers.bench.moe.reading import STEP, Event, Kernel

FMHA = (
    "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)0>>"
)
CUTLASS = "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<int>>(int)"


@pytest.mark.parametrize(
    ("name", "library"),
    [
        (FMHA, "flashinfer"),
        ("void tensorrt_llm::kernels::cutlass_kernels::expandInputRowsKernel<__nv_bfloat16>", "flashinfer"),
        ("nvjet_hsh_64x16_64x13_1x2_h_bz_TNN", "cublas"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int>", "cublas"),
        ("void gemvx::kernel<int, int, __nv_bfloat16>", "cublas"),
        ("sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", "cublas"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<int>>", "torch"),
        ("void cutlass::device_kernel<at::cuda::detail::enable_3x_kernel_for_sm90<int>>", "torch"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "nccl"),
        ("fused_experts_kernel", "triton"),
        ("Memcpy HtoD (Pinned -> Device)", "cuda"),
        (CUTLASS, "around"),
        ("void somebody::elses<int>()", "other"),
    ],
)
def test_whose_a_kernel_is_stands_in_its_name(name, library):
    assert library_of(name, "around") == library


def test_a_backend_tells_its_own_kernels_apart_and_nobody_elses():
    told = {"gate": "fc1", "sum": "combine", "odd": "attention", "mm": "product"}.get
    launched: list[Any] = [
        ("gate", "norms"), ("gate", "other"), ("sum", "fc1"), ("odd", None), ("unknown", "dispatch"),
        ("mm", "attention"), ("mm", "other"), ("mm", "other"), ("mm", "router"), ("mm", None),
    ]  # fmt: skip
    assert refined(launched, told) == [
        "norms", "fc1", "combine", "other", "dispatch", "attention", "fc1", "fc2", "router", "fc1",
    ]  # fmt: skip


known = st.lists(st.builds(Launched, st.sampled_from("abc"), st.sampled_from(("norms", "router", "head"))))


@given(known)
def test_equal_orders_carry_every_part_over(step):
    assert align([each.name for each in step], step) == [each.part for each in step]


@given(known, st.data())
def test_a_kernel_more_or_less_disturbs_no_other(step, data):
    at = data.draw(st.integers(0, len(step)))
    names = [each.name for each in step]
    found = align([*names[:at], "new", *names[at:]], step)
    assert found[at] == "other" and [*found[:at], *found[at + 1 :]] == [each.part for each in step]


def test_kernels_go_by_the_call_that_launched_them():
    def cpu(name, start, end, correlation=0, marked=False):
        return Event(name, start, end, False, marked, correlation)

    def gpu(name, start, correlation, marked=False):
        return Event(name, start, start + 5, True, marked, correlation)

    found = reading.kernels(
        [
            cpu(STEP, 0, 50, marked=True), cpu("tilewatch:attention", 5, 20, marked=True),
            cpu("tilewatch:collectives", 10, 14, marked=True), cpu("cudaLaunchKernel", 11, 13, 1),
            cpu("cuLaunchKernelEx", 15, 16, 2), cpu("cudaLaunchKernel", 30, 31, 3),
            # torch's own operators count by themselves
            cpu("aten::mm", 40, 45, 2),
            cpu(STEP, 60, 90, marked=True), cpu("cudaGraphLaunch", 70, 80, 4),
            cpu("cudaLaunchKernel", 55, 56, 5),
            gpu("ar", 100, 1), gpu("attend", 110, 2), gpu("copy", 120, 3), gpu("lost", 126, 99),
            gpu("tilewatch:attention", 100, 0, marked=True), gpu("between", 128, 5),
            gpu("one", 130, 4), gpu("two", 140, 4),
        ]
    )  # fmt: skip
    assert found == [
        [
            Kernel(100, 105, "ar", "collectives"), Kernel(110, 115, "attend", "attention"),
            Kernel(120, 125, "copy", None), Kernel(126, 131, "lost", None),
        ],
        [Kernel(130, 135, "one", None), Kernel(140, 145, "two", None)],
    ]  # fmt: skip
