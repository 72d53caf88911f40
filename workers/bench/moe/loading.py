"""A decoder on one rank, ready to be timed. Needs torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from workers.bench.decoder.comm import Alone, Comm, Distributed
from workers.bench.decoder.marks import part
from workers.bench.decoder.model import Capacity, Decoder
from workers.bench.experts import registry
from workers.bench.experts.base import Backend, Experts, Layer, Weights
from workers.bench.model_work import Layout
from workers.bench.moe import steps
from workers.bench.moe.device import Device
from workers.bench.moe.ranks import Ranks

#: of weights, tokens and caches: the same model each time
SEED = 20_261_130


class Marked:
    """A backend whose calls are a range of their own: what it launches and does not mark itself is told from
    what comes before and behind it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.name = backend.name
        self.part_of = backend.part_of

    def make(self, torch: Any, layer: Layer, weights: Weights, max_tokens: int) -> Experts:
        made = self._backend.make(torch, layer, weights, max_tokens)

        def call(hidden: Any, ids: Any, weights: Any) -> Any:
            with part("other"):
                return made(hidden, ids, weights)

        return call


def load(
    torch: Any,
    layout: Layout,
    backend: str,
    room: tuple[int, int],
    device: Device,
    ranks: Ranks,
    say: Callable[[str], None],
) -> steps.Model:
    """By the backend "attention+experts", with room for so many sequences of all ranks and tokens of each.
    Raises UnsupportedError, or BenchError where no library here has it."""
    say("its weights")
    attention, _, name = backend.partition("+")
    experts = registry.by_name(torch, name)
    comm: Comm = Alone() if ranks.world == 1 else Distributed(torch, layout)
    decoder = Decoder(
        torch,
        layout,
        attention=attention,
        experts=Marked(experts),
        comm=comm,
        device=device.place,
        capacity=Capacity(room[0] // layout.ep, room[1]),
        seed=SEED,
    )
    device.wait()
    say("its check")
    found = steps.checked(torch, decoder, ranks)
    return steps.Model(torch, decoder, experts, device, ranks, say, found)
