# ruff: noqa: N999 -- the command is called import
from __future__ import annotations

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.ingest.importers.actions import Outcome, Refusal, claims_of, import_path, import_tables
from benchapp.ingest.importers.base import (
    Claims,
    Importer,
    ImportFault,
    TableImporter,
    plural,
    shown_path,
)
from benchapp.ingest.importers.registry import IMPORTERS

WORDS = {"stored": "stored as document", "known": "known already as document", "new": "would be stored"}


class Command(BaseCommand):
    help = (
        "Import what other tools found out about tiles, or measured. The same content again changes nothing."
    )

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> Any:
        formats = "\n".join(f"  {importer.name:22}{importer.about}" for importer in IMPORTERS.values())
        return super().create_parser(
            prog_name,
            subcommand,
            formatter_class=RawDescriptionHelpFormatter,
            epilog=f"formats:\n{formats}\n\nexit status: 0 when every path was taken, 1 when one was not.",
            **kwargs,
        )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("format", choices=IMPORTERS, metavar="FORMAT", help="one of the formats below")
        parser.add_argument("paths", nargs="+", type=Path, metavar="PATH")
        parser.add_argument("--gpu", help="the GPU or architecture, where the file names none: sm120 …")
        parser.add_argument(
            "--stack",
            nargs="+",
            action="extend",
            default=[],
            metavar="K=V",
            help="versions: flashinfer=0.6.3 …",
        )
        parser.add_argument("--inputs", help="input types, where the file names none (default nvfp4xnvfp4)")
        parser.add_argument("--output", help="output type, where the file names none (default bf16)")
        parser.add_argument(
            "--dry-run", action="store_true", help="say what would be stored, and store nothing"
        )
        parser.add_argument("--json", action="store_true", help="one JSON object on standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            claims = claims_of(
                gpu=options["gpu"], stack=options["stack"], inputs=options["inputs"], output=options["output"]
            )
        except ImportFault as fault:
            raise CommandError(f"{fault}.") from None
        results: list[dict[str, Any]] = []
        for path in options["paths"]:
            for outcome in _outcomes(IMPORTERS[options["format"]], path, claims, options["dry_run"]):
                if isinstance(outcome, Refusal):
                    results.append({"path": outcome.path, "state": "refused", "error": f"{outcome.fault}."})
                    said, stream = f"{outcome.path}: {outcome.fault}.", self.stderr
                else:
                    results.append(_facts(outcome))
                    said, stream = f"{outcome.path}: {_sentence(outcome)}", self.stdout
                if not options["json"]:
                    stream.write(said)
        refused = sum(result["state"] == "refused" for result in results)
        if options["json"]:
            self.stdout.write(json.dumps({"format": options["format"], "results": results}, indent=1))
        elif len(results) > 1 and any(result.get("rows") for result in results):
            self.stdout.write(_total(results))
        if refused:
            raise CommandError(f"{refused} of {len(results)} paths were not imported.")


def _outcomes(
    importer: Importer | TableImporter, path: Path, claims: Claims, dry_run: bool
) -> Iterator[Outcome | Refusal]:
    try:
        if isinstance(importer, Importer):
            yield import_path(importer, path, claims, dry_run=dry_run)
        else:
            yield from import_tables(importer, path, claims, dry_run=dry_run)
    except ImportFault as fault:
        yield Refusal(shown_path(path), fault)


def _total(results: list[dict[str, Any]]) -> str:
    """All tables together, those known already included."""
    rows = [result["rows"] for result in results if result.get("rows")]
    read, stored, repeated = (sum(row[name] for row in rows) for name in ("rows", "stored", "repeated"))
    left_out = sum(count for row in rows for count in row["left_out"].values())
    return (
        f"{plural(len(rows), 'table')}: {plural(read, 'row')} read = {stored:,} stored"
        f" + {repeated:,} repeated + {left_out:,} left out."
    )


def _facts(outcome: Outcome) -> dict[str, Any]:
    return {
        "path": outcome.path,
        "state": outcome.state,
        "document": outcome.document,
        "release": outcome.release,
        "arch": outcome.arch,
        "findings": [
            {"stage": stage, "passed": passed, "count": count}
            for (stage, passed), count in outcome.findings.items()
        ],
        "notes": list(outcome.notes),
        **({"rows": outcome.rows} if outcome.rows else {}),
    }


def _sentence(outcome: Outcome) -> str:
    state = WORDS[outcome.state] + (f" {outcome.document}" if outcome.document else "")
    found = ", ".join(
        f"{count:,} {stage} {'passed' if passed else 'failed'}"
        for (stage, passed), count in outcome.findings.items()
    )
    said = f"{state}, {outcome.release} on {outcome.arch}{f': {found}' if found else ''}."
    return " ".join([said, *outcome.notes])
