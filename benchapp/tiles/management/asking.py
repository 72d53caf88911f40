"""What commands that ask for a run on an architecture have in common."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.core.management.base import BaseCommand, CommandError

from benchapp.runs.models import Document, Run, State
from benchapp.runs.watch import wait_for


class AskingCommand(BaseCommand):
    """Subclasses say what to ask for."""

    def request(self, options: dict[str, Any]) -> tuple[Run, bool]:
        """Ask for the run. Returns (run, created); may raise ValidationError."""
        raise NotImplementedError

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--flashinfer", required=True, metavar="VERSION")
        parser.add_argument("--arch", required=True, help="sm120, sm121 …")
        parser.add_argument(
            "--wait", action="store_true", help="wait until the run has ended and say what it found"
        )
        parser.add_argument(
            "--json", metavar="FILE", help="wait, and write the document there (- for standard output)"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["json"] and options["json"] != "-":
            folder = Path(options["json"]).absolute().parent
            if not (folder.is_dir() and os.access(folder, os.W_OK)):
                raise CommandError(f"--json {options['json']}: {folder} is no folder that can be written to.")
        try:
            run, created = self.request(options)
        except ValidationError as error:
            raise CommandError(" ".join(error.messages)) from None
        said = sys.stderr if options["json"] == "-" else sys.stdout
        said.write(f"{'queued as' if created else 'already under way as'} run {run.pk}\n")
        if not (options["wait"] or options["json"]):
            return
        run = wait_for(run, self.stderr.write)
        if run.state != State.DONE:
            raise CommandError(run.failure or f"run {run.pk} was {run.state}")
        document = run.documents.get(state=Document.State.ACCEPTED)
        said.write(document.facts["summary"] + "\n")
        if options["json"] == "-":
            sys.stdout.write(json.dumps(json.loads(bytes(document.body)), indent=1) + "\n")
        elif options["json"]:
            Path(options["json"]).write_bytes(bytes(document.body))
