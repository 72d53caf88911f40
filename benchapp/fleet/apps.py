from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class FleetConfig(AppConfig):
    name = "benchapp.fleet"

    def ready(self) -> None:
        from benchapp.fleet import receivers  # noqa: F401  (registers)

        post_migrate.connect(_grant, sender=self)


def _grant(**kwargs: Any) -> None:
    from benchapp.fleet.grants import apply_grants

    apply_grants()
