"""Bounds on how many installations a host reports for."""

from importlib import import_module

from django.db import migrations

apply = import_module("benchapp.fleet.migrations.0002_worker_api").apply


class Migration(migrations.Migration):
    dependencies = [("fleet", "0002_worker_api"), ("runs", "0007_worker_api_bounds")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop, elidable=False)]
