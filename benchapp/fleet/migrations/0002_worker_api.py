"""The functions through which workers report and fetch candidates."""

from pathlib import Path

from django.db import migrations
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.state import StateApps

SQL = Path(__file__).parents[1] / "worker_api.sql"


def apply(apps: StateApps, editor: BaseDatabaseSchemaEditor) -> None:
    editor.execute(SQL.read_text(encoding="utf-8"), params=None)


class Migration(migrations.Migration):
    dependencies = [("fleet", "0001_initial"), ("runs", "0006_worker_api")]
    operations = [migrations.RunPython(apply, migrations.RunPython.noop, elidable=False)]
