"""Checks of operators that need torch, which the tests' own Python lacks: run by test_step_operators.py.

Says {check: what was wrong, or null} in one line of JSON.
"""

from __future__ import annotations

import json
import math
import sys
import traceback
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import torch

from workers.bench.cases import parse
from workers.bench.gemm import sets
from workers.bench.operators import (
    attention,
    attention_reference,
    ceilings,
    formats,
    step,
    step_quantize,
    step_sampling,
)
from workers.bench.operators.base import passes

#: what torch alone computes on a CPU
ALONE = (
    "rmsnorm:tokens=33,hidden=256,dtype=bf16",
    "quantize:tokens=33,hidden=256,dtype=bf16,to=fp8",
    "prefill_attention:batch=2,context=70,q_heads=8,kv_heads=2,head_dim=32,dtype=bf16",
    "copy:bytes=100001",
)


def operators_of(text: str) -> list[Any]:
    case = parse.from_text(text)
    modules = (step, attention, ceilings)
    return [(case, each) for module in modules for each in module.operators(torch, case)]


def check_torch_operators_are_right_and_each_set_has_inputs_of_its_own() -> None:
    for text in ALONE:
        [(case, operator)] = operators_of(text)
        one, other = operator.ready(torch, case), operator.ready(torch, case)
        assert passes(one.check(one.call())), text
        assert not passes(one.check(other.call())), text


def check_an_output_that_nothing_wrote_is_incorrect() -> None:
    for text in ALONE:
        [(case, operator)] = operators_of(text)
        ready = operator.ready(torch, case)
        made = ready.call()
        sets.poison(torch, made)
        assert not passes(ready.check(made)), text


def check_rms_norm_agrees_with_torch() -> None:
    x, weight = torch.randn(5, 64), torch.randn(64)
    theirs = torch.nn.functional.rms_norm(x.double(), (64,), weight.double(), step.EPSILON)
    torch.testing.assert_close(step.rms_norm_reference(x, weight), theirs)


def check_silu_and_mul_takes_the_first_half_as_gate() -> None:
    x = torch.randn(5, 64).double()
    theirs = torch.nn.functional.silu(x[:, :32]) * x[:, 32:]
    torch.testing.assert_close(step.silu_and_mul_reference(x), theirs)


def check_rope_turns_pairs_of_halves_as_complex_numbers() -> None:
    heads, dim, tokens = 3, 16, 7
    table = step.rope_table(torch, 100, dim, "cpu")
    positions = torch.randperm(100)[:tokens].int()
    x = torch.randn(tokens, heads * dim)
    each = x.double().view(tokens, heads, dim)
    pairs = torch.complex(each[..., : dim // 2], each[..., dim // 2 :])
    angle = positions.double()[:, None] * 10_000.0 ** (-torch.arange(0, dim, 2).double() / dim)
    turned = pairs * torch.polar(torch.ones_like(angle), angle)[:, None]
    theirs = torch.cat([turned.real, turned.imag], -1).view(tokens, -1)
    mine = step.rope_reference(torch, x, table, positions, dim)
    torch.testing.assert_close(mine, theirs, atol=1e-6, rtol=1e-6)


def check_attention_agrees_with_torch() -> None:
    query, keys, values = torch.randn(9, 8, 16), torch.randn(9, 2, 16), torch.randn(9, 2, 16)
    sample = attention_reference.Sample(query, keys, values)
    for causal in (True, False):
        theirs = torch.nn.functional.scaled_dot_product_attention(
            *(each.double().transpose(0, 1)[None] for each in (query, keys, values)),
            is_causal=causal,
            enable_gqa=True,
        )
        mine = attention_reference.attend(torch, sample, [0, 3, 8], causal)
        torch.testing.assert_close(mine, theirs[0].transpose(0, 1)[[0, 3, 8]])


def check_attention_finds_one_wrong_page_and_one_row_that_was_left_out() -> None:
    case = parse.from_text("decode_attention:batch=20,context=50,q_heads=4,kv_heads=2,head_dim=16,dtype=bf16")
    queries = torch.randn(20, 4, 16)
    caches = torch.randn(20, 2, 50, 2, 16)

    def sequence(index: int) -> attention_reference.Sample:
        return attention_reference.Sample(queries[index : index + 1], *caches[index])

    def output() -> Any:
        rows = [attention_reference.attend(torch, sequence(index), [0], False) for index in range(20)]
        return torch.cat(rows).bfloat16()

    out = output()
    assert passes(attention_reference.check(torch, case, out, sequence, False))
    for left_out in (0, 10, 19):  # whether it is among those compared or not
        out = output()
        out[left_out] = math.nan
        assert not passes(attention_reference.check(torch, case, out, sequence, False))
    kept = caches[19, :, 32:48].clone()
    caches[19, :, 32:48] = torch.randn_like(kept)
    out = output()
    caches[19, :, 32:48] = kept
    assert not passes(attention_reference.check(torch, case, out, sequence, False))


def check_sequences_compared_are_drawn_and_hold_both_ends() -> None:
    assert attention_reference.drawn(torch, 3, 8) == [0, 1, 2]
    found = [attention_reference.drawn(torch, 1000, 8) for _ in range(5)]
    for each in found:
        assert len(set(each)) == 8 and each[0] == 0 and each[-1] == 999 and each == sorted(each)
    assert len(set(map(tuple, found))) > 1


def check_a_page_table_holds_every_page_once() -> None:
    pages = attention.page_table(torch, 3, 33)
    assert pages.indptr.tolist() == [0, 3, 6, 9]
    assert sorted(pages.indices.tolist()) == list(range(9))
    assert pages.last_page_len.tolist() == [1, 1, 1]
    assert attention.page_table(torch, 1, 32).last_page_len.tolist() == [16]


def check_unswizzled_scales_are_where_the_layout_puts_them() -> None:
    for rows, columns in ((1, 1), (128, 4), (129, 5), (300, 9), (31, 448)):
        wide = -(-columns // 4)
        flat = torch.randint(0, 256, (-(-rows // 128) * wide * 512,), dtype=torch.uint8)
        found = step_quantize.unswizzle(flat, rows, columns)
        for row, column in ((0, 0), (rows - 1, columns - 1), (rows // 2, columns // 2)):
            at = ((row // 128) * wide + column // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + column % 4
            assert found[row, column] == flat[at], (rows, columns, row, column)
        given = torch.randint(0, 256, (rows, columns), dtype=torch.uint8)
        assert torch.equal(step_quantize.unswizzle(formats.swizzle(torch, given), rows, columns), given)
    try:
        step_quantize.unswizzle(torch.zeros(511, dtype=torch.uint8), 1, 1)
    except ValueError as error:
        assert "511 bytes of scales for 1 × 1, expected 512" in str(error)
    else:
        raise AssertionError("too few bytes passed")


def quantised(to: str) -> tuple[Any, Any, Any, float]:
    """An input, and its codes, swizzled scales and factor as a right kernel writes them."""
    x = torch.randn(130, 512).bfloat16()
    made = formats.quantise(torch, x.float(), to)
    scales = formats.swizzle(torch, made.scales.view(torch.uint8)).flatten()
    factor = 1.0 if made.scale is None else 1 / float(made.scale)
    return x, made.data.view(torch.uint8), scales, factor


def check_right_codes_and_scales_pass() -> None:
    for to in ("nvfp4", "mxfp4", "mxfp8"):
        x, codes, scales, factor = quantised(to)
        found = step_quantize.check_blocks(torch, x, codes, scales, factor, to)
        assert passes(found), (to, found)


def check_scales_rounded_up_pass_as_well() -> None:
    x = torch.randn(4, 64).bfloat16()
    blocks = x.float().unflatten(1, (-1, 32))
    exponents = (blocks.abs().amax(2) / 6).log2().ceil()
    codes = formats.pack_e2m1(torch, (blocks / exponents.exp2().unsqueeze(2)).flatten(1))
    scales = formats.swizzle(torch, (exponents + 127).to(torch.uint8)).flatten()
    assert passes(step_quantize.check_blocks(torch, x, codes, scales, 1.0, "mxfp4"))


def check_wrong_codes_and_scales_do_not_pass() -> None:
    for to in ("nvfp4", "mxfp4", "mxfp8"):
        x, codes, scales, factor = quantised(to)
        half = codes.clone()
        half[65:] = 0
        wrong = {
            "unwritten": (torch.full_like(codes, 255), torch.full_like(scales, 255), factor),
            "unwritten scales": (codes, torch.full_like(scales, 255), factor),
            "unwritten codes": (torch.full_like(codes, 255), scales, factor),
            "zeros": (torch.zeros_like(codes), torch.zeros_like(scales), factor),
            "half the rows zero": (half, scales, factor),
            "rows swapped": (codes.roll(1, 0), scales, factor),
            "factor doubled": (codes, scales, 2 * factor),
            "vanishing": (torch.zeros_like(codes), torch.full_like(scales, 120), factor),
        }
        for name, written in wrong.items():
            assert not passes(step_quantize.check_blocks(torch, x, *written, to)), (to, name)


def check_every_code_stands_for_its_value() -> None:
    every = torch.arange(256, dtype=torch.uint8)[None]
    values = formats.unpack_e2m1(torch, every).view(256, 2)
    for byte in range(256):
        for place, code in enumerate((byte & 15, byte >> 4)):
            magnitude = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)[code & 7]
            assert values[byte, place] == (-magnitude if code & 8 else magnitude)


def check_sampled_tokens_must_be_in_both_sets() -> None:
    # 60 tokens of falling probability; the first has so much that top-p ends early.
    row = torch.tensor([0.5, 0.3, 0.15, *[0.05 / 57] * 57])
    rows = row.repeat(60, 1)
    every = torch.arange(60).int()
    joint = step_sampling.allowed(torch, rows, every, "joint")
    assert joint.tolist() == [True] * 3 + [False] * 57
    flat = torch.full((60, 60), 1 / 60)
    flat += torch.linspace(1e-3, 0, 60)
    by_rank = step_sampling.allowed(torch, flat, every, "joint")
    assert int(by_rank.sum()) == step_sampling.TOP_K
    # Over what top-k left, the same shares are larger: top-p ends before the fiftieth.
    first = step_sampling.allowed(torch, flat, every, "top_k_first")
    assert int(first.sum()) < step_sampling.TOP_K
    outside = torch.tensor([-1, 60, 2**31 - 1]).int()
    assert not step_sampling.allowed(torch, flat[:3], outside, "joint").any()


def check_one_sampled_token_outside_is_incorrect() -> None:
    rows = (torch.randn(300, 1000) * step_sampling.SPREAD).softmax(-1)
    likeliest = rows.argmax(-1).int()
    for order in step_sampling.ORDERS:
        assert passes(step_sampling.check(torch, rows, likeliest, order))
        wrong = likeliest.clone()
        wrong[299] = rows[299].argmin().int()
        found = step_sampling.check(torch, rows, wrong, order)
        assert not passes(found)
        assert math.isclose(found.cosine, 299 / 300) and math.isclose(found.max_relative_error, 1 / 300)


def check_a_seed_stands_in_for_a_generator() -> None:
    state = step_sampling._Seed(torch, 7).get_state()
    seed, offset = state.view(torch.int64)  # as FlashInfer 0.5.3 reads it
    assert (int(seed), int(offset)) == (7, 0)


def check_without_a_gpu_flashinfer_is_not_asked() -> None:
    for text in ("silu_and_mul:tokens=1,hidden=64,dtype=bf16", "sampling:batch=1,vocab=100,dtype=fp32"):
        assert operators_of(text) == []


def main() -> None:
    torch.manual_seed(5)
    torch.set_grad_enabled(False)
    said: dict[str, str | None] = {}
    for name, function in list(globals().items()):
        if name.startswith("check_"):
            try:
                function()
                said[name] = None
            except Exception:
                said[name] = traceback.format_exc()
    print(json.dumps(said))


if __name__ == "__main__":
    main()
