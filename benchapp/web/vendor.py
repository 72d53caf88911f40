"""Browser libraries kept in the repository: `python -m benchapp.web.vendor [--check]`.

`static/vendor/VENDOR.json` names each package, its version and licence, the archive's checksum and the
files taken from it. Without arguments every package is fetched by `npm pack`, checked against those sums
and written again. To take a newer version, change its `version`, set its checksums to "" and run this: it
fills them in. `--check` fetches nothing and compares the files that lie here.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "static" / "vendor"
LIST = FOLDER / "VENDOR.json"
#: Hashed static files fail on a source map that is not there.
SOURCE_MAP = re.compile(rb"\n?//[#@] sourceMappingURL=[^\n]*\n?")


class VendorError(Exception):
    """One sentence that names the package or file and what was expected."""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _settle(entry: dict[str, Any], key: str, found: str, name: str) -> None:
    """Compare with the sum on record; an empty one is filled in."""
    if entry[key] and entry[key] != found:
        raise VendorError(f"{name}: sha256 is {found}, expected {entry[key]}.")
    entry[key] = found


def _pack(package: dict[str, Any], folder: Path) -> bytes:
    """The package's archive as the registry gives it."""
    spec = f"{package['package']}@{package['version']}"
    done = subprocess.run(
        ["npm", "pack", spec, "--silent", "--ignore-scripts", "--pack-destination", str(folder)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    if done.returncode:
        raise VendorError(f"{spec}: npm pack failed: {done.stderr.strip() or done.stdout.strip()}")
    return (folder / done.stdout.split()[-1]).read_bytes()


def refresh() -> None:
    """Fetch every package and write its files and VENDOR.json."""
    packages = json.loads(LIST.read_text())
    with tempfile.TemporaryDirectory() as scratch:
        for package in packages:
            archive = _pack(package, Path(scratch))
            _settle(package, "archive_sha256", _digest(archive), package["package"])
            (Path(scratch) / "archive.tgz").write_bytes(archive)
            with tarfile.open(Path(scratch) / "archive.tgz") as tar:
                for file in package["files"]:
                    member = tar.extractfile(f"package/{file['source']}")
                    if member is None:
                        raise VendorError(f"{package['package']}: its archive has no file {file['source']}.")
                    data = SOURCE_MAP.sub(b"\n", member.read())
                    _settle(file, "sha256", _digest(data), file["name"])
                    (FOLDER / file["name"]).write_bytes(data)
    LIST.write_text(json.dumps(packages, indent=2) + "\n")


def check() -> list[str]:
    """One sentence for each file that is missing, differs from its sum, or is not on record."""
    expected = {
        file["name"]: file["sha256"] for package in json.loads(LIST.read_text()) for file in package["files"]
    }
    faults = []
    for name, digest in expected.items():
        path = FOLDER / name
        if not path.exists():
            faults.append(f"{name} is missing.")
        elif (found := _digest(path.read_bytes())) != digest:
            faults.append(f"{name}: sha256 is {found}, expected {digest}.")
    strangers = {path.name for path in FOLDER.iterdir()} - expected.keys() - {LIST.name}
    return faults + [f"{name} is not on record in {LIST.name}." for name in sorted(strangers)]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--check", action="store_true", help="fetch nothing; compare the files that lie here")
    if parser.parse_args().check:
        faults = check()
        for fault in faults:
            print(fault, file=sys.stderr)
        return 1 if faults else 0
    try:
        refresh()
    except (VendorError, OSError, subprocess.TimeoutExpired) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
