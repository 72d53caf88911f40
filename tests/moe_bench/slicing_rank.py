"""A rank without torch that tells times of its own making, and dies while it traces a batch of 64."""

import dataclasses
import json
import os
import signal
import sys

from workers.bench.cases.parse import from_row
from workers.bench.document import Correctness, Measurement, Statistics, Step, now
from workers.bench.gemm.child import die_with_parent, own_channel


def timed(case):
    return Measurement(
        kind=case.kind, params=case.params, outcome="ok", measured_at=now(), samples=(0.01,) * 5,
        statistics=Statistics(5, 0.01, 0.01, 0.01, 0.01), timer="wall_clock", backend="torch+torch.loop",
        correctness=Correctness("itself", 1.0, 0.0, 0, 0, 1, 0.1),
        step=Step(
            tokens=5 * case.batch, steps=5, window_s=0.05, gpus=0, layers=case.layers,
            layers_total=case.layout.model.layers, weight_bytes=1, kv_bytes=1, peak_memory_bytes=1,
        ),
    )  # fmt: skip


TRACE = {
    "parts": {"router": 0.01}, "libraries": {"torch": 0.01}, "traced_s": 0.01, "overlap_s": 0.0,
    "kernels": None, "layer_s": 0.001, "kernel": None,
}  # fmt: skip


def main():
    die_with_parent(int(sys.argv[1]))
    channel = own_channel()
    for line in sys.stdin:
        (what, told), *_ = json.loads(line).items()
        answer = {}
        if what == "start":
            target = {"kind": "cpu", "arch": "x86_64", "model": "a core", "host": "lab"}
            answer = {"devices": 1, "target": target, "stack": {"python": "3"}, "memory_bytes": 2**37}
        elif what == "load":
            answer = {"stack": {}, "floor": None}
        elif what == "measure":
            answer = {"measurement": dataclasses.asdict(timed(from_row(told["case"], "case")))}
        elif what == "trace":
            if told["case"]["batch"] == 64:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = {"trace": TRACE}
        channel.write(json.dumps({"answer": answer}) + "\n")
        channel.flush()


if __name__ == "__main__":
    main()
