"""A rank with torch whose second one dies, or never joins, while the first is in a collective with it."""

import os
import signal
import sys
import time

from workers.bench.moe import collectives, rank

DIES, NEVER_JOINS = 2, 4
real = collectives.measure


def measure(torch, case, backend, device, ranks, seconds):
    if ranks.rank == 1 and case.tokens == DIES:
        os.kill(os.getpid(), signal.SIGKILL)
    if ranks.rank == 1 and case.tokens == NEVER_JOINS:
        time.sleep(600)
    return real(torch, case, backend, device, ranks, seconds)


collectives.measure = measure
if __name__ == "__main__":
    sys.exit(rank.main())
