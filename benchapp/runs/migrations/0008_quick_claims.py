"""A claim takes no longer as ended runs gather."""

from django.db import migrations

from benchapp.runs.worker_api import apply


class Migration(migrations.Migration):
    dependencies = [("runs", "0007_worker_api_bounds")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop, elidable=False)]
