# ruff: noqa: N999 -- the command is called import
from __future__ import annotations

import json
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.ingest.importers.actions import Outcome, claims_of, import_path
from benchapp.ingest.importers.base import ImportFault, shown_path
from benchapp.ingest.importers.registry import IMPORTERS

WORDS = {"stored": "stored as document", "known": "known already as document", "new": "would be stored"}


class Command(BaseCommand):
    help = "Import what other tools found out about tiles. The same content again changes nothing."

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
            name = shown_path(path)
            try:
                outcome = import_path(IMPORTERS[options["format"]], path, claims, dry_run=options["dry_run"])
            except ImportFault as fault:
                results.append({"path": name, "state": "refused", "error": f"{fault}."})
                if not options["json"]:
                    self.stderr.write(f"{name}: {fault}.")
                continue
            results.append(_facts(outcome))
            if not options["json"]:
                self.stdout.write(f"{outcome.path}: {_sentence(outcome)}")
        refused = sum(result["state"] == "refused" for result in results)
        if options["json"]:
            self.stdout.write(json.dumps({"format": options["format"], "results": results}, indent=1))
        if refused:
            raise CommandError(f"{refused} of {len(results)} paths were not imported.")


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
    }


def _sentence(outcome: Outcome) -> str:
    state = WORDS[outcome.state] + (f" {outcome.document}" if outcome.document else "")
    found = ", ".join(
        f"{count:,} {stage} {'passed' if passed else 'failed'}"
        for (stage, passed), count in outcome.findings.items()
    )
    return " ".join([f"{state}, {outcome.release} on {outcome.arch}: {found}.", *outcome.notes])
