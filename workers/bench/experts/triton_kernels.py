"""Kernels of routed experts, one after the other: count, place, FC1 with its activation, FC2, combine.

Pairs are token · top_k + slot. Those of each local expert are gathered in blocks of block_m rows, of which
the last is filled in part; `owner` and `filled` tell a block's expert (-1: none) and its rows. Needs Triton.
"""

from __future__ import annotations

import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]

from workers.bench.experts.activation import ALPHA, LIMIT, SHIFT

_ALPHA, _LIMIT, _SHIFT = tl.constexpr(ALPHA), tl.constexpr(LIMIT), tl.constexpr(SHIFT)
#: rows of the counts that are read at once
_AT_ONCE = tl.constexpr(32)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _local(ids, index, pairs, first, local):  # type: ignore[no-untyped-def]
    """Experts of the pairs `index` counted from this rank's first, and whether they are this rank's."""
    expert = tl.load(ids + index, mask=index < pairs, other=-1) - first
    here = (index < pairs) & (expert >= 0) & (expert < local)
    return tl.where(here, expert, 0), here


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_count(  # type: ignore[no-untyped-def]
    ids, counts, pairs, first, local, width: tl.constexpr, bins: tl.constexpr
):  # fmt: skip
    """Pairs of each expert in one chunk: a row of `counts` [chunks, bins]."""
    chunk = tl.program_id(0)
    expert, here = _local(ids, chunk * width + tl.arange(0, width), pairs, first, local)
    found = tl.histogram(expert, bins, mask=here)
    tl.store(counts + chunk * bins + tl.arange(0, bins), found)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_place(  # type: ignore[no-untyped-def]
    ids, counts, order, owner, filled, pairs, first, local, blocks, chunks,
    block_m: tl.constexpr, width: tl.constexpr, bins: tl.constexpr, counted: tl.constexpr,
    look: tl.constexpr, part: tl.constexpr,
):  # fmt: skip
    """`order` [blocks · block_m]: the pair of each row. One chunk of pairs a program; each adds up all counts
    by itself, from `counts` or from the ids, so that none waits for another."""
    mine = tl.program_id(0)
    expert_of = tl.arange(0, bins)
    total = tl.zeros((bins,), dtype=tl.int32)
    before = tl.zeros((bins,), dtype=tl.int32)
    if counted:
        for start in range(0, chunks, _AT_ONCE):
            row = start + tl.arange(0, _AT_ONCE)
            found = tl.load(
                counts + row[:, None] * bins + expert_of[None, :], mask=(row < chunks)[:, None], other=0
            )
            total += tl.sum(found, axis=0)
            before += tl.sum(tl.where((row < mine)[:, None], found, 0), axis=0)
    else:
        for start in range(0, pairs, look):
            index = start + tl.arange(0, look)
            expert, here = _local(ids, index, pairs, first, local)
            total += tl.histogram(expert, bins, mask=here)
            before += tl.histogram(expert, bins, mask=here & (index < mine * width))

    needed = (total + block_m - 1) // block_m
    end = tl.cumsum(needed, axis=0)
    begin = end - needed

    index = mine * width + tl.arange(0, width)
    expert, here = _local(ids, index, pairs, first, local)
    rank = tl.zeros((width,), dtype=tl.int32)
    for start in range(0, width, part):
        other = mine * width + start + tl.arange(0, part)
        others, there = _local(ids, other, pairs, first, local)
        same = (expert[:, None] == others[None, :]) & there[None, :] & (other[None, :] < index[:, None])
        rank += tl.sum(same.to(tl.int32), axis=1)
    row = tl.gather(begin * block_m + before, expert, 0) + rank
    tl.store(order + row, index, mask=here)

    for start in range(mine * part, blocks, tl.num_programs(0) * part):
        block = start + tl.arange(0, part)
        its = tl.sum((end[None, :] <= block[:, None]).to(tl.int32), axis=1)
        used = its < bins
        its = tl.where(used, its, 0)
        rest = tl.gather(total, its, 0) - (block - tl.gather(begin, its, 0)) * block_m
        tl.store(owner + block, tl.where(used, its, -1), mask=block < blocks)
        tl.store(filled + block, tl.where(used, tl.minimum(rest, block_m), 0), mask=block < blocks)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_fc1(  # type: ignore[no-untyped-def]
    hidden, weight, bias, out, order, owner, filled, cols, depth,
    top_k: tl.constexpr, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr,
    even_k: tl.constexpr, has_bias: tl.constexpr, activation: tl.constexpr,
):  # fmt: skip
    """`out` [rows, cols]: gathered tokens [·, depth] times up and gate [cols, depth], activated."""
    tiles = tl.cdiv(cols, block_n)
    block = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    expert = tl.load(owner + block).to(tl.int64)
    if expert < 0:
        return
    row = tl.arange(0, block_m)
    real = row < tl.load(filled + block)
    token = tl.load(order + block * block_m + row, mask=real, other=0) // top_k
    n = tile * block_n + tl.arange(0, block_n)
    k = tl.arange(0, block_k)
    # Columns behind the last read others' weights, and are not stored.
    column = (n % cols).to(tl.int64)
    gated: tl.constexpr = activation != "plain"
    products: tl.constexpr = 2 if gated else 1

    x_at = hidden + token.to(tl.int64)[:, None] * depth + k[None, :]
    up_at = weight + expert * products * cols * depth + column[None, :] * depth + k[:, None]
    up = tl.zeros((block_m, block_n), dtype=tl.float32)
    gate = tl.zeros((block_m, block_n), dtype=tl.float32)
    gate_offset = cols.to(tl.int64) * depth
    for start in range(0, depth, block_k):
        if even_k:
            x = tl.load(x_at, mask=real[:, None], other=0.0)
            u = tl.load(up_at)
        else:
            inside = k < depth - start
            x = tl.load(x_at, mask=real[:, None] & inside[None, :], other=0.0)
            u = tl.load(up_at, mask=inside[:, None], other=0.0)
        up = tl.dot(x, u, up)
        if gated:
            if even_k:
                g = tl.load(up_at + gate_offset)
            else:
                g = tl.load(up_at + gate_offset, mask=inside[:, None], other=0.0)
            gate = tl.dot(x, g, gate)
        x_at += block_k
        up_at += block_k

    if has_bias:
        bias_at = bias + expert * products * cols + column
        up += tl.load(bias_at).to(tl.float32)[None, :]
        if gated:
            gate += tl.load(bias_at + cols).to(tl.float32)[None, :]
    if activation == "plain":
        up = tl.maximum(up, 0.0)
        made = up * up
    elif activation == "clamped_swiglu":
        gate = tl.minimum(gate, _LIMIT)
        up = tl.minimum(tl.maximum(up, -_LIMIT), _LIMIT)
        made = gate * tl.sigmoid(gate * _ALPHA) * (up + _SHIFT)
    else:
        made = gate * tl.sigmoid(gate) * up
    at = out + (block * block_m + row).to(tl.int64)[:, None] * cols + n[None, :]
    tl.store(at, made.to(out.dtype.element_ty), mask=real[:, None] & (n < cols)[None, :])


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_fc2(  # type: ignore[no-untyped-def]
    rows, weight, bias, scales, out, order, owner, filled, cols, depth,
    block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr, even_k: tl.constexpr,
    has_bias: tl.constexpr,
):  # fmt: skip
    """`out` [pairs, cols]: FC1's rows [·, depth] times down [cols, depth], times the weight of the pair."""
    tiles = tl.cdiv(cols, block_n)
    block = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    expert = tl.load(owner + block).to(tl.int64)
    if expert < 0:
        return
    row = tl.arange(0, block_m)
    real = row < tl.load(filled + block)
    pair = tl.load(order + block * block_m + row, mask=real, other=0)
    n = tile * block_n + tl.arange(0, block_n)
    k = tl.arange(0, block_k)
    column = (n % cols).to(tl.int64)

    x_at = rows + (block * block_m + row).to(tl.int64)[:, None] * depth + k[None, :]
    w_at = weight + expert * cols * depth + column[None, :] * depth + k[:, None]
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for start in range(0, depth, block_k):
        if even_k:
            x = tl.load(x_at, mask=real[:, None], other=0.0)
            w = tl.load(w_at)
        else:
            inside = k < depth - start
            x = tl.load(x_at, mask=real[:, None] & inside[None, :], other=0.0)
            w = tl.load(w_at, mask=inside[:, None], other=0.0)
        total = tl.dot(x, w, total)
        x_at += block_k
        w_at += block_k
    if has_bias:
        total += tl.load(bias + expert * cols + column).to(tl.float32)[None, :]
    total *= tl.load(scales + pair, mask=real, other=0.0)[:, None]
    at = out + pair.to(tl.int64)[:, None] * cols + n[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=real[:, None] & (n < cols)[None, :])


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_combine(  # type: ignore[no-untyped-def]
    ids, rows, out, cols, first, local, top_k: tl.constexpr, block_n: tl.constexpr
):  # fmt: skip
    """`out` [T, cols]: the sum of a token's rows of FC2; those of other ranks were not written."""
    token = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * block_n + tl.arange(0, block_n)
    total = tl.zeros((block_n,), dtype=tl.float32)
    for slot in tl.static_range(top_k):
        expert = tl.load(ids + token * top_k + slot) - first
        here = (expert >= 0) & (expert < local)
        at = rows + (token * top_k + slot) * cols + n
        total += tl.load(at, mask=(n < cols) & here, other=0.0).to(tl.float32)
    tl.store(out + token * cols + n, total.to(out.dtype.element_ty), mask=n < cols)
