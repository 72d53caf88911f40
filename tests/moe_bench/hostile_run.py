"""Measures all-reduces of the rows of its arguments by hostile ranks; prints rows of JSON."""

import json
import sys

from workers.bench.cases.collective import AllReduce
from workers.bench.moe.groups import How, Limits, measure

case_s, *tokens = sys.argv[1:]
cases = [AllReduce(int(each), 8, 2, "bf16") for each in tokens]
results, _ = measure(
    cases,
    How("cpu", (), steps=1, seconds=0.1, threads=1),
    Limits(float(case_s)),
    done=lambda case, measured, settled: None,
    module="tests.moe_bench.hostile_rank",
)
print(json.dumps([[case.tokens, each.outcome, each.error] for case in cases for each in results.of(case)]))
