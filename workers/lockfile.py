"""What an environment really holds: `lock.json` in it, written when it is built."""

from __future__ import annotations

import contextlib
import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from workers.bench.modules import lock

NAME = lock.NAME

#: Run by the environment's own Python: what it would import, each name once, as it would find it.
LISTING = """
import importlib.metadata, json, sys
found = {}
for each in importlib.metadata.distributions():
    name = each.metadata["Name"]
    if name and name.lower() not in found:
        found[name.lower()] = {"name": name, "version": each.version, "place": str(each.locate_file("")),
                               "requires": each.requires or []}
json.dump(list(found.values()), sys.stdout)
"""


def installed(python: Path) -> list[dict[str, Any]]:
    """[{name, version, place, requires}] of what an environment's Python sees. Raises OSError, ValueError."""
    listed = subprocess.run([str(python), "-c", LISTING], stdout=subprocess.PIPE, text=True, check=False)
    return list(json.loads(listed.stdout))


def wheels(reports: Iterable[Path]) -> dict[str, dict[str, str]]:
    """Name → {wheel, sha256, from} from pip's reports (`pip install --report`); a later one supersedes.

    Of an index only its host is told: a URL may hold a password.
    """
    found: dict[str, dict[str, str]] = {}
    for report in reports:
        for item in json.loads(report.read_text())["install"]:
            info = item["download_info"]
            url = urlsplit(info["url"])
            sha256 = _sha256(info.get("archive_info", {}), url)
            wheel = {
                "wheel": unquote(url.path).rpartition("/")[2],
                "from": "a folder of wheels" if url.scheme == "file" else url.hostname or "",
            }
            if sha256:
                wheel["sha256"] = str(sha256)
            found[canonicalize_name(item["metadata"]["name"])] = wheel
    return found


def _sha256(archive: Mapping[str, Any], url: SplitResult) -> str | None:
    """Of a wheel: pip before 23.1 tells it in another place, and of files in a folder not at all."""
    told = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").partition("sha256=")[2]
    if not told and url.scheme == "file":
        with contextlib.suppress(OSError), Path(unquote(url.path)).open("rb") as wheel:
            told = hashlib.file_digest(wheel, "sha256").hexdigest()
    return told or None


def make(
    versions: Mapping[str, str],
    packages: Iterable[Mapping[str, Any]],
    came_from: Mapping[str, Mapping[str, str]],
    base: Mapping[str, Any] | None,
    base_name: str,
) -> dict[str, Any]:
    """The lock: {recipe, base, packages: [{name, version, wheel, sha256, from, layer}], notes}.

    `base` is the lock of the environment that this one lies on; what is as there is of layer "base".
    """
    below = {} if base is None else {each["name"]: each for each in base["packages"]}
    listed = []
    requires: dict[str, Sequence[str]] = {}
    for package in packages:
        name = canonicalize_name(package["name"])
        requires[name] = package["requires"]
        if name in came_from or name not in below:
            source = {**came_from.get(name, {}), "layer": "own"}
        else:
            source = {**below[name], "layer": "base"}
        listed.append({**source, "name": name, "version": package["version"]})
    listed.sort(key=lambda package: str(package["name"]))
    got = {package["name"]: package["version"] for package in listed}
    notes = []
    if "flashinfer" in versions:
        asks = requires.get("flashinfer-python", ())
        notes = mixed(f"flashinfer {versions['flashinfer']}", asks, got)
    return {"recipe": dict(versions), "base": base_name or None, "packages": listed, "notes": notes}


def mixed(who: str, requirements: Iterable[str], got: Mapping[str, str]) -> list[str]:
    """A sentence for each requirement (Requires-Dist) that is open above and got a later release than the
    least that would do. `who` asks for them; `got` is canonical name → version."""
    told = {}
    for text in requirements:
        try:
            asked = Requirement(text)
            floors = [Version(each.version) for each in asked.specifier if each.operator in (">=", ">", "~=")]
            name = canonicalize_name(asked.name)
            found = Version(got[name])
        except (InvalidRequirement, InvalidVersion, KeyError):
            continue
        if asked.marker is not None and not asked.marker.evaluate({"extra": ""}):
            continue
        if floors and found > max(floors):
            told[name] = f"{who} asks for {asked.name}{asked.specifier} and got {got[name]}"
    return [told[name] for name in sorted(told)]


def read(environment: Path) -> dict[str, Any] | None:
    """The lock of an environment; None where it has none that can be read."""
    try:
        return dict(json.loads((environment / NAME).read_text()))
    except (OSError, ValueError):
        return None
