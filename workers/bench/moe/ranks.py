"""What the ranks of a gang tell one another beside the model's own collectives: small things, on the host."""

from __future__ import annotations

import datetime as dt
import pickle
from typing import Any

#: the parent ends a gang that hangs; torch shall not end it before
_NEVER = dt.timedelta(days=7)


class Ranks:
    """This rank among `world`. Nothing of it needs torch.distributed where there is one."""

    def __init__(self, torch: Any, rank: int, world: int, device: str, store: str) -> None:
        """Joins the others; each of them must do so."""
        self.rank = rank
        self.world = world
        self._torch, self._dist = torch, torch.distributed
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
        # all_gather_object needs numpy, which an environment of torch alone has not
        told = pickle.dumps(value)
        sizes = [int(size) for size in self._exchanged(self._torch.tensor([len(told)]))]
        line = bytearray(told).ljust(max(sizes), b"\0")
        lines = self._exchanged(self._torch.frombuffer(line, dtype=self._torch.uint8))
        # of the ranks of this gang alone
        return [pickle.loads(bytes(each.tolist()[:size])) for each, size in zip(lines, sizes, strict=True)]  # noqa: S301

    def _exchanged(self, mine: Any) -> list[Any]:
        """The tensor of every rank, all of one size."""
        every = [self._torch.empty_like(mine) for _ in range(self.world)]
        self._dist.all_gather(every, mine, group=self.group)
        return every

    def wait(self) -> None:
        self.gather(None)
