"""Runs of kind *build*: the environment of a recipe, made on this host."""

from __future__ import annotations

from pathlib import Path

from benchapp.catalog.digests import recipe_words
from benchapp.runs.work import Claim
from workers import candidates, child, environments, gpus, lease
from workers.commands import child_environment
from workers.failure import Failure
from workers.identity import Identity
from workers.ticker import Ticker

TIMEOUT_S = 3600.0
#: With JIT modules: SM120's take some twenty minutes of one core each.
MODULES_TIMEOUT_S = 6 * 3600.0
TAIL_BYTES = 8192


def build(run: Claim, folder: Path, me: Identity, ticker: Ticker) -> Path | None:
    """Build the environment of the run's recipe where it is not there. Raises Failure, EndedError.

    Returns the document of its JIT modules; None where it has none, or they were built before.
    """
    root = environments.root()
    if environments.whole(environments.location(root, run.versions)):
        return None
    document, progress = folder / "document.json", folder / "progress"
    arches = _arches() if "flashinfer" in run.versions else ()
    try:
        command = environments.build_command(root, run.versions, arches, document)
    except environments.RecipeError as error:
        raise Failure("bad_recipe", str(error)) from None
    what = f"the environment of {recipe_words(run.versions)}"
    try:
        with lease.cores(
            alone=False, waiting=lambda: ticker.say("waiting for the cores: a measurement has them")
        ) as held:
            ticker.say(f"building {what}")
            if (wheel := candidates.wheel_of(run, me)) is not None:
                links = candidates.for_pip(wheel, run.versions["flashinfer"], folder / "links").parent
                command += ["--links", str(links)]
            child.run(
                [*command, "--progress", str(progress), "--host", me.host],
                folder=folder,
                timeout_s=run.time_limit_s or (MODULES_TIMEOUT_S if arches else TIMEOUT_S),
                tick=ticker,
                extra_environment=child_environment(folder),
                leases=(held,),
                progress=progress,
            )
    except Failure as failure:
        reason = failure.sentence
        if failure.code == "crashed":
            reason = _last_words(folder / "log") or reason
        raise Failure("environment", f"{what[0].upper()}{what[1:]} could not be built: {reason}") from None
    return document if document.exists() else None


def _arches() -> tuple[str, ...]:
    """Of this host's GPUs, as NVML tells them; empty where it has none."""
    return tuple(sorted({gpu["arch"] for gpu in gpus.ask()["gpus"] if gpu["arch"]}))


def _last_words(log: Path) -> str:
    """pip's last error that says what is wrong, else the last that was printed."""
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = source.read().decode("utf-8", "replace").splitlines()
    said = [line.strip() for line in lines if line.strip()]
    useless = "ERROR: ResolutionImpossible: for help"
    errors = [line for line in said if line.startswith("ERROR:") and not line.startswith(useless)]
    return (errors or said or [""])[-1].removeprefix("ERROR:").strip()[:400]
