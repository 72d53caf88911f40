"""What is offered on a Python with torch alone, and that it computes."""

import pytest

from workers.bench.backends import library_of
from workers.bench.cases.parse import KINDS
from workers.bench.operators.registry import MODULES


@pytest.mark.parametrize("dtype", ["bf16", "fp16", "fp32"])
def test_torch_multiplies_what_it_knows(torch_says, dtype):
    [told] = torch_says("compute", case=f"33x64x128:{dtype}")
    assert told["backend"] == "torch.mm" and told["passes"]
    assert told["inputs"] == "normal(0, 1), fresh"


def test_fp8_goes_through_the_scaled_product(torch_says):
    [told] = torch_says("compute", case="16x64x128:fp8")
    assert told["backend"] == "torch._scaled_mm" and told["passes"]


def test_groups_go_through_the_grouped_product(torch_says):
    [told] = torch_says("compute", case="grouped_gemm:groups=3,m=20,n=64,k=128,dtype=bf16")
    assert told["backend"] == "torch._grouped_mm" and told["passes"]


def test_nobody_offers_mxfp4_where_only_torch_is(torch_says):
    assert torch_says("compute", case="16x64x128:mxfp4") == []


def test_what_hands_a_product_to_cublas_is_told_by_its_name():
    from_cublas = ("torch.mm", "torch._scaled_mm", "flashinfer.bmm_fp8.cublas", "flashinfer.mm_bf16.cublaslt")
    assert {library_of(backend) for backend in from_cublas} == {"cuBLAS"}
    assert library_of("flashinfer.mm_fp4.cudnn") == "cuDNN"
    assert library_of("flashinfer.mm_fp4.cutlass") is library_of("torch._grouped_mm") is None


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("16x64x128:tf32", "UnsupportedError: tf32 is a mode of NVIDIA's tensor cores; a CPU has none."),
        ("16x64x100:fp8_block", "UnsupportedError: fp8_block holds K in blocks of 128"),
        ("16x128x128:nvfp4", "UnsupportedError: "),
        ("16x128x128:mxfp8", "UnsupportedError: ValueError: Invalid scaling configuration"),
    ],
)  # fmt: skip
def test_what_cannot_be_done_here_is_unsupported_in_words(torch_says, case, words):
    [told] = torch_says("compute", case=case)
    assert told["error"].startswith(words)


def test_every_kind_that_runs_on_a_device_has_somebody_to_compute_it():
    """Builds of modules, whole models, collectives and servers are other benches'."""
    others = {"jit_module", "decode", "prefill", "all_reduce", "all_to_all", "serving"}
    assert set(MODULES) == set(KINDS) - others | {"empty_kernel"}


def test_the_stack_is_what_this_process_has(torch_says):
    told = torch_says("observed", device="cpu")
    assert told["torch"].startswith("2.") and told["python"].count(".") == 2
    assert "flashinfer" not in told
