"""Where a soak happens: two installations on one host with the same GPUs, and the processes on them.

Only NVML is simulated. Servers, workers, environments, leases and children are what they are elsewhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench import soak_child, soak_plan
from bench.stand import Stand
from benchapp.catalog.digests import environment_name
from benchapp.local.child import spawn
from benchapp.local.supervisor import Supervisor

REPOSITORY = Path(__file__).resolve().parents[1]
SIMULATED = REPOSITORY / "tests" / "simulated"
#: of each GPU: model, architecture, what NVML says of it
MODELS = (
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "sm120", [12, 0]),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "sm120", [12, 0]),
    ("NVIDIA H200", "sm90", [9, 0]),
    ("NVIDIA H200", "sm90", [9, 0]),
)
UUIDS = tuple(f"GPU-50a4000{number}-0000-0000-0000-000000000000" for number in range(len(MODELS)))
STOP_STEPS = ((int(signal.SIGTERM), 8.0),)
CELERY = ("worker", "--loglevel=INFO", "--without-gossip", "--without-mingle", "--without-heartbeat")


class Place:
    """Folders, environment and supervised programs of a soak. Make it on the main thread."""

    def __init__(self, stand: Stand, size: soak_plan.Size) -> None:
        self.root = stand.home / "soak"
        self.evidence = self.root / "evidence"
        self.homes = [self.root / "one", self.root / "two"]
        for home in self.homes:
            home.mkdir(parents=True)
            _make_environment(home / "envs" / environment_name({"torch": soak_plan.BUILT}))
        wheels = self.root / "wheels"
        for version in soak_plan.TO_BUILD:
            _make_wheel(wheels, version)
        _write_gpus(self.root)
        self.evidence.touch()
        self._environment = os.environ | {
            "DJANGO_SETTINGS_MODULE": size.settings,
            "PYTHONPATH": str(SIMULATED),
            "SIMULATED_NVML": str(self.root / "nvml.json"),
            "TILEWATCH_LEASES": str(self.root / "leases"),
            "TILEWATCH_HOST_NAME": "soak",
            "TILEWATCH_WHEELS": str(wheels),
        }
        self.supervisor = Supervisor()
        self._shared = size.shared

    def start(self) -> None:
        """Start beat, control worker and both installations' workers, all of them kept up."""
        control = self.root / "control"
        (control / "log").mkdir(parents=True)
        beat = ("beat", "--loglevel=INFO", "--pidfile=", "-s", str(control / "beat-schedule"))
        self._keep("beat", control, "celery", "-A", "benchapp.celery", *beat)
        worker = ("-A", "benchapp.celery", *CELERY, "-Q", "control", "-n", "control@%h", "-c", "1")
        self._keep("control", control, "celery", *worker)
        shared = ",".join(map(str, range(self._shared)))
        for home, gpus in zip(self.homes, ("all", shared), strict=True):
            (home / "log").mkdir(exist_ok=True)
            self._keep(home.name, home, "workers", "up", "--no-cpu", "--gpus", gpus)

    def _keep(self, name: str, home: Path, *program: str) -> None:
        log = home / "log" / f"{name}.log"
        start = partial(
            spawn,
            [sys.executable, "-m", *program],
            log=log,
            environment=self._environment | {"TILEWATCH_HOME": str(home)},
            folder=REPOSITORY,
        )
        self.supervisor.keep(name, log, start, STOP_STEPS)

    def process(self, name: str) -> subprocess.Popen[str]:
        """Of *beat*, *control*, or an installation: *one*, *two*."""
        return next(kept.process for kept in self.supervisor.kept if kept.name == name)

    def workers(self, kind: str) -> list[int]:
        """Process numbers of the Celery workers of a kind (gpu, build …) on both installations."""
        found = []
        for home in self.homes:
            for pid in children(self.process(home.name).pid):
                words = command(pid)
                if "-n" in words and words[words.index("-n") + 1].startswith(kind):
                    found.append(pid)
        return found

    def pools(self, kind: str) -> list[int]:
        """The processes of those workers that do the runs."""
        return [pid for worker in self.workers(kind) for pid in children(worker) if "-n" in command(pid)]

    def measuring(self) -> dict[int, int]:
        """Process numbers of the children that measure now, and the run of each."""
        found = {}
        for pool in self.pools("gpu"):
            for keeper in children(pool):
                for child in children(keeper):
                    with contextlib.suppress(OSError, ValueError):
                        found[child] = int(Path(f"/proc/{child}/cwd").readlink().name.partition("-")[0])
        return found

    def spooled(self) -> list[Path]:
        return [path for home in self.homes for path in (home / "spool").glob("*") if path.name != "lock"]

    def logs(self) -> list[Path]:
        return sorted(self.root.glob("*/log/*.log"))


def children(pid: int) -> list[int]:
    """Process numbers of the children of any thread of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += map(int, task.read_text().split())
    return found


def command(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace").split("\0")
    except OSError:
        return []


def strike(pids: list[int], choose: Callable[[list[int]], int], number: int) -> int | None:
    """Send a signal to one of the processes; which one. None where there is none any more."""
    if not pids:
        return None
    pid = choose(pids)
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return None
    return pid


def _make_environment(folder: Path) -> None:
    """An environment whose Python is the soak's child."""
    python = folder / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f"#!{sys.executable} -IS\n" + Path(soak_child.__file__).read_text())
    python.chmod(0o755)


def _make_wheel(folder: Path, version: str) -> None:
    """A wheel that says it is torch. pip builds a real environment of it; its Python is the soak's child."""
    folder.mkdir(exist_ok=True)
    about = f"torch-{version}.dist-info"
    hook = "import sys, soak_child; 'workers.bench' in sys.orig_argv and soak_child.begin(sys.orig_argv)\n"
    files = {
        "soak_child.py": Path(soak_child.__file__).read_text(),
        "soak_child.pth": hook,
        "torch/__init__.py": f"__version__ = {version!r}\n",
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: soak\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},,\n" for name in (*files, f"{about}/RECORD"))
    with zipfile.ZipFile(folder / f"torch-{version}-py3-none-any.whl", "w") as wheel:
        for name, text in (*files.items(), (f"{about}/RECORD", record)):
            wheel.writestr(name, text)


def _write_gpus(root: Path) -> None:
    gpus = [
        {"uuid": uuid, "model": model, "capability": capability}
        for uuid, (model, _, capability) in zip(UUIDS, MODELS, strict=True)
    ]
    (root / "nvml.json").write_text(json.dumps({"driver": "580.95.05", "gpus": gpus}))
    known = {uuid: (model, arch) for uuid, (model, arch, _) in zip(UUIDS, MODELS, strict=True)}
    (root / soak_child.GPUS).write_text(json.dumps(known))
