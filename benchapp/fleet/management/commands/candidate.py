from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from benchapp.fleet import asks, candidates
from benchapp.fleet.models import Candidate
from benchapp.runs.models import Job
from workers.bench.tiles.arches import ARCHES


class Command(BaseCommand):
    help = "Register a wheel or source folder that is no release, a patch under test; list those registered."

    def add_arguments(self, parser: ArgumentParser) -> None:
        commands = parser.add_subparsers(dest="command", required=True, parser_class=type(parser))
        add = commands.add_parser("add", help="register a wheel, or FlashInfer's repository as it lies there")
        add.add_argument("path", type=Path, help="a wheel, a checkout of FlashInfer, or an unpacked wheel")
        add.add_argument("--package", default="flashinfer", help="default: %(default)s")
        add.add_argument("--base", required=True, metavar="VERSION", help="the release it is a patch of")
        add.add_argument("--note", default="", help="what is changed in it")
        add.add_argument(
            "--survey", action="append", choices=list(ARCHES), default=[], metavar="ARCH",
            help="ask for its tile survey too; may be given again",
        )  # fmt: skip
        commands.add_parser("list", help="those registered, newest first")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["command"] == "list":
            for row in Candidate.objects.defer("body"):
                self.stdout.write(f"{row.package} {row.version}  {row.size:,} B  {row.origin}  {row.note}")
            return
        try:
            candidate, created = candidates.register(
                options["path"],
                package=options["package"],
                base=options["base"],
                note=options["note"],
                user=None,
            )
            said = "registered" if created else "known already"
            self.stdout.write(f"{candidate.package} {candidate.version}: {said}, SHA-256 {candidate.sha256}")
            if options["survey"]:
                asked = asks.request(
                    candidates.survey(candidate, options["survey"]), user=None, source=Job.Source.COMMAND
                )
                self.stdout.write(f"queued as job {asked.job.pk}")
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
