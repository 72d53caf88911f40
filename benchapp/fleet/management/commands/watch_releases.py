from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.fleet import releases


class Command(BaseCommand):
    help = "Ask pip's index for new releases now, as the control worker does every hour."

    def handle(self, *args: Any, **options: Any) -> None:
        for row in releases.watch():
            asked = ""
            if row.job_id:
                asked = f", survey asked for as job {row.job_id}"
            self.stdout.write(f"new: {row.package} {row.version}{asked}")
        away = releases.away_since()
        if away is not None:
            raise CommandError(away.sentence)
        for package in releases.PACKAGES:
            self.stdout.write(f"{package.name}: {releases.known(package)} versions seen")
