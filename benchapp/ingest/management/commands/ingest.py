from __future__ import annotations

from argparse import ArgumentParser
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.ingest.actions import Unreadable, ingest_again, ingest_file, printable
from benchapp.runs.models import Document


class Command(BaseCommand):
    help = "Take result documents into the database. The same file again changes nothing."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("files", nargs="*", type=Path, metavar="FILE")
        parser.add_argument("--again", action="store_true", help="try every rejected document once more")

    def handle(self, *args: Any, **options: Any) -> None:
        if bool(options["files"]) == options["again"]:
            raise CommandError("Name files to take in, or --again for the rejected documents.")
        tried = refused = 0
        for name, outcome in self._again() if options["again"] else self._files(options["files"]):
            tried += 1
            if isinstance(outcome, str):
                refused += 1
                self.stderr.write(outcome)
            else:
                self.stdout.write(f"{name}: document {outcome.pk}, {outcome.facts['summary']}")
        if refused:
            raise CommandError(f"{refused} of {tried} documents were refused.")

    def _files(self, paths: list[Path]) -> Iterator[tuple[str, Document | str]]:
        for path in paths:
            name = printable(str(path))
            try:
                document, now = ingest_file(path, origin=Document.Origin.FILE)
            except Unreadable as error:
                yield name, str(error)
                continue
            if document.state == Document.State.REJECTED:
                yield name, f"{name}: {document.fault}"
            else:
                yield f"{name}{'' if now else ' (known already, nothing changed)'}", document

    def _again(self) -> Iterator[tuple[str, Document | str]]:
        for document_id in Document.objects.filter(state=Document.State.REJECTED).values_list(
            "pk", flat=True
        ):
            document = ingest_again(document_id)
            name = document.name or f"run {document.run_id}"
            if document.state == Document.State.REJECTED:
                yield name, f"{name}: {document.fault}"
            elif document.state == Document.State.ACCEPTED:
                yield name, document
