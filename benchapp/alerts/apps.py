from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "benchapp.alerts"

    def ready(self) -> None:
        from benchapp.alerts import (  # noqa: F401  (registers)
            confirm_receivers,
            confirm_tasks,
            notify_receivers,
            notify_tasks,
            receivers,
            tasks,
        )
