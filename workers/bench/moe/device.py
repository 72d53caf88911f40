"""One rank's device: what it is, when its work was done, what it held, and what the driver says meanwhile."""

from __future__ import annotations

import itertools
import resource
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Protocol

from workers.bench.document import Target, Timer
from workers.bench.gemm import cpu, cuda, nvidia
from workers.bench.memory import available_bytes
from workers.bench.timers.calibrate import floor_in_graph

#: between two readings: a poll takes the driver some hundreds of microseconds
POLL_EVERY_S = 0.05


class Device(Protocol):
    """`stamp` marks a moment among the work issued, and `between` tells the seconds from each of these to the
    next, once `wait` has returned."""

    name: str
    timer: Timer
    #: what the rank's tensors are made on
    place: str

    def target(self) -> Target: ...
    def stack(self) -> dict[str, str]: ...
    def memory_bytes(self) -> int: ...
    def stamp(self) -> Any: ...
    def between(self, stamps: list[Any]) -> list[float]: ...
    def wait(self) -> None: ...
    def begin_peak(self) -> None: ...
    def peak_bytes(self) -> int: ...
    def source(self) -> nvidia.Source: ...
    def launch_floor(self) -> float | None: ...


class Gpu:
    """GPU number `index` of those that the process may see."""

    name = "cuda"
    timer: Timer = "cuda_events"

    def __init__(self, torch: Any, index: int) -> None:
        self._torch = torch
        self._index = index
        self.place = f"cuda:{index}"
        self._first = cuda.Cuda(torch, None)
        torch.cuda.set_device(index)
        self._source = self._first.source if index == 0 else nvidia.open_source(cuda.uuid_of(torch, index))

    def target(self) -> Target:
        """Of the gang's first GPU."""
        return self._first.target()

    def stack(self) -> dict[str, str]:
        return self._first.stack()

    def memory_bytes(self) -> int:
        return int(self._torch.cuda.mem_get_info(self._index)[0])

    def stamp(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def between(self, stamps: list[Any]) -> list[float]:
        return [one.elapsed_time(next_) / 1e3 for one, next_ in itertools.pairwise(stamps)]

    def wait(self) -> None:
        self._torch.cuda.synchronize()

    def begin_peak(self) -> None:
        self._torch.cuda.reset_peak_memory_stats()

    def peak_bytes(self) -> int:
        return int(self._torch.cuda.max_memory_allocated())

    def source(self) -> nvidia.Source:
        return self._source

    def launch_floor(self) -> float | None:
        """Seconds of an empty kernel among others of a graph."""
        return floor_in_graph(self._torch)


class Cores:
    """The cores of the host, shared by the `world` ranks of a gang."""

    name = "cpu"
    timer: Timer = "wall_clock"
    place = "cpu"

    def __init__(self, torch: Any, world: int, threads: int | None) -> None:
        self._world = world
        whole = cpu.Cpu(torch, None)
        self._cores = whole
        torch.set_num_threads(threads or max(1, len(whole.cores) // world))

    def target(self) -> Target:
        return self._cores.target()

    def stack(self) -> dict[str, str]:
        return {}

    def memory_bytes(self) -> int:
        """A rank's share of what is free; where /proc does not tell, as much as no model needs."""
        return (available_bytes() or 2**60) // self._world

    def stamp(self) -> Any:
        return time.perf_counter()

    def between(self, stamps: list[Any]) -> list[float]:
        return [next_ - one for one, next_ in itertools.pairwise(stamps)]

    def wait(self) -> None:
        pass

    def begin_peak(self) -> None:
        pass

    def peak_bytes(self) -> int:
        """Of the process, since its start."""
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

    def source(self) -> nvidia.Source:
        return nvidia.Nothing()

    def launch_floor(self) -> float | None:
        return None


def open_device(torch: Any, name: str, rank: int, world: int, threads: int | None) -> Device:
    """Raises BenchError where there is no such device."""
    return Gpu(torch, rank) if name == "cuda" else Cores(torch, world, threads)


class Watch:
    """Reads the driver every POLL_EVERY_S from a thread of its own while the block runs, so that the steps
    wait for no reading. `readings` are there at its end."""

    def __init__(self, source: nvidia.Source) -> None:
        self._source = source
        self._stop = threading.Event()
        self.readings: list[nvidia.Reading] = []

    def __enter__(self) -> Watch:
        self._source.take()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self.readings = self._source.take()

    def _run(self) -> None:
        poll: Callable[[], object] = self._source.poll
        while True:
            poll()
            if self._stop.wait(POLL_EVERY_S):
                return


def mean_power(readings: list[nvidia.Reading]) -> float | None:
    """Watts over a window; None where the driver does not tell."""
    known = [each.power_w for each in readings if each.power_w is not None]
    return sum(known) / len(known) if known else None
