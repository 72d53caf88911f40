"""What the commands that measure share of their arguments: checks, and the way back to a command."""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping, Sequence

from workers.bench.cases.base import Case
from workers.bench.document import BenchError

MAX_THREADS = 4096


def need_torch(bench: str) -> None:
    """Raises BenchError where this Python has no torch."""
    if importlib.util.find_spec("torch") is None:
        raise BenchError("no_torch", f"The {bench} needs torch, and this Python has none: install torch.")


def suite(name: str | None, suites: Mapping[str, Sequence[Case]]) -> list[Case]:
    """The cases of a suite; none without a name. Raises BenchError."""
    if name is None:
        return []
    if name not in suites:
        raise BenchError("bad_suite", f"No suite is called {name!r}; there are {', '.join(suites)}.")
    return list(suites[name])


def at_most(cases: list[Case], most: int) -> list[Case]:
    """`cases`. Raises BenchError where they are too many."""
    if len(cases) > most:
        raise BenchError("bad_case", f"{len(cases):,} cases asked for, at most {most:,} are taken.")
    return cases


def backends_of(args: argparse.Namespace) -> tuple[str, ...] | None:
    """The backends of --backend, without repeats; None where it is not there. Raises BenchError."""
    names = [name.strip() for listed in args.backend for name in listed.split(",")]
    if not all(names):
        raise BenchError("bad_argument", "--backend: expected names such as torch.mm, between commas.")
    return tuple(dict.fromkeys(names)) or None


def check_limits(args: argparse.Namespace) -> None:
    """Of --threads, --case-seconds, --case-timeout-s and --budget-s, as far as a bench has them. Raises
    BenchError."""
    threads = getattr(args, "threads", None)
    if threads is not None and threads > MAX_THREADS:
        raise BenchError("bad_argument", f"--threads {threads}: expected at most {MAX_THREADS:,}.")
    for name in ("threads", "case_seconds", "case_timeout_s", "budget_s"):
        value = getattr(args, name, None)
        if value is not None and not value > 0:
            raise BenchError("bad_argument", f"--{name.replace('_', '-')} {value:g}: expected more than 0.")


def as_words(options: Mapping[str, float | None]) -> list[str]:
    """Options and their values as a command has them; those without a value are left out."""
    return [word for name, value in options.items() if value is not None for word in (name, f"{value:g}")]
