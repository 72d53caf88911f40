from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from benchapp.runs.models import Job, Run
from benchapp.runs.requests import request_survey
from benchapp.tiles.management.asking import AskingCommand


class Command(AskingCommand):
    help = "Survey which CUTLASS tiles of a FlashInfer version fit an architecture. Needs no GPU."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--tier",
            choices=["types", "full"],
            default="types",
            help="full: compile the bodies of what fits too, in the background (default: %(default)s)",
        )

    def request(self, options: dict[str, Any]) -> tuple[Run, bool]:
        return request_survey(
            options["flashinfer"],
            options["arch"],
            user=None,
            source=Job.Source.COMMAND,
            tier=options["tier"],
        )
