"""Downloads through pip: wheels only, never installed, each failure said in one sentence."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from workers.bench.document import BenchError
from workers.bench.tiles import children, versions

# No such version exists, so pip prints all there are, those with sources only too, and builds nothing.
_IMPOSSIBLE = "999999999"
_NO_NETWORK = re.compile(
    r"NewConnectionError|NameResolutionError|Temporary failure in name resolution|ConnectTimeoutError"
    r"|ReadTimeoutError|Network is unreachable|Connection refused|ProxyError|ConnectionResetError"
    r"|ProtocolError|SSLError|Max retries exceeded",
)
_OFFERED = re.compile(r"\(from versions: ([^)]*)\)")


def download(requirements: Sequence[str], into: Path, scratch: Path) -> list[Path]:
    """Fetch exactly these pinned wheels into `into`, without what they depend on."""
    ended = _pip(["--only-binary=:all:", "--dest", str(into), *requirements], scratch)
    if ended.returncode == 0:
        return sorted(into.glob("*.whl"))
    if "No matching distribution found" not in ended.stderr:
        raise _failure(ended, requirements)
    offered = _offered(ended.stderr)
    if _NO_NETWORK.search(ended.stderr) and not offered:
        raise _failure(ended, requirements)
    missing = next((r for r in requirements if r in ended.stderr), requirements[0])
    raise _absent(missing, offered, scratch)


def wheels(name: str, scratch: Path) -> list[str]:
    """Versions of a package that have a wheel for this Python and machine. BenchError if there is none."""
    requirement = f"{name}=={_IMPOSSIBLE}"
    ended = _pip(["--only-binary=:all:", requirement], scratch)
    if offered := _offered(ended.stderr):
        return offered
    if "No matching distribution found" in ended.stderr and not _NO_NETWORK.search(ended.stderr):
        raise BenchError("unknown_version", f"pip finds no wheel of {name} at all.")
    raise _failure(ended, [name])


def _pip(arguments: Sequence[str], scratch: Path) -> children.Ended:
    env = {**os.environ, "LC_ALL": "C", "TMPDIR": str(scratch), "PYTHONWARNINGS": "ignore"}
    options = ["--no-deps", "--no-input", "--progress-bar=off", "--retries=2", "--timeout=30"]
    command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", *options, *arguments]
    return children.run(command, folder=scratch, env=env)


def _failure(ended: children.Ended, requirements: Sequence[str]) -> BenchError:
    names = " ".join(requirements)
    if ended.timed_out:
        return BenchError("no_network", f"Downloading {names} took too long and was stopped.")
    if "No module named pip" in ended.stderr:
        return BenchError(
            "no_pip", f"{sys.executable} has no pip, which downloads {names}; install pip there."
        )
    if "No space left on device" in ended.stderr or "Disk quota exceeded" in ended.stderr:
        return BenchError("disk_full", f"The disk became full while {names} was downloaded.")
    if _NO_NETWORK.search(ended.stderr):
        return BenchError(
            "no_network",
            f"{names} cannot be downloaded: pip does not reach its package index. Is there a network?",
        )
    said = [line for line in ended.stderr.splitlines() if line.startswith("ERROR:")] or [ended.stderr[-300:]]
    return BenchError(
        "download_failed", f"pip could not download {names}: {said[0].removeprefix('ERROR:').strip()}"
    )


def _absent(requirement: str, offered: list[str], scratch: Path) -> BenchError:
    """Why pip found nothing: an unknown version, or one that is published as sources only."""
    name, _, version = requirement.partition("==")
    with_sources = _offered(_pip([f"{name}=={_IMPOSSIBLE}"], scratch).stderr)
    if version in with_sources:
        return BenchError(
            "no_wheel",
            f"{name} {version} has no wheel for this Python and machine, only other files; nearest with one: "
            f"{', '.join(versions.nearest(version, offered)) or 'none'}.",
        )
    known = versions.nearest(version, with_sources or offered)
    if not known:
        return BenchError("unknown_version", f"pip finds no version of {name} at all.")
    return BenchError("unknown_version", f"{name} {version} does not exist; nearest: {', '.join(known)}.")


def _offered(stderr: str) -> list[str]:
    match = _OFFERED.search(stderr)
    listed = match[1].split(",") if match else []
    # "none", or a spelling older than PEP 440, is no version
    return [version for text in listed if (version := versions.normalised_or_none(text))]
