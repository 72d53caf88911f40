from __future__ import annotations

import sys
from argparse import ArgumentParser
from typing import Any

from django.core.management.base import BaseCommand

from benchapp.local.first_jobs import ask, result_line, take_recorded
from benchapp.runs.models import State
from benchapp.runs.watch import wait_for


class Command(BaseCommand):
    help = "Show the recorded results and ask for the first jobs, once an installation."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--wait", action="store_true", help="wait for them and print one line a job")

    def handle(self, *args: Any, **options: Any) -> None:
        runs = ask()  # first, so that a worker is on its way meanwhile
        take_recorded()
        if not options["wait"]:
            return
        failed = False
        for run in runs:
            run = wait_for(run, self.stderr.write)
            self.stdout.write(result_line(run))
            self.stdout.flush()
            failed |= run.state != State.DONE
        if failed:
            sys.exit(1)
