from __future__ import annotations

import tempfile
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.runs.models import Job
from benchapp.runs.requests import SWEEP_PRIORITY, request_survey
from benchapp.tiles.models import Listing
from workers.bench.document import BenchError
from workers.bench.tiles import coverage, pip
from workers.bench.tiles.arches import ARCHES

WHEEL = "flashinfer-python"


class Command(BaseCommand):
    help = (
        "Ask for the tile surveys that are missing: every FlashInfer release with a wheel on SM120 and "
        "SM121, the newest of each minor elsewhere. They are done in the background, newest first."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "--arch", action="append", choices=sorted(ARCHES), help="may be given again (default: sm120)"
        )
        parser.add_argument("--again", action="store_true", help="those that were surveyed before too")
        parser.add_argument("--dry-run", action="store_true", help="say what is missing, ask for nothing")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            with tempfile.TemporaryDirectory() as scratch:
                offered = pip.wheels(WHEEL, Path(scratch))
        except BenchError as error:
            raise CommandError(error.sentence) from None
        for arch in options["arch"] or ["sm120"]:
            due = coverage.due(offered, arch)
            known = set() if options["again"] else _read(arch)
            missing = [version for version in due if version not in known]
            if not options["dry_run"]:
                for version in missing:
                    request_survey(
                        version, arch, user=None, source=Job.Source.COMMAND, priority=SWEEP_PRIORITY
                    )
            did = "missing" if options["dry_run"] else "asked for"
            named = f": {' '.join(missing)}" if missing else ""
            self.stdout.write(f"{arch}: {len(due)} releases, {len(missing)} {did}{named}")


def _read(arch: str) -> set[str]:
    """Releases whose lists a survey has read on `arch`."""
    listed = Listing.objects.filter(arch=arch, release__package="flashinfer")
    return set(listed.values_list("release__version", flat=True).distinct())
