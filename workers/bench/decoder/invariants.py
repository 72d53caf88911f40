"""What must hold of a decoder too large for a reference: checked on the very weights, cache and kernels that
are then timed. Needs torch."""

from __future__ import annotations

import dataclasses
from typing import Any

from workers.bench import model_work
from workers.bench.decoder.model import Decoder
from workers.bench.decoder.reference import Reference
from workers.bench.decoder.weights import Source
from workers.bench.document import Correctness
from workers.bench.operators.base import passes

#: Least cosine that three quarters of the rows reach. bf16 flips a choice of experts that is nearly even now
#: and then, which turns one row by some hundredths where layers are few. Rounding alone leaves 0.9998 of the
#: rows of 48 layers; one token left out of these short contexts, or one wrong position, leaves 0.996 of all.
COSINE = 0.998
#: Of the largest difference to the largest logit: a row of something else differs by more than 1.
TOLERANCE = 0.9
#: a third of the steps lie behind a page's end
SEQUENCES, PROMPT, STEPS = 8, 9, 12
REFERENCE_LAYERS = 2


def holds(found: Correctness) -> bool:
    return passes(found, COSINE)


def check(torch: Any, decoder: Decoder) -> Correctness:
    """Agreement over three invariants: the cosine that three quarters of the rows reach, and the largest
    difference of logits. The cache's content, the current batch and a captured graph are lost; every rank of
    a gang calls it.

    Logits of steps, from a CUDA graph where there is a GPU, equal those of prefills over the same tokens;
    rows equal what they are alone; and what the first layers add equals a float32 reference of their
    weights, where memory has room for a whole layer.
    """
    logits, hidden = _Rows(torch), _Rows(torch)
    room = decoder.capacity
    rows = min(SEQUENCES, room.batch)
    length = min(PROMPT + STEPS, room.context)
    prompt = max(1, length - STEPS)
    tokens = decoder.random_tokens(rows, length)

    decoder.prefill(tokens[:, :prompt])
    if decoder.device != "cpu":
        decoder.capture()
    stepped = []
    for at in range(prompt, length):
        decoder.feed(tokens[:, at])
        decoder.step()
        stepped.append(decoder.last_logits)
    for at, got in zip(range(prompt, length), stepped, strict=True):
        decoder.prefill(tokens[:, : at + 1])
        together = decoder.last_logits
        logits.compare(got, together)
    for row in {0, rows - 1}:
        decoder.prefill(tokens[row : row + 1])
        logits.compare(together[row : row + 1], decoder.last_logits)

    words = "prefill over the same tokens, and rows alone"
    layers = min(REFERENCE_LAYERS + decoder.layout.dense_layers, decoder.layout.layers)
    got = decoder.after_layers(tokens, layers)
    if _fits(torch, decoder):
        hidden.compare(*_referred(torch, decoder, tokens, layers, got))
        words += f", and a float32 reference of the first {layers} layers"
    return Correctness(
        reference=words,
        cosine=min(each.cosine for each in (logits, hidden)),
        max_relative_error=logits.error,
        nan_count=logits.nan + hidden.nan,
        zero_count=logits.zero + hidden.zero,
        elements=logits.elements + hidden.elements,
        tolerance=TOLERANCE,
    )


def _referred(torch: Any, decoder: Decoder, tokens: Any, layers: int, got: Any) -> tuple[Any, Any]:
    """What the first layers added to the embedding of `tokens`, in `got` and by one GPU's weights, whatever
    this rank holds of them."""
    whole = dataclasses.replace(decoder.layout, tp=1, ep=1)
    source = Source(torch, whole, 0, decoder.device, decoder.seed)
    reference = Reference(torch, whole, source)
    with torch.no_grad():
        embedded = reference.residual(tokens, 0)
        return got.float() - embedded, reference.residual(tokens, layers) - embedded


def _fits(torch: Any, decoder: Decoder) -> bool:
    if decoder.device == "cpu":
        return True
    whole = dataclasses.replace(decoder.layout, tp=1, ep=1)
    of = whole.model
    layer = 2 * (of.experts * model_work.expert_weights(whole) + model_work.attention_weights(whole))
    embedding = 2 * of.vocab * of.hidden
    free, _ = torch.cuda.mem_get_info(decoder.device)
    held = torch.cuda.memory_reserved(decoder.device) - torch.cuda.memory_allocated(decoder.device)
    return bool(1.5 * (layer + embedding) + 2**30 < free + held)


class _Rows:
    """Rows compared so far."""

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._cosines: list[float] = []
        self.error = 0.0
        self.nan = self.zero = self.elements = 0

    @property
    def cosine(self) -> float:
        return sorted(self._cosines)[len(self._cosines) // 4] if self._cosines else 1.0

    def compare(self, got: Any, wanted: Any) -> None:
        """[…, width] of each; what is not finite is counted, and compared as zero."""
        got, wanted = got.float(), wanted.float()
        self.nan += int((~got.isfinite()).sum())
        self.zero += int((got == 0).sum())
        self.elements += got.numel()
        got = got.where(got.isfinite(), 0.0)
        self._cosines += self._torch.nn.functional.cosine_similarity(got, wanted, dim=-1).flatten().tolist()
        self.error = max(self.error, float((got - wanted).abs().max() / wanted.abs().max()))
