from django.apps import AppConfig


class AlertsConfig(AppConfig):
    name = "benchapp.alerts"

    def ready(self) -> None:
        from benchapp.alerts import receivers, tasks  # noqa: F401  (registers)
