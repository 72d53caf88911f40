"""One rank of a gang: answers the parent's questions, one after the other, by lines of JSON.

Started by `gang.py` as `python -m workers.bench.moe.rank PARENT_PID RANK WORLD DEVICE STORE`. Questions:
{"start": …}; {"join": {}}, with the other ranks; {"load": …}, a model; {"measure": {case, …}} and
{"trace": {case, steps}} of it; {"exchange": {case, backend, …}}, a collective. Answers are {"answer": …},
with what rank 0 found, or {"failed": {outcome, why, everywhere}}; {"at": …} tells what it is doing.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import warnings
from collections.abc import Callable
from typing import Any

from workers.bench.cases import parse
from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.cases.model import Decode, Prefill
from workers.bench.document import BenchError
from workers.bench.gemm.child import die_with_parent, own_channel
from workers.bench.gemm.outcomes import outcome_of
from workers.bench.moe import collectives, links
from workers.bench.moe.device import Device, open_device
from workers.bench.moe.ranks import Ranks
from workers.bench.operators.stack import observed

Answer = dict[str, Any]


class Session:
    """This rank's process, from question to question."""

    def __init__(
        self, torch: Any, rank: int, world: int, device: str, store: str, say: Callable[[str], None]
    ) -> None:
        self._torch = torch
        self._rank = rank
        self._world = world
        self._name = device
        self._store = store
        self._say = say
        self._device: Device
        self._ranks: Ranks
        self._model: Any = None

    def start(self, told: Answer) -> Answer:
        """The device of this rank, if there is one; the gang's target and stack by rank 0."""
        torch = self._torch
        self._threads = told["threads"]
        if self._name == "cuda" and torch.cuda.is_available() and torch.cuda.device_count() < self._world:
            return {"devices": torch.cuda.device_count(), "target": self._target(0), "stack": self._stack()}
        return {
            "devices": self._world,
            "target": self._target(self._rank),
            "stack": self._stack(),
            "memory_bytes": self._device.memory_bytes(),
        }

    def _target(self, rank: int) -> Answer:
        torch = self._torch
        self._device = open_device(torch, self._name, rank, self._world, self._threads)
        target = self._device.target()
        if self._name == "cuda":
            gpus = min(self._world, torch.cuda.device_count())
            joined = links.properties(torch, target.uuid, gpus)
            target = dataclasses.replace(target, properties={**target.properties, **joined})
        return dataclasses.asdict(target)

    def _stack(self) -> dict[str, str]:
        return {**observed(self._torch, self._name), **self._device.stack()}

    def join(self, told: Answer) -> Answer:
        self._ranks = Ranks(self._torch, self._rank, self._world, self._name, self._store)
        return {}

    def load(self, told: Answer) -> Answer:
        """A model of a case's layout with room for `room`, checked."""
        from workers.bench.moe.loading import load

        case = _case(told["case"], Decode, Prefill)
        self._model = load(
            self._torch,
            case.layout,
            told["backend"],
            tuple(told["room"]),
            self._device,
            self._ranks,
            self._say,
        )
        return {"stack": self._stack(), "floor": self._device.launch_floor()}

    def measure(self, told: Answer) -> Answer:
        case = _case(told["case"], Decode, Prefill)
        measured = self._model.measure(case, told["steps"], told["seconds"])
        return {} if measured is None else {"measurement": dataclasses.asdict(measured)}

    def trace(self, told: Answer) -> Answer:
        try:
            trace = self._model.trace(_case(told["case"], Decode, Prefill), told["steps"])
        except ValueError as error:  # a trace that tells of nothing costs no measurement
            return {"trace": {"untraced": str(error)}}
        return {} if trace is None else {"trace": dataclasses.asdict(trace)}

    def exchange(self, told: Answer) -> Answer:
        """A collective by one backend."""
        case = _case(told["case"], AllReduce, AllToAll)
        self._say("its collective")
        measured = collectives.measure(
            self._torch, case, told["backend"], self._device, self._ranks, told["seconds"]
        )
        found = {} if measured is None else {"measurement": dataclasses.asdict(measured)}
        return {"stack": self._stack(), **found}


def _case(row: Any, *kinds: type) -> Any:
    case = parse.from_row(row, "case")
    assert isinstance(case, kinds), f"{case} is no question of this kind"
    return case


def answer(torch: Any, session: Session, question: dict[str, Any]) -> dict[str, Any]:
    """The line that answers a question."""
    (name, told), *_ = question.items()
    try:
        return {"answer": getattr(session, name)(told)}
    except BenchError as error:
        told = {"outcome": "unsupported", "why": error.sentence, "code": error.code, "everywhere": True}
        return {"failed": told}
    except Exception as error:  # whatever a library raises is the case's outcome
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        outcome, why = outcome_of(torch, error)
        everywhere = name == "load" and outcome in ("unsupported", "build_failed")
        return {"failed": {"outcome": outcome, "why": why, "everywhere": everywhere}}


def main() -> int:
    parent, rank, world, device, store = sys.argv[1:]
    die_with_parent(int(parent))
    channel = own_channel()

    def say(line: dict[str, Any]) -> None:
        channel.write(json.dumps(line, allow_nan=False) + "\n")
        channel.flush()

    # torch warns on import where NumPy is missing; this bench needs none.
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")
    import torch

    torch.set_grad_enabled(False)
    session = Session(torch, int(rank), int(world), device, store, lambda what: say({"at": what}))
    for line in sys.stdin:
        said = answer(torch, session, json.loads(line))
        say(said)
    return 0


if __name__ == "__main__":
    sys.exit(main())
