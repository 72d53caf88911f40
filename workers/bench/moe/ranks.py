"""What the ranks of a gang tell one another beside the model's own collectives: small things, on the host."""

from __future__ import annotations

import datetime as dt
from typing import Any

#: the parent ends a gang that hangs; torch shall not end it before
_NEVER = dt.timedelta(days=7)


class Ranks:
    """This rank among `world`. Nothing of it needs torch.distributed where there is one."""

    def __init__(self, torch: Any, rank: int, world: int, device: str, store: str) -> None:
        """Joins the others; each of them must do so."""
        self.rank = rank
        self.world = world
        self._dist = torch.distributed
        #: of the host's own exchanges; None of one rank
        self.group: Any = None
        if world > 1:
            self._dist.init_process_group(
                "nccl" if device == "cuda" else "gloo",
                init_method=f"file://{store}",
                rank=rank,
                world_size=world,
                timeout=_NEVER,
            )
            # Host values go by the host: a GPU's queue is no place to wait at.
            self.group = self._dist.new_group(backend="gloo", timeout=_NEVER)

    def gather(self, value: Any) -> list[Any]:
        """The value of every rank, by rank; everybody waits for the last."""
        if self.group is None:
            return [value]
        values: list[Any] = [None] * self.world
        self._dist.all_gather_object(values, value, group=self.group)
        return values

    def wait(self) -> None:
        self.gather(None)
