"""Cases by names that people read."""

import pytest

from benchapp.catalog.digests import case_label
from workers.bench.cases.parse import from_text


@pytest.mark.parametrize(
    "case, label",
    [
        ("16x4096x6144:nvfp4", "gemm nvfp4 16 × 4096 × 6144"),
        ("grouped_gemm:groups=8,m=16,n=64,k=128,dtype=bf16", "grouped gemm bf16 16 × 64 × 128 groups 8"),
        ("quantize:tokens=64,hidden=7168,dtype=bf16,to=nvfp4", "quantize bf16 64 × 7168 to nvfp4"),
        (
            "decode_attention:batch=4,context=1024,q_heads=32,kv_heads=4,head_dim=128,dtype=bf16",
            "decode attention bf16 batch 4 context 1024 q heads 32 kv heads 4 head dim 128",
        ),
        ("jit_module:module=norm,arch=sm90", "jit module norm arch sm90"),
    ],
)
def test_a_case_is_called_by_what_tells_it_apart(case, label):
    made = from_text(case)
    assert case_label(made.kind, made.params) == label


def test_the_name_of_a_kind_that_nobody_knows_holds_all_its_parameters():
    assert case_label("other", {"b": 1, "a": 2}) == "other a 2 b 1"
