"""What a bisect found, in a sentence. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from benchapp.alerts.confirm_words import factor
from benchapp.alerts.models import Bisect, BisectStep
from workers.bench.confirm.bisect import Found, Nothing, Undecided

State = Bisect.State


def outcome(
    component: str, versions: Sequence[str], found: Found | Undecided | Nothing, steps: Sequence[BisectStep]
) -> tuple[State, str, str]:
    """(state, sentence, first bad version or "")."""
    first, last = versions[0], versions[-1]
    if isinstance(found, Nothing):
        if not found.verdict:
            why = next((step.run.failure for step in reversed(steps) if step.run and step.run.failure), "")
            said = f"{component} {last} could not be measured beside {first}."
            return State.FAILED, f"{said} {why}".strip(), ""
        said = f"{component} {last} against {first}: {found.verdict}{_factor(steps, first, last)}"
        return State.UNDECIDED, f"{said}. There is no such change to find.", ""
    good, bad = versions[found.last_good], versions[found.first_bad]
    skipped = [step.new_version for step in steps if not step.verdict]
    if isinstance(found, Undecided):
        said = f"It came with {component} {bad} at the latest, and after {good}"
        if found.uncertain is not None:
            unsure = versions[found.uncertain]
            said += f": {unsure} against {first} is uncertain{_factor(steps, first, unsure)}"
        elif skipped:
            said += f": {', '.join(skipped)} could not be measured"
        return State.UNDECIDED, f"{said}.", ""
    final = next((step for step in steps if step.old_version == good and step.new_version == bad), None)
    verdict = final.verdict if final else ""
    wanted = next(step.verdict for step in steps if step.old_version == first and step.new_version == bad)
    if verdict == wanted:
        said = f"First {component} {bad}: {verdict}{_factor(steps, good, bad)} against {good}."
        return State.FOUND, said, bad
    whole = f"{bad} is the first that is {wanted}{_factor(steps, first, bad)} against {first}"
    if not verdict:
        return State.FOUND, f"{component} {whole}; against {good} it could not be measured.", bad
    said = f"{component} {whole}, yet {verdict}{_factor(steps, good, bad)} against {good}"
    return State.UNDECIDED, f"{said}: it came in small steps.", ""


def _factor(steps: Sequence[BisectStep], old: str, new: str) -> str:
    """ " ×1.042 [1.038, 1.046]" of the A/B of two versions, "" where there is none."""
    found = (step.comparison for step in steps if (step.old_version, step.new_version) == (old, new))
    return next((factor(comparison) for comparison in found if comparison is not None), "")
