"""Bounds on what a worker says of its leases, its failure and its document."""

from django.db import migrations

from benchapp.runs.worker_api import apply


class Migration(migrations.Migration):
    dependencies = [("runs", "0006_worker_api")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop, elidable=False)]
