from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.ingest.actions import Unreadable, ingest_file
from benchapp.runs.models import Document


class Command(BaseCommand):
    help = "Take result documents into the database. The same file again changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        refused = 0
        for path in options["files"]:
            try:
                document, new = ingest_file(path, origin=Document.Origin.FILE)
            except Unreadable as error:
                self.stderr.write(str(error))
                refused += 1
                continue
            if document.state == Document.State.REJECTED:
                self.stderr.write(f"{path}: {document.fault}")
                refused += 1
            elif not new:
                self.stdout.write(f"{path}: known already as document {document.pk}, nothing changed")
            else:
                self.stdout.write(f"{path}: document {document.pk}, {document.facts['summary']}")
        if refused:
            raise CommandError(f"{refused} of {len(options['files'])} files were refused.")
