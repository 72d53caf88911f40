from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.fleet import asks, plan_words, planning
from benchapp.fleet.ask_fields import FOREIGN, TIMERS
from benchapp.fleet.ask_kinds import WHAT
from benchapp.fleet.model_asks import PHASES
from benchapp.people.models import Role, User
from benchapp.runs.models import Job, Run, State
from benchapp.runs.requests import LIBRARIES
from benchapp.runs.watch import wait_for
from workers.bench.suites.models import CONTEXT

#: Options → fields of an ask.
FIELDS = {
    "what": "what",
    "version": "versions",
    "target": "targets",
    "library": "library",
    "suite": "suite",
    "case": "cases",
    "time_limit_s": "time_limit_s",
    "foreign": "foreign",
    "processes": "processes",
    "case_timeout_s": "case_timeout_s",
    "timer": "timer",
    "backend": "backends",
    "model": "models",
    "phase": "phases",
    "batch": "batches",
    "context": "contexts",
    "tp": "tp",
    "ep": "ep",
    "layers": "layers",
}


class Command(BaseCommand):
    help = "Ask for work, as the page /trigger/ does: runs of each version on each target, as one job."

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # --version is of what is measured here, not Django's
        return super().create_parser(prog_name, subcommand, conflict_handler="resolve", **kwargs)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--what", required=True, choices=list(WHAT))
        parser.add_argument(
            "--version",
            action="append",
            required=True,
            metavar="VERSION",
            help="of FlashInfer, or of the library of a gemm or moe; newest: the newest known; may be given "
            "again",
        )
        parser.add_argument(
            "--target",
            action="append",
            required=True,
            metavar="TARGET",
            help="arch:sm120 for tiles; cpu, cpu:INSTALLATION, gpu:UUID, model:nvidia-h200, gpuarch:sm90 or "
            "gang:UUID+UUID for gemm and moe; may be given again",
        )
        parser.add_argument(
            "--library", choices=list(LIBRARIES), help="what a gemm or moe measures (default torch)"
        )
        parser.add_argument("--suite", metavar="NAME", help="a named list of cases")
        parser.add_argument(
            "--case",
            action="append",
            metavar="CASE",
            help="16x4096x7168:bf16 or rmsnorm:tokens=64,hidden=7168,dtype=bf16; of the suite, or without a "
            "suite any; may be given again",
        )
        parser.add_argument("--time-limit-s", metavar="S", help="of each run")
        parser.add_argument("--foreign", choices=FOREIGN, help="beside another program on the GPU")
        parser.add_argument(
            "--processes", metavar="N", help="fresh processes that measure each case, 1 to 10"
        )
        parser.add_argument("--case-timeout-s", metavar="S", help="of each case, 10 to 3600")
        parser.add_argument("--timer", choices=TIMERS, help="of GPU time (default auto, the best there is)")
        parser.add_argument(
            "--backend", action="append", metavar="NAME", help="measure only this; may be given again"
        )
        models = parser.add_argument_group(
            "whole models, for moe: each phase of each model at each batch and context, instead of a suite"
        )
        models.add_argument("--model", action="append", metavar="NAME", help="may be given again")
        models.add_argument("--phase", action="append", choices=PHASES, help="default decode")
        models.add_argument("--batch", action="append", metavar="N", help="sequences of all GPUs together")
        models.add_argument("--context", action="append", metavar="N", help=f"tokens (default {CONTEXT})")
        models.add_argument("--tp", metavar="N", help="GPUs that attention and each expert are split over")
        models.add_argument("--ep", metavar="N", help="groups of GPUs that the experts are split over")
        models.add_argument("--layers", metavar="N", help="only so many of a model's first layers")
        parser.add_argument("--dry-run", action="store_true", help="say what would happen, ask for nothing")
        parser.add_argument("--wait", action="store_true", help="wait until every run has ended")
        parser.add_argument(
            "--as", dest="user", metavar="USER", help="the person who asks; needs the role operator"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        user = _person(options["user"])
        data = {field: options[option] for option, field in FIELDS.items() if options[option] is not None}
        try:
            ask = asks.clean(data)
            if options["dry_run"]:
                self._tell(planning.plan(ask, source=Job.Source.COMMAND))
                return
            asked = asks.request(ask, user=user, source=Job.Source.COMMAND)
        except ValidationError as error:
            raise CommandError(_named(error)) from None
        for run, created in asked.runs:
            self.stdout.write(f"{'queued as' if created else 'already under way as'} run {run.pk}")
        if options["wait"]:
            self._wait([run for run, _ in asked.runs])

    def _tell(self, plan: planning.Plan) -> None:
        said = [plan_words.headline(plan), plan_words.expected(plan), *plan_words.environments(plan)]
        said += [*plan.memory, *plan.warnings, *(f"  {line}" for line in plan_words.runs(plan))]
        self.stdout.write("\n".join(line for line in said if line))

    def _wait(self, runs: list[Run]) -> None:
        failed = []
        for run in runs:
            ended = wait_for(run, self.stderr.write)
            self.stdout.write(f"run {ended.pk} {ended.state}{': ' if ended.failure else ''}{ended.failure}")
            if ended.state != State.DONE:
                failed.append(ended.pk)
        if failed:
            raise CommandError(f"not done: run {', '.join(map(str, failed))}")


def _person(name: str | None) -> User | None:
    """Whoever asks, who needs the role that the page demands. None: the command itself."""
    if name is None:
        return None
    user = User.objects.filter(username=name).first()
    if user is None:
        raise CommandError(f"--as: nobody here is called {name[:60]!r}.")
    if not user.may(Role.OPERATOR):
        raise CommandError(f"--as: this needs the role {Role.OPERATOR}; {name} is {user.effective_role}.")
    return user


def _named(error: ValidationError) -> str:
    """Each fault behind the option that it is of."""
    options = {field: f"--{option.replace('_', '-')}" for option, field in FIELDS.items()}
    return " ".join(
        f"{options.get(field, field)}: {' '.join(said)}" for field, said in error.message_dict.items()
    )
