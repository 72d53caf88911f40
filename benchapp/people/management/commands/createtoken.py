"""`manage.py createtoken`: an API token without a browser."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.people import actions
from benchapp.people.models import Role, User


class Command(BaseCommand):
    help = "Make an API token and print it, once."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("user", help="name of the owner")
        parser.add_argument("--name", required=True, help="where it will be used, such as a host or a script")
        parser.add_argument(
            "--role", choices=Role.values, default=Role.VIEWER.value, help="the owner's at most"
        )
        parser.add_argument("--days", type=int, default=90, help="until it expires (default: 90)")

    def handle(self, *args: Any, user: str, name: str, role: str, days: int, **options: Any) -> None:
        owner = User.objects.filter(username=user, is_active=True).first()
        if owner is None:
            raise CommandError(f"There is no active person named {user}.")
        if not 0 < len(name) <= 100:
            raise CommandError(f"--name: expected 1 to 100 characters, not {len(name)}.")
        try:
            _, secret = actions.add_token(None, owner, name, Role(role), days)
        except actions.PeopleError as refusal:
            raise CommandError(str(refusal)) from refusal
        self.stdout.write(secret)
