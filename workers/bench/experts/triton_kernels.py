"""Kernels of routed experts, one after the other: count, place, FC1 with its activation, FC2, combine.

Pairs are token · top_k + slot. Those of each local expert are gathered in blocks of BLOCK_M rows, of which
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
    ids, counts, pairs, first, local, CHUNK: tl.constexpr, EXPERTS: tl.constexpr
):  # fmt: skip
    """Pairs of each expert in one chunk: a row of `counts` [chunks, EXPERTS]."""
    chunk = tl.program_id(0)
    expert, here = _local(ids, chunk * CHUNK + tl.arange(0, CHUNK), pairs, first, local)
    found = tl.histogram(expert, EXPERTS, mask=here)
    tl.store(counts + chunk * EXPERTS + tl.arange(0, EXPERTS), found)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_place(  # type: ignore[no-untyped-def]
    ids, counts, order, owner, filled, pairs, first, local, blocks, chunks,
    BLOCK_M: tl.constexpr, CHUNK: tl.constexpr, EXPERTS: tl.constexpr, COUNTED: tl.constexpr,
    LOOK: tl.constexpr, PART: tl.constexpr,
):  # fmt: skip
    """`order` [blocks · BLOCK_M]: the pair of each row. One chunk of pairs a program; each of them adds up all
    counts by itself, from `counts` or from the ids, so that none waits for another."""
    mine = tl.program_id(0)
    expert_of = tl.arange(0, EXPERTS)
    total = tl.zeros((EXPERTS,), dtype=tl.int32)
    before = tl.zeros((EXPERTS,), dtype=tl.int32)
    if COUNTED:
        for start in range(0, chunks, _AT_ONCE):
            row = start + tl.arange(0, _AT_ONCE)
            found = tl.load(
                counts + row[:, None] * EXPERTS + expert_of[None, :], mask=(row < chunks)[:, None], other=0
            )
            total += tl.sum(found, axis=0)
            before += tl.sum(tl.where((row < mine)[:, None], found, 0), axis=0)
    else:
        for start in range(0, pairs, LOOK):
            index = start + tl.arange(0, LOOK)
            expert, here = _local(ids, index, pairs, first, local)
            total += tl.histogram(expert, EXPERTS, mask=here)
            before += tl.histogram(expert, EXPERTS, mask=here & (index < mine * CHUNK))

    needed = (total + BLOCK_M - 1) // BLOCK_M
    end = tl.cumsum(needed, axis=0)
    begin = end - needed

    index = mine * CHUNK + tl.arange(0, CHUNK)
    expert, here = _local(ids, index, pairs, first, local)
    rank = tl.zeros((CHUNK,), dtype=tl.int32)
    for start in range(0, CHUNK, PART):
        other = mine * CHUNK + start + tl.arange(0, PART)
        others, there = _local(ids, other, pairs, first, local)
        same = (expert[:, None] == others[None, :]) & there[None, :] & (other[None, :] < index[:, None])
        rank += tl.sum(same.to(tl.int32), axis=1)
    row = tl.gather(begin * BLOCK_M + before, expert, 0) + rank
    tl.store(order + row, index, mask=here)

    for start in range(mine * PART, blocks, tl.num_programs(0) * PART):
        block = start + tl.arange(0, PART)
        its = tl.sum((end[None, :] <= block[:, None]).to(tl.int32), axis=1)
        used = its < EXPERTS
        its = tl.where(used, its, 0)
        rest = tl.gather(total, its, 0) - (block - tl.gather(begin, its, 0)) * BLOCK_M
        tl.store(owner + block, tl.where(used, its, -1), mask=block < blocks)
        tl.store(filled + block, tl.where(used, tl.minimum(rest, BLOCK_M), 0), mask=block < blocks)


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_fc1(  # type: ignore[no-untyped-def]
    hidden, weight, bias, out, order, owner, filled, N, K,
    TOP_K: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
    EVEN_K: tl.constexpr, BIAS: tl.constexpr, ACTIVATION: tl.constexpr,
):  # fmt: skip
    """`out` [blocks · BLOCK_M, N]: the activated product of gathered tokens [·, K] with up and gate [N, K]."""
    tiles = tl.cdiv(N, BLOCK_N)
    block = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    expert = tl.load(owner + block).to(tl.int64)
    if expert < 0:
        return
    row = tl.arange(0, BLOCK_M)
    real = row < tl.load(filled + block)
    token = tl.load(order + block * BLOCK_M + row, mask=real, other=0) // TOP_K
    n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    # Columns behind the last read others' weights, and are not stored.
    column = (n % N).to(tl.int64)
    GATED: tl.constexpr = ACTIVATION != "plain"
    products: tl.constexpr = 2 if GATED else 1

    x_at = hidden + token.to(tl.int64)[:, None] * K + k[None, :]
    up_at = weight + expert * products * N * K + column[None, :] * K + k[:, None]
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    gate_offset = N.to(tl.int64) * K
    for start in range(0, K, BLOCK_K):
        if EVEN_K:
            x = tl.load(x_at, mask=real[:, None], other=0.0)
            u = tl.load(up_at)
        else:
            inside = k < K - start
            x = tl.load(x_at, mask=real[:, None] & inside[None, :], other=0.0)
            u = tl.load(up_at, mask=inside[:, None], other=0.0)
        up = tl.dot(x, u, up)
        if GATED:
            if EVEN_K:
                g = tl.load(up_at + gate_offset)
            else:
                g = tl.load(up_at + gate_offset, mask=inside[:, None], other=0.0)
            gate = tl.dot(x, g, gate)
        x_at += BLOCK_K
        up_at += BLOCK_K

    if BIAS:
        bias_at = bias + expert * products * N + column
        up += tl.load(bias_at).to(tl.float32)[None, :]
        if GATED:
            gate += tl.load(bias_at + N).to(tl.float32)[None, :]
    if ACTIVATION == "plain":
        up = tl.maximum(up, 0.0)
        made = up * up
    elif ACTIVATION == "clamped_swiglu":
        gate = tl.minimum(gate, _LIMIT)
        up = tl.minimum(tl.maximum(up, -_LIMIT), _LIMIT)
        made = gate * tl.sigmoid(gate * _ALPHA) * (up + _SHIFT)
    else:
        made = gate * tl.sigmoid(gate) * up
    at = out + (block * BLOCK_M + row).to(tl.int64)[:, None] * N + n[None, :]
    tl.store(at, made.to(out.dtype.element_ty), mask=real[:, None] & (n < N)[None, :])


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_fc2(  # type: ignore[no-untyped-def]
    rows, weight, bias, scales, out, order, owner, filled, N, K,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, EVEN_K: tl.constexpr,
    BIAS: tl.constexpr,
):  # fmt: skip
    """`out` [pairs, N]: the product of FC1's rows [·, K] with down [N, K], times the weight of the pair."""
    tiles = tl.cdiv(N, BLOCK_N)
    block = tl.program_id(0) // tiles
    tile = tl.program_id(0) % tiles
    expert = tl.load(owner + block).to(tl.int64)
    if expert < 0:
        return
    row = tl.arange(0, BLOCK_M)
    real = row < tl.load(filled + block)
    pair = tl.load(order + block * BLOCK_M + row, mask=real, other=0)
    n = tile * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    column = (n % N).to(tl.int64)

    x_at = rows + (block * BLOCK_M + row).to(tl.int64)[:, None] * K + k[None, :]
    w_at = weight + expert * N * K + column[None, :] * K + k[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        if EVEN_K:
            x = tl.load(x_at, mask=real[:, None], other=0.0)
            w = tl.load(w_at)
        else:
            inside = k < K - start
            x = tl.load(x_at, mask=real[:, None] & inside[None, :], other=0.0)
            w = tl.load(w_at, mask=inside[:, None], other=0.0)
        total = tl.dot(x, w, total)
        x_at += BLOCK_K
        w_at += BLOCK_K
    if BIAS:
        total += tl.load(bias + expert * N + column).to(tl.float32)[None, :]
    total *= tl.load(scales + pair, mask=real, other=0.0)[:, None]
    at = out + pair.to(tl.int64)[:, None] * N + n[None, :]
    tl.store(at, total.to(out.dtype.element_ty), mask=real[:, None] & (n < N)[None, :])


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def moe_combine(  # type: ignore[no-untyped-def]
    ids, rows, out, N, first, local, TOP_K: tl.constexpr, BLOCK_N: tl.constexpr
):  # fmt: skip
    """`out` [T, N]: the sum of a token's rows of FC2, without those of other ranks, which were not written."""
    token = tl.program_id(0).to(tl.int64)
    n = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for slot in tl.static_range(TOP_K):
        expert = tl.load(ids + token * TOP_K + slot) - first
        here = (expert >= 0) & (expert < local)
        at = rows + (token * TOP_K + slot) * N + n
        total += tl.load(at, mask=(n < N) & here, other=0.0).to(tl.float32)
    tl.store(out + token * N + n, total.to(out.dtype.element_ty), mask=n < N)
