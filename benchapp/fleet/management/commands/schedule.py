from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError
from django.forms.utils import ErrorDict

from benchapp.fleet import schedule_queries, schedules
from benchapp.fleet.models import Schedule
from benchapp.fleet.schedule_forms import ScheduleForm


class Command(BaseCommand):
    help = "Work that is asked for again and again: add, list, pause, resume, run now."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, parser_class=type(parser))
        add = commands.add_parser("add", help="a new schedule")
        add.add_argument("name")
        add.add_argument(
            "--ask", required=True, metavar="LINK", help="a link of the trigger page, or what follows its ?"
        )
        when = add.add_mutually_exclusive_group(required=True)
        when.add_argument("--cron", default="", help="minute, hour, day of month, month, day of week")
        when.add_argument("--every-minutes", type=int, metavar="N", help="an interval instead")
        add.add_argument("--timezone", default="UTC", help="of the cron expression (default: %(default)s)")
        add.add_argument(
            "--missed",
            choices=Schedule.Missed.values,
            default="run",
            help="what becomes of times missed while Tilewatch was down (default: %(default)s)",
        )
        add.add_argument("--overlap", action="store_true", help="ask even while the one before still runs")
        commands.add_parser("list", help="each with its next due time and what became of its last")
        for command, does in (
            ("pause", "due no more"),
            ("resume", "due again from now on"),
            ("run", "ask now, beside its due times"),
        ):
            commands.add_parser(command, help=does).add_argument("name")

    def handle(self, *args: Any, **options: Any) -> None:
        command = options["command"]
        if command == "add":
            self._add(options)
        elif command == "list":
            self._list()
        else:
            self._act(command, options["name"])

    def _add(self, options: dict[str, Any]) -> None:
        form = ScheduleForm(
            {
                "name": options["name"],
                "ask": options["ask"],
                "cron": options["cron"],
                "every": options["every_minutes"],
                "unit": "60",
                "timezone": options["timezone"],
                "missed": options["missed"],
                "skip_if_running": not options["overlap"],
            }
        )
        if not form.is_valid():
            raise CommandError(_said(form.errors))
        schedule = schedules.add(form.fields_of_schedule(), None)
        self.stdout.write(
            f"{schedule.name}: {schedules.times(schedule).in_words()}, "
            f"next due {schedule.next_due:%Y-%m-%d %H:%M} UTC"
        )

    def _list(self) -> None:
        for row in schedule_queries.rows():
            due = "paused" if row.schedule.paused_at else ", ".join(each.wall for each in row.upcoming)
            last = row.last
            told = f"; last {last.firing.due_at:%Y-%m-%d %H:%M} UTC: " if last else ""
            if last:
                told += last.job.words if last.job else last.firing.get_outcome_display()
            self.stdout.write(f"{row.schedule.name}: {row.ask or 'cannot be read'}. {row.when}: {due}{told}")

    def _act(self, command: str, name: str) -> None:
        schedule = Schedule.objects.filter(name=name).first()
        if schedule is None:
            raise CommandError(f"There is no schedule called {name[:100]!r}.")
        if command == "run":
            try:
                firing = schedules.run_now(schedule, None)
            except ValidationError as error:
                raise CommandError(" ".join(error.messages)) from None
            self.stdout.write(firing.sentence or f"asked for as job {firing.job_id}")
        elif command == "pause":
            self.stdout.write("paused" if schedules.pause(schedule, None) else "was paused already")
        else:
            self.stdout.write("resumed" if schedules.resume(schedule, None) else "was not paused")


def _said(errors: ErrorDict) -> str:
    return " ".join(f"{field}: {' '.join(map(str, said))}" for field, said in errors.items())
