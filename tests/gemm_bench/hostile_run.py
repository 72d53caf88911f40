"""Measures the M of its arguments by hostile children, in so many processes; prints rows of JSON."""

import json
import sys

from workers.bench.cases.base import Case
from workers.bench.cases.gemm import Gemm
from workers.bench.gemm.children import Limits, measure_groups
from workers.bench.gemm.how import How

processes, *ms = map(int, sys.argv[1:])
settled = []
cases: list[Case] = [Gemm(m, 8, 8, "fp32") for m in ms]
results = measure_groups(
    [cases],
    How("cpu", 0.05, threads=1, l2="rotated"),
    Limits(case_timeout_s=2.0),
    processes=processes,
    done=lambda case, measured, count: settled.append(count),
    module="tests.gemm_bench.hostile_child",
)
rows = [
    [case.params["m"], each.backend, each.outcome, each.error, len(each.process_medians)]
    for case in cases
    for each in results.of(case)
]
print(json.dumps({"rows": rows, "settled": results.settled, "logs": list(results.logs)}))
