"""What the ranks of a gang send one another. Rank = ep_rank · tp + tp_rank, as `model_work.Layout` says."""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, Protocol

from workers.bench.model_work import Layout

Group = Literal["tp", "ep"]


class Comm(Protocol):
    """`group` is the GPUs that share this rank's sequences ("tp"), or those that hold the other experts of
    its slice ("ep")."""

    @property
    def world(self) -> int: ...

    @property
    def rank(self) -> int: ...

    def all_reduce_(self, x: Any, group: Group) -> Any:
        """The sum over the group, in place."""

    def all_gather(self, x: Any, group: Group) -> Any:
        """[group · rows, …]: the rows of every rank, in their order."""

    def reduce_scatter(self, x: Any, group: Group) -> Any:
        """[rows / group, …]: this rank's share of the sum over the group."""


@dataclasses.dataclass(frozen=True, slots=True)
class Alone:
    """One GPU."""

    world: int = 1
    rank: int = 0

    def all_reduce_(self, x: Any, group: Group) -> Any:
        return x

    def all_gather(self, x: Any, group: Group) -> Any:
        return x

    def reduce_scatter(self, x: Any, group: Group) -> Any:
        return x


class Distributed:
    """Process groups of torch.distributed, whose default group every rank has joined already.

    Making one is itself a collective call: every rank of the gang does it with the same layout.
    """

    def __init__(self, torch: Any, layout: Layout) -> None:
        self._dist = dist = torch.distributed
        self.world, self.rank = dist.get_world_size(), dist.get_rank()
        if self.world != layout.gpus:
            raise ValueError(
                f"{self.world} ranks have joined; tp={layout.tp} × ep={layout.ep} wants {layout.gpus}."
            )
        tp, ep = layout.tp, layout.ep
        lists: dict[Group, list[list[int]]] = {
            "tp": [list(range(first, first + tp)) for first in range(0, tp * ep, tp)],
            "ep": [list(range(first, tp * ep, tp)) for first in range(tp)],
        }
        # Newer torch calls the same functions by other names, and warns at the old ones.
        self._gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
        self._scatter = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        self._groups: dict[Group, Any] = {}
        self._sizes: dict[Group, int] = {"tp": tp, "ep": ep}
        for name, members in lists.items():
            # Every rank takes part in making every group, its own or not.
            made = [dist.new_group(ranks) for ranks in members]
            self._groups[name] = next(
                group for group, ranks in zip(made, members, strict=True) if self.rank in ranks
            )

    def all_reduce_(self, x: Any, group: Group) -> Any:
        if self._sizes[group] > 1:
            self._dist.all_reduce(x, group=self._groups[group])
        return x

    def all_gather(self, x: Any, group: Group) -> Any:
        size = self._sizes[group]
        if size == 1:
            return x
        x = x.contiguous()
        out = x.new_empty(size * x.shape[0], *x.shape[1:])
        self._gather(out, x, group=self._groups[group])
        return out

    def reduce_scatter(self, x: Any, group: Group) -> Any:
        size = self._sizes[group]
        if size == 1:
            return x
        out = x.new_empty(x.shape[0] // size, *x.shape[1:])
        self._scatter(out, x.contiguous(), group=self._groups[group])
        return out
