"""`manage.py workerrole`: the Postgres role of a GPU host's workers."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.fleet import roles


class Command(BaseCommand):
    help = "Make, renew, shut or list the Postgres roles of GPU hosts."

    def add_arguments(self, parser: CommandParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        for name, does in (("make", "give a host its role"), ("rotate", "give its role a new password")):
            command = actions.add_parser(name, help=does)
            command.add_argument("host", help="its name, as `hostname` prints it there")
            command.add_argument("--days", type=int, default=90, help="until it expires (default: 90)")
            command.add_argument(
                "--server", default="", help="HOST:PORT of the database as that host reaches it"
            )
        actions.add_parser("revoke", help="shut a host out").add_argument("host")
        actions.add_parser("list", help="who has one, and until when")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            if action == "list":
                self._list()
            elif action == "revoke":
                ended = roles.revoke(options["host"])
                self.stdout.write(f"{options['host']} is shut out; {ended} of its connections were ended.")
            else:
                change = roles.make if action == "make" else roles.rotate
                made = change(options["host"], options["days"], options["server"])
                self._show(options["host"], made)
        except roles.RoleError as refusal:
            raise CommandError(str(refusal)) from refusal

    def _show(self, host: str, made: roles.Credentials) -> None:
        self.stdout.write(f"DATABASE_URL={made.url}")
        self.stderr.write(
            f"Shown once; valid until {made.expires_at:%Y-%m-%d %H:%M} UTC. The workers of {host} need "
            "it and REDIS_URL, which is the same for every host."
        )

    def _list(self) -> None:
        for one in roles.standings():
            until = f"{one.role.expires_at:%Y-%m-%d}" if one.role.expires_at else "for ever"
            self.stdout.write(
                f"{one.role.host}\t{one.state}\tuntil {until}\t{one.connections} connections\t{one.role.role}"
            )
