"""One rank of a gang on this CPU, and what every rank runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from workers.bench.decoder.comm import Alone, Comm, Distributed
from workers.bench.decoder.model import Capacity, Decoder
from workers.bench.experts.torch_grouped import Loop
from workers.bench.model_work import Layout
from workers.bench.models import model

PROMPT, STEPS = 17, 3


def made(
    name: str,
    layout: Layout | None = None,
    comm: Comm | None = None,
    batch: int = 3,
    attention: str = "torch",
) -> Decoder:
    of = model(name)
    return Decoder(
        torch,
        layout or Layout(of, of.layers),
        attention=attention,
        experts=Loop(),
        comm=comm or Alone(),
        device="cpu",
        capacity=Capacity(batch, PROMPT + 8),
        seed=3,
    )


def tokens_of(name: str, first: int, count: int) -> Any:
    drawn = torch.randint(
        0, model(name).vocab, (8, PROMPT + STEPS), generator=torch.Generator().manual_seed(5)
    )
    return drawn[first : first + count]


def script(decoder: Decoder, tokens: Any) -> dict[str, Any]:
    """A prompt, and steps that are fed the tokens behind it."""
    decoder.prefill(tokens[:, :PROMPT])
    logits = [decoder.last_logits]
    for at in range(PROMPT, PROMPT + STEPS):
        decoder.feed(tokens[:, at])
        decoder.step()
        logits.append(decoder.last_logits)
    stacked = torch.stack(logits)
    return {
        "logits": stacked,
        # Of the whole vocabulary, whoever holds which rows of it.
        "greedy": decoder.step().tolist() == decoder.last_logits.argmax(-1).tolist(),
        "hit": decoder.experts_hit(),
        "rows": decoder.routing(),
        "bytes": decoder.weight_bytes,
    }


def run(folder: Path, names: list[str], sizes: list[list[int]], rank: int) -> None:
    """`folder` is the meeting point, and where each [tp, ep] of each model leaves its results."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2
    )
    for name in names:
        of = model(name)
        for tp, ep in sizes:
            layout = Layout(of, of.layers, tp=tp, ep=ep)
            share = 4 // ep
            decoder = made(name, layout, Distributed(torch, layout), batch=share)
            tokens = tokens_of(name, rank // tp * share, share)
            torch.save(script(decoder, tokens), folder / f"{name}.{tp}x{ep}.{rank}")
    torch.distributed.destroy_process_group()
