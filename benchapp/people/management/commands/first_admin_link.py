"""`manage.py first_admin_link`: how the first admin gets in."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandParser
from django.urls import reverse

from benchapp.people import actions


class Command(BaseCommand):
    help = (
        "Print a one-time link by which the first admin chooses a name and password. It lives for 24 hours "
        "and replaces the links printed before. Prints no link once an admin exists, and says so."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--base-url", default="", help="such as https://bench.example.org; else a path")

    def handle(self, *args: Any, base_url: str, **options: Any) -> None:
        secret = actions.make_first_admin_link()
        if secret is None:
            self.stderr.write("There is an administrator already; further links are made on /people/.")
        else:
            self.stdout.write(base_url.rstrip("/") + reverse("people:setup", args=[secret]))
