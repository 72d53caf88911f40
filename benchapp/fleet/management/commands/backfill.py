from __future__ import annotations

import datetime as dt
from argparse import ArgumentParser, ArgumentTypeError
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from benchapp.fleet import backfill
from benchapp.fleet.models import Schedule
from benchapp.fleet.schedule_forms import AskField
from benchapp.runs.actions import Asked


class Command(BaseCommand):
    help = (
        "Ask for what has no data yet: an ask's versions and targets, or a schedule's due times in a window. "
        "Asking again asks only for what is still missing."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--ask", metavar="LINK", help="a link of the trigger page, or what follows its ?")
        which.add_argument("--schedule", metavar="NAME", help="a schedule, with --from and --to")
        parser.add_argument("--since", metavar="VERSION", help="with --ask: every release from this one on")
        parser.add_argument("--from", dest="start", type=_moment, metavar="DATE", help="UTC: 2026-11-16")
        parser.add_argument("--to", dest="end", type=_moment, metavar="DATE", help="UTC, exclusive")
        parser.add_argument("--dry-run", action="store_true", help="say what is missing, ask for nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            if options["ask"]:
                self._ask(options)
            else:
                self._schedule(options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None

    def _ask(self, options: dict[str, Any]) -> None:
        ask = AskField().clean(options["ask"])
        if options["since"]:
            ask = backfill.since(ask, options["since"])
        items = backfill.items(ask)
        for item in items:
            self.stdout.write(str(item))
        if not options["dry_run"]:
            self._told(backfill.fill(ask, items, user=None))

    def _schedule(self, options: dict[str, Any]) -> None:
        schedule = Schedule.objects.filter(name=options["schedule"]).first()
        if schedule is None:
            raise CommandError(f"There is no schedule called {options['schedule'][:100]!r}.")
        if options["start"] is None or options["end"] is None:
            raise CommandError("--schedule needs a window: expected --from and --to.")
        gaps = backfill.gaps(schedule, options["start"], options["end"])
        for gap in gaps:
            due = ", ".join(f"{moment:%Y-%m-%d %H:%M}" for moment in gap.due)
            self.stdout.write(f"{gap.ask}: no data of {due} UTC")
        if not options["dry_run"]:
            self._told(backfill.fill_gaps(schedule, gaps, user=None))

    def _told(self, asked: list[Asked]) -> None:
        for each in asked:
            new = sum(created for _, created in each.runs)
            self.stdout.write(f"asked for as job {each.job.pk}: {new} new of {len(each.runs)} runs")
        if not asked:
            self.stdout.write("nothing is missing that is not under way")


def _moment(text: str) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        raise ArgumentTypeError(f"{text!r} is no date; expected one such as 2026-11-16") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
