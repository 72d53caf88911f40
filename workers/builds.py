"""Runs of kind *build*: the environment of a recipe, made on this host."""

from __future__ import annotations

from pathlib import Path

from benchapp.catalog.digests import recipe_words
from benchapp.runs.work import Claim
from workers import child, environments, lease
from workers.commands import child_environment
from workers.failure import Failure
from workers.ticker import Ticker

TIMEOUT_S = 3600.0
TAIL_BYTES = 8192


def build(run: Claim, folder: Path, ticker: Ticker) -> None:
    """Build the environment of the run's recipe where it is not there. Raises Failure, EndedError."""
    root = environments.root()
    if environments.python_of(environments.location(root, run.versions)).exists():
        return
    try:
        command = environments.build_command(root, run.versions)
    except environments.RecipeError as error:
        raise Failure("bad_recipe", str(error)) from None
    what = f"the environment of {recipe_words(run.versions)}"
    try:
        with lease.cores(
            alone=False, waiting=lambda: ticker.say("waiting for the cores: a measurement has them")
        ) as held:
            ticker.say(f"building {what}")
            child.run(
                command,
                folder=folder,
                timeout_s=run.time_limit_s or TIMEOUT_S,
                tick=lambda _, log: ticker(None, log),
                extra_environment=child_environment(folder),
                leases=(held,),
            )
    except Failure as failure:
        reason = failure.sentence
        if failure.code == "crashed":
            reason = _last_words(folder / "log") or reason
        raise Failure("environment", f"{what[0].upper()}{what[1:]} could not be built: {reason}") from None


def _last_words(log: Path) -> str:
    """pip's last error that says what is wrong, else the last that was printed."""
    with log.open("rb") as source:
        source.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = source.read().decode("utf-8", "replace").splitlines()
    said = [line.strip() for line in lines if line.strip()]
    useless = "ERROR: ResolutionImpossible: for help"
    errors = [line for line in said if line.startswith("ERROR:") and not line.startswith(useless)]
    return (errors or said or [""])[-1].removeprefix("ERROR:").strip()[:400]
