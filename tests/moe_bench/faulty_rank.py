"""A rank without torch, which does as it is asked: it answers, dies, is silent, talks nonsense."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from workers.bench.gemm.child import die_with_parent, own_channel


def main():
    parent, rank, *_ = sys.argv[1:]
    die_with_parent(int(parent))
    channel = own_channel()

    def say(line):
        channel.write(json.dumps(line) + "\n")
        channel.flush()

    for line in sys.stdin:
        (what, whom), *_ = json.loads(line).items()
        if what == "start":
            target = {"kind": "cpu", "arch": "x86_64", "model": "a core", "host": "lab"}
            told = {"devices": 1, "target": target, "stack": {"python": "3"}, "memory_bytes": 2**37}
            say({"answer": told})
            continue
        mine = rank in whom
        say({"at": f"its {what}"})
        if mine and what == "death":
            print("a last word", file=sys.stderr, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        if mine and what == "silence":
            time.sleep(600)
        if mine and what == "nonsense":
            os.write(channel.fileno(), b"NCCL WARN: cannot\n")
        if mine and what == "orphan":
            # what it leaves holds its pipe, and would hold its GPU
            orphan = subprocess.Popen(["sleep", "600"], stdout=channel.fileno())
            say({"answer": {"pid": orphan.pid}})
            continue
        if not mine and what == "accusation":
            say({"failed": {"outcome": "launch_failed", "why": "Connection closed by peer."}})
            continue
        if mine and what == "accusation":
            time.sleep(0.3)
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "failure":
            say({"failed": {"outcome": "oom", "why": "out of memory.", "everywhere": True}})
            continue
        say(
            {
                "answer": {
                    "rank": int(rank),
                    "pid": os.getpid(),
                    "held": Path(f"/proc/self/fd/{whom}").exists(),
                }
            }
        )


if __name__ == "__main__":
    main()
