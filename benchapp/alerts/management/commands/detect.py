from __future__ import annotations

import time
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.alerts import replay, watching
from benchapp.alerts.models import Alert, Change, Watch

#: Alerts of the table.
SHOWN = 10


class Command(BaseCommand):
    help = "Look for changes now: in the series that wait for it, in all that are stored, or in one."

    def add_arguments(self, parser: ArgumentParser) -> None:
        which = parser.add_mutually_exclusive_group()
        which.add_argument("--all", action="store_true", help="every series with two observations or more")
        which.add_argument("--series", type=int, metavar="ID", help="one series, by its number")
        parser.add_argument(
            "--reset",
            action="store_true",
            help="forget first what was found, but for alerts that a person has touched",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        began = time.monotonic()
        try:
            changes, alerts = replay.ask(
                every=options["all"], series_id=options["series"], reset=options["reset"]
            )
        except ValueError as error:
            raise CommandError(str(error)) from None
        if options["reset"]:
            self.stdout.write(f"Forgotten: {changes:,} changes, {alerts:,} alerts.")
        looked = watching.look_at_all(None if options["series"] is None else [options["series"]])
        failed = Watch.objects.exclude(failure="").count()
        live = Change.objects.filter(gone_at=None)
        opened = Alert.objects.filter(closed_at=None)
        self.stdout.write(
            f"Looked at {looked:,} series in {time.monotonic() - began:.1f} s. There are "
            f"{live.count():,} changes, {live.filter(certain=True).count():,} of them certain, and "
            f"{opened.count():,} open alerts, {opened.filter(worse=True).count():,} of something worse."
            + (f" {failed:,} series could not be looked at." if failed else "")
        )
        rows = opened.order_by("-cost", "pk")[:SHOWN]
        if rows:
            self.stdout.write("\n| cost | kind | ratio | confidence | alert |\n|---|---|---|---|---|")
        for alert in rows:
            ratio = "" if alert.ratio is None else f"×{alert.ratio:.3g}"
            sure = f"{alert.confidence:.2f}, {'certain' if alert.certain else 'uncertain'}"
            self.stdout.write(f"| {alert.cost:.3g} | {alert.kind} | {ratio} | {sure} | {alert.title} |")
