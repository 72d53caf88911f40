"""`python -m workers.bench COMMAND …`: runs one bench and writes its document.

A bench's own module offers `add_arguments(parser)` and `run(args) -> Document`. It finds the common
arguments in `args.progress` (a path or None), and is imported only when its command is asked for,
because each needs other things of its Python.

Exit status: 0 done, 1 a failure a person can act on, 2 usage, 130 interrupted, 143 terminated.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import importlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from workers.bench.document import BenchError, Document, Progress

COMMANDS = {
    "tiles": (
        "workers.bench.tiles.cli",
        "which tiles of a FlashInfer version compile and fit, without a GPU",
    ),
    "explore": (
        "workers.bench.tiles.explorer.cli",
        "which tiles that no release ships would compile and fit; stage rescues",
    ),
    "modules": (
        "workers.bench.modules.cli",
        "build FlashInfer's JIT modules ahead, without a GPU, into the Python that runs this",
    ),
    "gemm": (
        "workers.bench.gemm.cli",
        "time matrix products and other kernels of a decode step, and check them",
    ),
    "moe": (
        "workers.bench.moe.cli",
        "tokens per second of whole mixture-of-experts models, and where a step's time goes; collectives",
    ),
    "serving": (
        "workers.bench.serving.cli",
        "an OpenAI-compatible server under load",
    ),
    "confirm": (
        "workers.bench.confirm.cli",
        "A/B of two environments in fresh processes: the same, faster or slower",
    ),
    "bisect": (
        "workers.bench.confirm.bisect_cli",
        "which of several environments is the first that has a change, by A/Bs",
    ),
}


def main(argv: Sequence[str]) -> int:
    if not argv or argv[0] not in COMMANDS:
        _overview().parse_args(argv)
        return 2
    signal.signal(signal.SIGTERM, _terminate)
    try:
        return _run(argv[0], argv[1:])
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
        return 130


def _overview() -> argparse.ArgumentParser:
    listing = "\n".join(f"  {name:9}{about}" for name, (_, about) in COMMANDS.items())
    parser = argparse.ArgumentParser(
        prog="python -m workers.bench",
        description=f"commands:\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=list(COMMANDS), help="what to measure")
    return parser


def _terminate(signum: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + signum)


def _run(command: str, argv: Sequence[str]) -> int:
    module_name, about = COMMANDS[command]
    module = importlib.import_module(module_name)
    parser = argparse.ArgumentParser(prog=f"python -m workers.bench {command}", description=about)
    parser.add_argument("--out", default="-", metavar="FILE", help="of the document (default: stdout)")
    parser.add_argument(
        "--progress", type=Path, metavar="FILE", help="append lines of JSON about the progress"
    )
    module.add_arguments(parser)
    args = parser.parse_args(argv)
    try:
        for path in (args.progress, None if args.out == "-" else Path(args.out)):
            _check_writable(path)
        document: Document = module.run(args)
        if args.out == "-":
            print(document.dumps())
        else:
            document.write(Path(args.out))
    except BenchError as error:
        return _report(error, args.progress)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        return _report(
            BenchError("disk_full", f"Nothing more can be written to disk: {error}."), args.progress
        )
    return 0


def _check_writable(path: Path | None) -> None:
    """Before the work, not after it."""
    if path is None:
        return
    if not path.parent.is_dir() or path.is_dir() or not os.access(path.parent, os.W_OK):
        raise BenchError(
            "not_writable", f"{path} cannot be written: name a file in a folder that is writable."
        )


def _report(error: BenchError, progress: Path | None) -> int:
    print(f"error: {error.sentence}", file=sys.stderr)
    with contextlib.suppress(OSError):  # the sentence has been said; an unwritable file may be its cause
        Progress(progress).error(error)
    return 1
