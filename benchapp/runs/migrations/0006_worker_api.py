"""The functions through which workers reach the database, and the legal moves of a run.

Whoever changes `worker_api.sql` adds a migration like this one.
"""

from django.db import migrations

from benchapp.runs.worker_api import apply


class Migration(migrations.Migration):
    dependencies = [("runs", "0005_fleet"), ("catalog", "0001_initial")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop, elidable=False)]
