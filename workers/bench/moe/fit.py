"""Whether a model's step fits a GPU, before anything is loaded. Pure; for the control plane as well."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from workers.bench import model_work
from workers.bench.cases.model import MAX_RANKS
from workers.bench.model_work import Layout, Phase
from workers.bench.roofline import BYTES_PER_ELEMENT

#: a CUDA context, its libraries' kernels and handles, NCCL's buffers, and the workspaces of attention
FIXED_BYTES = 2 * 2**30
#: of the CPU's libraries, which are there once for all
CPU_FIXED_BYTES = 64 * 2**20
GIB = 2**30


@dataclasses.dataclass(frozen=True, slots=True)
class Estimate:
    """Bytes on the fullest GPU. `work_bytes` are activations, workspaces and one layer's weights once more,
    as a backend turns them into a form of its own. `layers_that_fit` are the most that would, the rest being
    equal; `gpus_that_fit` the fewest of a power of two that would, however split. None of either where no
    number does."""

    weight_bytes: int
    kv_bytes: int
    work_bytes: int
    memory_bytes: int
    layers_that_fit: int | None
    gpus_that_fit: int | None
    sentence: str

    @property
    def need_bytes(self) -> int:
        return self.weight_bytes + self.kv_bytes + self.work_bytes

    @property
    def fits(self) -> bool:
        return self.need_bytes <= self.memory_bytes


def estimate(
    layout: Layout,
    batch: int,
    context: int,
    memory_bytes: int,
    *,
    phase: Phase = "decode",
    fixed_bytes: int = FIXED_BYTES,
) -> Estimate:
    """Of `batch` sequences of all GPUs whose caches grow to `context` tokens each, on GPUs of `memory_bytes`.

    `phase` "prefill": as many prompts as the decoder takes at once are in flight.
    """

    def need(at: Layout) -> int:
        return sum(_parts(at, batch, context, phase, fixed_bytes))

    weights, cache, work = _parts(layout, batch, context, phase, fixed_bytes)
    fits = weights + cache + work <= memory_bytes
    layers = layout.layers if fits else _most_layers(layout, need, memory_bytes)
    gpus = layout.gpus if fits else _fewest_gpus(layout, batch, need, memory_bytes)
    return Estimate(
        weights,
        cache,
        work,
        memory_bytes,
        layers,
        gpus,
        _sentence(layout, (weights, cache, work), memory_bytes, fits, layers, gpus),
    )


def _parts(at: Layout, batch: int, context: int, phase: Phase, fixed_bytes: int) -> tuple[int, int, int]:
    """Bytes of weights, of the cache and of work."""
    of, per = at.model, BYTES_PER_ELEMENT[at.dtype]
    sequences = -(-batch // at.ep)
    tokens = model_work.prefill_tokens(sequences, context) if phase == "prefill" else sequences
    vocab = -(-of.vocab // at.tp)
    # residual, its norm and the sum over ranks; queries, keys, values and their output
    rows = 4 * of.hidden + 2 * (of.heads(at.tp)[0] + of.heads(at.tp)[1]) * (of.head_dim or _latent(at))
    # tokens of every group are gathered before the experts, top_k copies of each row multiplied
    expert_rows = of.top_k * (of.hidden + 3 * of.expert_width(at.tp)) + at.ep * of.hidden
    logits = sequences * of.vocab * 4 + sequences * vocab * per
    layer = -(-of.experts // at.ep) * model_work.expert_weights(at) if at.moe_layers else 0
    work = fixed_bytes + tokens * (rows + expert_rows) * per + 2 * logits + layer * per
    return model_work.weight_bytes(at), model_work.kv_bytes(at, batch, context), int(work)


def _latent(at: Layout) -> int:
    mla = at.model.mla
    return 0 if mla is None else mla.kv_lora_rank + mla.qk_rope_head_dim


def _most_layers(layout: Layout, need: Callable[[Layout], int], memory_bytes: int) -> int | None:
    """The most layers that fit, some with experts among them; None where not even those do."""
    least = layout.model.dense_layers + 1
    fitting = [
        layers
        for layers in range(least, layout.layers)
        if need(dataclasses.replace(layout, layers=layers)) <= memory_bytes
    ]
    return max(fitting, default=None)


def _fewest_gpus(layout: Layout, batch: int, need: Callable[[Layout], int], memory_bytes: int) -> int | None:
    of, gpus = layout.model, 1
    while (gpus := gpus * 2) <= MAX_RANKS:
        if gpus <= layout.gpus:
            continue
        for tp in (2**power for power in range(gpus.bit_length())):
            ep = gpus // tp
            whole = of.q_heads % tp == 0 and of.experts % ep == 0 and batch % ep == 0
            if whole and need(dataclasses.replace(layout, tp=tp, ep=ep)) <= memory_bytes:
                return gpus
    return None


def _sentence(
    layout: Layout,
    parts: tuple[int, int, int],
    memory_bytes: int,
    fits: bool,
    layers: int | None,
    gpus: int | None,
) -> str:
    of = layout.model
    depth = f"all {of.layers}" if layout.layers == of.layers else f"{layout.layers} of {of.layers}"
    each = " on each GPU" if layout.gpus > 1 else ""
    weights, cache, work = (f"{part / GIB:,.1f}" for part in parts)
    said = (
        f"{of.name} with {depth} layers needs about {sum(parts) / GIB:,.1f} GiB{each} (weights {weights},"
        f" cache {cache}, work {work}), and {memory_bytes / GIB:,.1f} GiB are there"
    )
    if fits:
        return f"{said}: it fits."
    ways = []
    if layers is not None:
        ways.append(f"{layers} layers would fit")
    if gpus is not None:
        ways.append(f"{gpus} GPUs would hold it" if not ways else f"or {gpus} GPUs hold them all")
    return f"{said}: {', '.join(ways) or 'no number of layers or GPUs would do'}."
