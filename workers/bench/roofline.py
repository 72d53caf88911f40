"""What the hardware allows: peaks, roofline time, hard bound, recoverable time, MoE traffic.

Pure functions. FLOP/s, bytes, bytes/s and seconds everywhere, clocks in MHz; one multiply-add is
two FLOP. The roofline model is Williams, Waterman and Patterson, CACM 52(4), 2009: a kernel takes
at least the larger of its arithmetic time and its memory time.
"""

from __future__ import annotations

from typing import Literal

from workers.bench.document import L2Policy

#: Bytes one element occupies in memory, its block scales counted: nvfp4 is 4 bits and one FP8 scale
#: per 16 elements, mxfp4 and mxfp8 carry one 8-bit scale per 32 (OCP Microscaling v1.0). fp8_block is a
#: weight with an fp32 scale per 128 × 128, fp8_rows the activations beside it with one per 1 × 128. int4 is
#: a weight alone, with a bf16 scale per group of 128.
BYTES_PER_ELEMENT: dict[str, float] = {
    "fp32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "fp16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "fp8_block": 1.0 + 4 / 128**2,
    "fp8_rows": 1.0 + 4 / 128,
    "mxfp8": 1.0 + 1 / 32,
    "nvfp4": 0.5 + 1 / 16,
    "mxfp4": 0.5 + 1 / 32,
    "int4": 0.5 + 2 / 128,
}

#: The tensor-core rate at which each input format multiplies.
RATE_OF_FORMAT: dict[str, str] = {
    "fp32": "fp32",
    "tf32": "tf32",
    "bf16": "bf16",
    "fp16": "bf16",
    "fp8": "fp8",
    "fp8_block": "fp8",
    "fp8_rows": "fp8",
    "mxfp8": "fp8",
    "int8": "int8",
    "nvfp4": "fp4",
    "mxfp4": "fp4",
}

#: A time must undercut the hard bound by this share before it is called impossible.
HARD_BOUND_MARGIN = 0.05

#: How a time stands to what the hardware allows; "" where nothing is to be said.
Standing = Literal["impossible", "above_roofline", ""]
STANDING_WORDS: dict[Standing, str] = {
    "impossible": "impossible",
    "above_roofline": "L2-warm, above roofline",
    "": "",
}


def rate_of(a: str, b: str, compute: str | None = None) -> str:
    """The rate ("bf16", "fp8", "fp4" …) for inputs of formats `a` and `b`.

    Mixed inputs run at the wider operand's rate (mxfp8 × mxfp4 at fp8's). Weight-only formats are
    expanded first, so they run at the format they are computed in: name it as `compute`.
    KeyError for a format that is not known.
    """
    if compute is not None:
        return RATE_OF_FORMAT[compute]
    wider = max((a, b), key=lambda name: BYTES_PER_ELEMENT[name])
    return RATE_OF_FORMAT[wider]


def dense_peak(sm_count: int, clock_mhz: float, flop_per_clk_per_sm: float) -> float:
    """Dense peak in FLOP/s: SMs × clock × FLOP per clock and SM. Meaningless without its clock: show both."""
    return sm_count * clock_mhz * 1e6 * flop_per_clk_per_sm


def sparse_peak(dense: float, factor: float = 2.0) -> float:
    """Peak in FLOP/s with 2:4 structured sparsity: twice dense, except where a model says otherwise."""
    return dense * factor


def gemm_flops(m: int, n: int, k: int) -> float:
    """FLOP of D[M,N] = A[M,K] · B[K,N]: one multiply and one add for each of M·N·K products."""
    return 2.0 * m * n * k


def gemm_read_bytes(m: int, n: int, k: int, a: str, b: str) -> float:
    """Compulsory reads in bytes: A [M,K] and B [K,N] once each, scales included."""
    return m * k * BYTES_PER_ELEMENT[a] + n * k * BYTES_PER_ELEMENT[b]


def gemm_write_bytes(m: int, n: int, d: str) -> float:
    """Compulsory writes in bytes: D [M,N] once."""
    return m * n * BYTES_PER_ELEMENT[d]


def gemm_bytes(m: int, n: int, k: int, a: str, b: str, d: str) -> float:
    """Compulsory traffic in bytes of a cold GEMM: A and B read once, D written once."""
    return gemm_read_bytes(m, n, k, a, b) + gemm_write_bytes(m, n, d)


def roofline_time(flops: float, peak: float, bytes_moved: float, bandwidth: float) -> float:
    """Seconds at the roofline: max(FLOP / peak, cold compulsory bytes / bandwidth)."""
    return max(flops / peak, bytes_moved / bandwidth)


def bound_by(flops: float, peak: float, bytes_moved: float, bandwidth: float) -> Literal["compute", "memory"]:
    """Which of the two terms sets the roofline time."""
    return "compute" if flops / peak >= bytes_moved / bandwidth else "memory"


def ceiling(flops: float, peak: float, bytes_moved: float, bandwidth: float) -> float:
    """The highest FLOP/s this shape can reach: its FLOP over its roofline time."""
    return flops / roofline_time(flops, peak, bytes_moved, bandwidth)


def share(part: float, whole: float) -> float:
    """`part` as a share of `whole` (0.645 is 64.5 %): of dense peak, sparse peak, bandwidth or roofline."""
    return part / whole


def hard_bound(
    *,
    flops: float,
    highest_peak: float | None,
    read_bytes: float,
    write_bytes: float,
    bandwidth: float,
    l2_bytes: float,
    l2_policy: L2Policy,
) -> float | None:
    """Seconds that no real kernel can beat, before the margin; None where the L2 policy is unknown.

    `highest_peak` is the dense peak at the highest clock ever seen on the device; None where no peak is
    known for these flops, so that memory alone bounds the time. Memory time counts only bytes that cannot
    already lie in L2: every compulsory read after a flush, otherwise reads less the L2's size. Writes up to
    the L2's size may stay there and are not counted.
    """
    if l2_policy == "unknown":
        return None
    reads = read_bytes if l2_policy == "flushed" else max(0.0, read_bytes - l2_bytes)
    writes = max(0.0, write_bytes - l2_bytes)
    memory = (reads + writes) / bandwidth
    return memory if highest_peak is None else max(flops / highest_peak, memory)


def is_impossible(time: float, bound: float | None) -> bool:
    """Whether `time` (seconds) undercuts the hard bound by more than the margin: the work was not done.

    Never so without a bound, hence never with an unknown L2 policy.
    """
    return bound is not None and time < bound * (1 - HARD_BOUND_MARGIN)


def standing(*, time: float, roofline: float | None, hard_bound: float | None) -> Standing:
    """How `time` stands to the cold `roofline` time and to the hard bound, all in seconds; None: not known.

    Faster than the hard bound by more than its margin is "impossible" and never ranks. Faster than the
    cold roofline and not impossible is "above_roofline": its operands lay in L2. It ranks.
    """
    if is_impossible(time, hard_bound):
        return "impossible"
    return "above_roofline" if roofline is not None and time < roofline else ""


def recoverable_time(time: float, roofline: float, launch_floor: float, calls: float = 1) -> float:
    """Seconds of a decode step to win back: (time − max(roofline, launch floor)) × calls a step, not below 0.

    `launch_floor` is the time of an empty kernel by the same timer.
    """
    return max(0.0, time - max(roofline, launch_floor)) * calls


def experts_hit_uniform(experts: int, top_k: int, tokens: int) -> float:
    """Expected distinct experts of a layer that `tokens` touch: E·(1 − (1 − k/E)^B).

    Each token picks k of E uniformly and independently of the others, so it misses a given expert
    with probability 1 − k/E.
    """
    return experts * (1 - (1 - top_k / experts) ** tokens)


def experts_hit_balanced(experts: int, top_k: int, tokens: int) -> float:
    """Distinct experts touched when routing spreads as far as it can: min(E, B·k)."""
    return float(min(experts, tokens * top_k))


def experts_hit_power_law(experts: int, top_k: int, tokens: int, exponent: float) -> float:
    """Expected distinct experts touched under aiconfigurator's power law, 1 < `exponent` < 2.

    Its collector (`power_law_logits_v3` in collector/helper.py) draws each expert's load from a density
    ∝ load^−exponent on [1, 0.8·B] where B·k > E, else on [0.01, 2], scales the loads to B·k pairs and rounds
    them to whole tokens. So an expert is hit whose share is half a token or more. At least k are hit.
    """
    pairs = tokens * top_k
    low, high = (1.0, 0.8 * tokens) if pairs > experts else (0.01, 2.0)
    one, two = 1 - exponent, 2 - exponent
    span = high**one - low**one
    mean = one / two * (high**two - low**two) / span
    least = min(max(mean * experts / (2 * pairs), low), high)
    expected = experts * (high**one - least**one) / span
    return float(min(max(expected, top_k), experts, pairs))


def moe_flops(tokens: int, top_k: int, hidden: int, intermediate: int) -> float:
    """FLOP of a layer's routed experts: per token and expert, FC1 (gate and up) and FC2.

    FC1 is [1, hidden] × [hidden, 2·intermediate], FC2 is [1, intermediate] × [intermediate, hidden].
    """
    return gemm_flops(tokens * top_k, 2 * intermediate, hidden) + gemm_flops(
        tokens * top_k, hidden, intermediate
    )


def moe_weight_bytes(experts_hit: float, hidden: int, intermediate: int, weights: str) -> float:
    """Bytes of the weights of the experts hit: gate, up and down, hidden × intermediate each."""
    return experts_hit * 3 * hidden * intermediate * BYTES_PER_ELEMENT[weights]
