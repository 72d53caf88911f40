"""The Celery application. `benchapp` sends bench work by task name and never imports `workers.tasks`."""

import os

from celery import Celery

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings.local")

app = Celery("tilewatch")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(
    ["benchapp.runs", "benchapp.ingest", "benchapp.fleet", "benchapp.alerts", "benchapp.alerts.kinds"]
)
