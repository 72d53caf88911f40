from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand

from benchapp.tiles.actions import derive_all


class Command(BaseCommand):
    help = "Derive every tile verdict again from its evidence, after the rule changed."

    def handle(self, *args: Any, **options: Any) -> None:
        self.stdout.write(f"{derive_all():,} verdicts derived")
