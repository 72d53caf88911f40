"""The arguments of `python -m workers.bench tiles`."""

from __future__ import annotations

import argparse
from pathlib import Path

from workers.bench.document import Document, Progress
from workers.bench.tiles import arches, instantiations, survey


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--flashinfer", required=True, metavar="VERSION", help="e.g. 0.6.3")
    parser.add_argument("--arch", required=True, help=f"one of {', '.join(arches.ARCHES)}")
    parser.add_argument(
        "--cache",
        type=Path,
        default=Path("tilewatch-cache"),
        metavar="DIR",
        help="kept between surveys (default: %(default)s)",
    )
    parser.add_argument(
        "--wheel", type=Path, metavar="FILE", help="take this wheel instead of downloading one"
    )
    parser.add_argument(
        "--tier",
        action="append",
        choices=["types", "body", "full"],
        help="how deep to compile what fits; may be given again (default: types, which always comes first)",
    )
    parser.add_argument("--limit", type=_count, metavar="N", help="at tiers body and full: N kernels at most")
    parser.add_argument(
        "--inputs",
        action="append",
        choices=instantiations.INPUTS,
        help="input types, may be given again (default: all on SM120 and SM121, elsewhere the narrowest)",
    )
    parser.add_argument("--jobs", type=_count, metavar="N", help="compilers at a time (default: at most 2)")


def run(args: argparse.Namespace) -> Document:
    return survey.run(
        flashinfer=args.flashinfer,
        arch_name=args.arch,
        cache_folder=args.cache,
        wheel=args.wheel,
        jobs=args.jobs,
        progress=Progress(args.progress),
        command=_command(args),
        tiers=tuple(dict.fromkeys(args.tier or ["types"])),
        limit=args.limit,
        inputs=tuple(dict.fromkeys(args.inputs)) if args.inputs else None,
    )


def _command(args: argparse.Namespace) -> tuple[str, ...]:
    """What repeats the survey anywhere: no folder of this machine in it."""
    wheel = ("--wheel", args.wheel.name) if args.wheel else ()
    tiers = (text for tier in dict.fromkeys(args.tier or []) for text in ("--tier", tier))
    limit = ("--limit", str(args.limit)) if args.limit else ()
    inputs = (text for each in dict.fromkeys(args.inputs or []) for text in ("--inputs", each))
    chosen = ("--flashinfer", args.flashinfer, "--arch", args.arch, *inputs, *tiers, *limit, *wheel)
    return ("python", "-m", "workers.bench", "tiles", *chosen)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 64:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to 64")
    return int(text)
