from __future__ import annotations

from typing import Any

from benchapp.runs.models import Job, Run
from benchapp.runs.requests import request_exploration
from benchapp.tiles.management.asking import AskingCommand


class Command(AskingCommand):
    help = "Look for tiles that fit an architecture and that no release ships. Needs no GPU."

    def request(self, options: dict[str, Any]) -> tuple[Run, bool]:
        return request_exploration(
            options["flashinfer"], options["arch"], user=None, source=Job.Source.COMMAND
        )
