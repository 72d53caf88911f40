"""The arguments of `python -m workers.bench explore`."""

from __future__ import annotations

import argparse
from pathlib import Path

from workers.bench.document import Document, Progress
from workers.bench.tiles.explorer import run as explorer
from workers.bench.tiles.explorer import space


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--flashinfer", required=True, metavar="VERSION", help="whose bundled CUTLASS is explored, e.g. 0.6.3"
    )
    parser.add_argument("--arch", required=True, help=f"one of {', '.join(space.ARCHES)}")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("tilewatch-cache"),
        metavar="DIR",
        help="shared with the tile survey (default: %(default)s)",
    )
    parser.add_argument(
        "--wheel", type=Path, metavar="FILE", help="take this wheel instead of downloading one"
    )
    parser.add_argument("--limit", type=_count, metavar="N", help="the first N configurations only")
    parser.add_argument(
        "--full",
        action="append",
        default=[],
        metavar="N|NAME",
        help="also compile whole, for registers and spills: the N most promising tiles that no kernel of the "
        "version has, or the configuration NAME; may be given again",
    )
    parser.add_argument(
        "--rescue",
        action="store_true",
        help="instead: the version's own kernels that overflow, with one stage less",
    )
    parser.add_argument("--jobs", type=_count, metavar="N", help="compilers at a time (default: at most 2)")


def run(args: argparse.Namespace) -> Document:
    with explorer.prepared(
        flashinfer=args.flashinfer,
        arch_name=args.arch,
        cache_folder=args.cache,
        wheel=args.wheel,
        jobs=args.jobs,
        progress=Progress(args.progress),
    ) as bench:
        if args.rescue:
            return explorer.rescue_overflows(bench, command=_command(args))
        return explorer.explore(
            bench,
            limit=args.limit,
            whole=[text for text in args.full if not text.isdecimal()],
            most_promising=max((int(text) for text in args.full if text.isdecimal()), default=0),
            command=_command(args),
        )


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    """What repeats the search anywhere: no folder of this machine in it."""
    wheel = ("--wheel", args.wheel.name) if args.wheel else ()
    limit = ("--limit", str(args.limit)) if args.limit else ()
    full = [text for wanted in args.full for text in ("--full", wanted)]
    what = ("--rescue",) if args.rescue else (*limit, *full)
    chosen = ("--flashinfer", args.flashinfer, "--arch", args.arch, *what, *wheel)
    return ("python", "-m", "workers.bench", "explore", *chosen)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 10_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 10,000")
    return int(text)
