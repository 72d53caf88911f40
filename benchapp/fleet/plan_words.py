"""A plan in words, for the page and the command alike."""

from __future__ import annotations

import shlex

from benchapp.fleet.asks import Ask
from benchapp.fleet.planning import Plan
from benchapp.fleet.words import count
from benchapp.web.templatetags.units import duration


def headline(plan: Plan) -> str:
    """How many runs, and which of them are there already."""
    new = len(plan.runs) - plan.joined
    if not plan.joined:
        return f"{count(new, 'run')}."
    joined = f"{count(plan.joined, 'equal run')} under way {'is' if plan.joined == 1 else 'are'} joined"
    return f"{count(new, 'new run')}; {joined}." if new else f"Nothing new: {joined}."


def expected(plan: Plan) -> str:
    """Time expected from history; it says how much of it has none. "" where nothing new is asked for."""
    new = len(plan.runs) - plan.joined
    if not new:
        return ""
    seconds = plan.gpu_s if plan.on_gpus else plan.expected_s
    if seconds is None:
        return "No history of such runs: how long they take is not known."
    what = "of GPU time" if plan.on_gpus else "of work"
    has = "has" if plan.unknown == 1 else "have"
    rest = f"; {count(plan.unknown, 'run')} {has} no history" if plan.unknown else ""
    return f"About {duration(seconds)} {what}, from runs that did the same and ended well{rest}."


def environments(plan: Plan) -> list[str]:
    """One sentence an environment."""
    said = []
    for each in plan.environments:
        sentence = f"{each.recipe}:"
        if each.built_on:
            built = "it and its kernels are built first" if each.kernels else "built first"
            sentence += f" {built} on {', '.join(each.built_on)}"
        if each.ready_on:
            sentence += f"{';' if each.built_on else ''} ready on {', '.join(each.ready_on)}"
        if not (each.built_on or each.ready_on):
            sentence += f" built{' with its kernels' * each.kernels} where a worker takes it up"
        said.append(f"{sentence}.")
    return said


def runs(plan: Plan) -> list[str]:
    """One line a run."""
    said = []
    for run in plan.runs:
        took = "no history" if run.expected_s is None else f"about {duration(run.expected_s)}"
        joins = f", joins run {run.joins}" if run.joins else ""
        said.append(f"{run.title} with {run.recipe}: {took}, {run.ahead} ahead{joins}")
    return said


def command(ask: Ask) -> str:
    """The command that asks for the same."""
    words = ["python", "manage.py", "trigger", "--what", ask.what]
    for option, values in (("--version", ask.versions), ("--target", ask.targets)):
        for value in values:
            words += [option, value]
    words += ["--library", ask.library] if ask.library != "torch" else []
    words += ["--suite", ask.suite] if ask.suite else []
    for case in ask.cases:
        words += ["--case", case]
    words += ["--time-limit-s", str(ask.time_limit_s)] if ask.time_limit_s else []
    words += ["--foreign", ask.foreign] if ask.foreign != "refuse" else []
    told = ask.as_json()
    for field, option in (
        ("models", "model"),
        ("phases", "phase"),
        ("batches", "batch"),
        ("contexts", "context"),
        ("tp", "tp"),
        ("ep", "ep"),
        ("layers", "layers"),
    ):
        said = told.get(field, [])
        for value in said if isinstance(said, list) else [said]:
            words += [f"--{option}", str(value)]
    for name, value in ask.options.items():
        each = {"backends": "backend"}.get(name, name).replace("_", "-")
        for said in value if isinstance(value, list) else [value]:
            words += [f"--{each}", str(said)]
    return shlex.join(words)
