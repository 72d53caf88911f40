"""What a decoder's figures are without, in sentences that stand beside every one of them. Pure."""

from __future__ import annotations

from workers.bench.models import Model

#: of models whose public code has more than this decoder
_OF_MODEL = {
    "GLM-5": ("GLM-5's sparse indexer is left out: every token attends to the whole context.",),
    "Llama-4-Scout": (
        "Every layer rotates and attends to the whole context, and routing weights multiply what experts"
        " give, not what they get.",
    ),
    "MiniMax-M2.5": ("Queries and keys are normed by head and rotated whole, not by half.",),
}


def sentences(of: Model, attention: str) -> tuple[str, ...]:
    found = _OF_MODEL.get(of.name, ())
    if of.mla is not None and attention == "flashinfer":
        found = (*found, "A prefill's latent attention is torch's scaled_dot_product_attention.")
    return found
