"""Named lists of whole models' steps and of collectives. Standard library only, for the control plane too."""

from __future__ import annotations

from collections.abc import Iterable

from workers.bench.cases.base import Case
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.cases.model import Decode, Prefill
from workers.bench.models import model

DECODE_BATCHES = (1, 8, 64, 256)
CONTEXT = 1024
#: at these batches the cache of the long context is still far smaller than the weights
LONG_CONTEXT, LONG_BATCHES = 16_384, (1, 8)
#: (sequences, tokens of each prompt)
PREFILLS = ((1, 1024), (8, 1024), (1, 8192))
#: rows of an all-reduce: decode batches and chunks of a prefill
COLLECTIVE_TOKENS = (1, 8, 64, 256, 1024, 8192)
HIDDEN = (2048, 6144)


def decode(
    name: str,
    *,
    batches: Iterable[int] = DECODE_BATCHES,
    context: int = CONTEXT,
    layers: int | None = None,
    tp: int = 1,
    ep: int = 1,
) -> list[Case]:
    """Decode batches of a model, of its first `layers` layers; None: of all. What ep does not divide is left
    out."""
    depth = layers or model(name).layers
    return [Decode(name, batch, context, depth, tp, ep, "bf16") for batch in batches if batch % ep == 0]


def prefill(name: str, *, layers: int | None = None, tp: int = 1, ep: int = 1) -> list[Case]:
    depth = layers or model(name).layers
    return [Prefill(name, batch, tokens, depth, tp, ep, "bf16") for batch, tokens in PREFILLS
            if batch % ep == 0]  # fmt: skip


def whole(name: str, *, layers: int | None = None, tp: int = 1, ep: int = 1) -> list[Case]:
    """Decode at both contexts, and prefill."""
    at = {"layers": layers, "tp": tp, "ep": ep}
    return [
        *decode(name, **at),  # type: ignore[arg-type]
        *decode(name, batches=LONG_BATCHES, context=LONG_CONTEXT, **at),  # type: ignore[arg-type]
        *prefill(name, **at),  # type: ignore[arg-type]
    ]


def tiny(tp: int = 1, ep: int = 1) -> list[Case]:
    """Made-up models in a few seconds on a CPU."""
    return [
        case
        for name in ("tiny-gqa", "tiny-mla", "tiny-oss")
        for case in (
            Decode(name, 4, 24, model(name).layers, tp, ep, "bf16"),
            Prefill(name, 2, 16, model(name).layers, tp, ep, "bf16"),
        )
    ]


def collectives(ranks: int) -> list[Case]:
    """What a layer exchanges, at the widths of a small and of a large model."""
    return [
        *(AllReduce(tokens, hidden, ranks, "bf16") for hidden in HIDDEN for tokens in COLLECTIVE_TOKENS),
        *(AllToAll(tokens, hidden, ranks, "bf16") for hidden in HIDDEN for tokens in COLLECTIVE_TOKENS
          if tokens % ranks == 0),
    ]  # fmt: skip


_QWEN, _OSS = "Qwen3-30B-A3B", "gpt-oss-20b"

#: name → (one line for people, cases)
_KNOWN: dict[str, tuple[str, list[Case]]] = {
    "tiny": ("Made-up models on one rank, for tests and for machines without a GPU", tiny()),
    "tiny-2": ("Made-up models on two ranks: TP 2 and EP 2, and what they exchange",
               [*tiny(tp=2), *tiny(ep=2), AllReduce(64, 64, 2, "bf16"), AllToAll(64, 64, 2, "bf16")]),
    "qwen3-30b-decode": (f"{_QWEN} whole, batches 1 to 256 at context 1,024", decode(_QWEN)),
    "qwen3-30b": (f"{_QWEN} whole: decode at two contexts, and prefill", whole(_QWEN)),
    "qwen3-30b-tp2": (f"{_QWEN} whole, tensor parallel on two GPUs", whole(_QWEN, tp=2)),
    "qwen3-30b-ep2": (f"{_QWEN} whole, expert parallel on two GPUs", whole(_QWEN, ep=2)),
    "qwen3-30b-2gpu": (f"{_QWEN} decode on two GPUs, TP 2 and EP 2",
                       [*decode(_QWEN, tp=2), *decode(_QWEN, ep=2)]),
    "gpt-oss-20b": (f"{_OSS} whole: decode at two contexts, and prefill", whole(_OSS)),
    "gpt-oss-20b-decode": (f"{_OSS} whole, batches 1 to 256 at context 1,024", decode(_OSS)),
    "glm-5-slice": ("The first 8 of GLM-5's 78 layers on one GPU; its sparse indexer left out",
                    [*decode("GLM-5", layers=8), *prefill("GLM-5", layers=8)]),
    "glm-5-slice-5": ("The first 5 of GLM-5's 78 layers, for a GPU of 80 GB", decode("GLM-5", layers=5)),
    "deepseek-v3-slice": ("The first 6 of DeepSeek-V3's 61 layers on one GPU",
                          decode("DeepSeek-V3", layers=6)),
    "qwen3-235b-slice": ("The first 16 of Qwen3-235B-A22B's 94 layers on one GPU",
                         decode("Qwen3-235B-A22B", layers=16)),
    "mixtral-8x7b": ("Mixtral-8x7B whole: decode and prefill", whole("Mixtral-8x7B")),
    "gpt-oss-120b-tp2": ("gpt-oss-120b whole on two GPUs, decode", decode("gpt-oss-120b", tp=2)),
    "minimax-m2.5-tp4": ("MiniMax-M2.5 whole on four GPUs, decode", decode("MiniMax-M2.5", tp=4)),
    "qwen3-235b-tp4": ("Qwen3-235B-A22B whole on four GPUs, decode", decode("Qwen3-235B-A22B", tp=4)),
    **{
        f"collectives-{ranks}": (f"All-reduce and all-to-all over {ranks} GPUs", collectives(ranks))
        for ranks in (2, 4, 8)
    },
}  # fmt: skip

MODEL_SUITES: dict[str, tuple[Case, ...]] = {
    name: tuple(dict.fromkeys(cases)) for name, (_, cases) in _KNOWN.items()
}
#: what each is for, in one line
MODEL_DESCRIPTIONS: dict[str, str] = {name: words for name, (words, _) in _KNOWN.items()}
