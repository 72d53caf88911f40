"""The kinds of work that may be asked for, and what each may be told."""

from __future__ import annotations

from benchapp.runs import requests
from workers.bench.cases.base import Case
from workers.bench.suites import SUITES
from workers.bench.suites.models import MODEL_SUITES

WHAT = {
    "survey": "Tile survey",
    "full": "Full compile of the tiles that fit",
    "explore": "Exploration of tiles that no release ships",
    "rescue": "Stage rescues of tiles that overflow",
    "gemm": "GEMM benchmark",
    "moe": "MoE tokens per second",
}
#: Done by the explorer, which knows fewer architectures.
EXPLORED = ("explore", "rescue")
#: Measured on machines; everything else compiles, for an architecture.
MEASURED = ("gemm", "moe")
#: Of each that is measured: named lists of cases, what it may be of, and how it may be told to measure.
SUITES_OF: dict[str, dict[str, tuple[Case, ...]]] = {"gemm": SUITES, "moe": MODEL_SUITES}
LIBRARIES_OF = {"gemm": tuple(requests.LIBRARIES), "moe": requests.MODEL_LIBRARIES}
OPTIONS_OF = {
    "gemm": ("processes", "case_timeout_s", "timer", "backends"),
    "moe": ("case_timeout_s", "backends"),
}
