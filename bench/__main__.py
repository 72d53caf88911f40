"""`python -m bench`: time Tilewatch's own rooms. `python -m bench fill`: generated data into a database."""

from __future__ import annotations

import argparse
import os
import sys
import time

from bench.registry import BENCHMARKS, ON_REQUEST, load
from bench.result import Failed, Result, Skipped, table
from bench.stand import SEED, stand
from benchapp.local.child import LocalError

FILL = "fill"


def main(arguments: list[str]) -> int:
    if arguments[:1] == [FILL]:
        return _fill(arguments[1:])
    about = _listing(BENCHMARKS)
    slow = f"only by name, many minutes:\n{_listing(ON_REQUEST)}"
    parser = argparse.ArgumentParser(
        prog="python -m bench",
        description="Time Tilewatch's own rooms, each beside a baseline measured in the same run.",
        epilog=f"benchmarks:\n{about}\n{slow}\n\n"
        f"`python -m bench {FILL} --help` tells how to fill a database.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which benchmarks (default: all)")
    parser.add_argument("--quick", action="store_true", help="less data and fewer repeats")
    parser.add_argument(
        "--seed", type=int, default=SEED, metavar="N", help=f"of all that is drawn (default: {SEED})"
    )
    chosen = parser.parse_args(arguments)
    known = (*BENCHMARKS, *ON_REQUEST)
    unknown = [name for name in chosen.names if name not in known]
    if unknown:
        parser.error(f"no benchmark {unknown[0]!r}: expected {', '.join(known)} or {FILL}")
    results: list[Result | Skipped] = []
    try:
        with stand(quick=chosen.quick, seed=chosen.seed) as place:
            for name in chosen.names or BENCHMARKS:
                print(f"{name} …", file=sys.stderr, flush=True)
                results += load(name)(place)
    except LocalError as error:
        print(f"The servers of the benchmarks do not start: {error}", file=sys.stderr)
        return 1
    except Failed as failed:
        print(failed, file=sys.stderr)
        return 1
    if results:
        print(table(results))
    return 0


def _listing(benchmarks: dict[str, str]) -> str:
    return "\n".join(f"  {name:<10}{what}" for name, what in benchmarks.items())


def _fill(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=f"python -m bench {FILL}",
        description="Put generated documents into the database of DATABASE_URL, or of the running "
        "`manage.py up`. Everything in them is marked as generated; nothing was measured.",
    )
    parser.add_argument("--measurements", type=_count, default=100_000, metavar="N", help="default: 100,000")
    parser.add_argument("--seed", type=int, default=SEED, help=f"default: {SEED}")
    parser.add_argument("--surveys", action="store_true", help="tile surveys too: 60 variants, 40 versions")
    parser.add_argument(
        "--anyway", action="store_true", help="even into a database that holds real documents"
    )
    chosen = parser.parse_args(arguments)

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings.local")
    import django

    django.setup()
    from bench import fill

    began = time.perf_counter()
    try:
        filled = fill.fill(
            chosen.measurements, chosen.seed, with_surveys=chosen.surveys, anyway=chosen.anyway
        )
    except fill.Refused as refused:
        print(f"Not filled: {refused}.", file=sys.stderr)
        return 1
    print(
        f"{filled.measurements:,} measurements and {filled.findings:,} findings in {filled.documents:,} "
        f"documents, {filled.new:,} of them new, in {time.perf_counter() - began:.1f} s "
        f"({filled.seconds:.1f} s of it taking them in)"
    )
    return 0


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000_000:
        raise argparse.ArgumentTypeError(f"expected a number from 1 to 10,000,000, got {text!r}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
