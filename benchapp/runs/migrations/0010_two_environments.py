"""Runs of two environments, which are claimed where both are built: what 0006 applies, anew."""

import django.db.models.deletion
from django.db import migrations, models

from benchapp.runs.worker_api import apply


class Migration(migrations.Migration):
    dependencies = [
        ("catalog", "0001_initial"),
        ("runs", "0009_whole_models"),
    ]

    operations = [
        migrations.AddField(
            model_name="run",
            name="recipe_beside",
            field=models.ForeignKey(
                help_text="Of an A/B: the old one, `recipe` being the new one",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="catalog.recipe",
            ),
        ),
        migrations.AddField(
            model_name="run",
            name="environment_beside",
            field=models.CharField(
                blank=True,
                db_default="",
                help_text="The environment of `recipe_beside`, which must be there too",
                max_length=16,
            ),
        ),
        migrations.AlterField(
            model_name="run",
            name="kind",
            field=models.CharField(
                choices=[
                    ("tiles", "tile survey"),
                    ("gemm", "GEMM benchmark"),
                    ("moe", "MoE model benchmark"),
                    ("serving", "serving benchmark"),
                    ("build", "environment build"),
                    ("confirm", "A/B of two environments"),
                ],
                max_length=16,
            ),
        ),
        migrations.RunPython(apply, migrations.RunPython.noop, elidable=False),
    ]
