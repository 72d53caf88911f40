from __future__ import annotations

from argparse import ArgumentParser
from typing import Any

from benchapp.runs.models import Job, Run
from benchapp.runs.requests import request_exploration
from benchapp.tiles.management.asking import AskingCommand


class Command(AskingCommand):
    help = "Look for tiles that fit an architecture and that no release ships. Needs no GPU."

    def add_arguments(self, parser: ArgumentParser) -> None:
        super().add_arguments(parser)
        parser.add_argument(
            "--full",
            type=int,
            default=0,
            metavar="N",
            help="also compile the N most promising whole, for registers and spills",
        )
        parser.add_argument(
            "--rescue",
            action="store_true",
            help="instead: which of the release's own kernels that overflow fit with one stage less",
        )

    def request(self, options: dict[str, Any]) -> tuple[Run, bool]:
        return request_exploration(
            options["flashinfer"],
            options["arch"],
            user=None,
            source=Job.Source.COMMAND,
            full=options["full"],
            rescue=options["rescue"],
        )
