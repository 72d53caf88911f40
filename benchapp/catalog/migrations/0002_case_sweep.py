from django.db import migrations, models

from benchapp.catalog.digests import case_label, case_sweep

BATCH = 2000
FIELDS = ["shape", "dtype", "size", "label"]


def fill(apps, schema_editor):
    """What the parameters of the cases that are there say."""
    Case = apps.get_model("catalog", "Case")
    batch = []
    for case in Case.objects.only("pk", "kind", "params").iterator(chunk_size=BATCH):
        case.shape, case.dtype, case.size = case_sweep(case.kind, case.params)
        case.label = case_label(case.kind, case.params)
        batch.append(case)
        if len(batch) == BATCH:
            Case.objects.bulk_update(batch, FIELDS)
            batch = []
    if batch:
        Case.objects.bulk_update(batch, FIELDS)


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial")]

    operations = [
        migrations.AddField(
            "case", "shape",
            models.CharField(db_default="", help_text="What a sweep holds still: 4096x7168", max_length=120),
        ),
        migrations.AddField(
            "case", "dtype",
            models.CharField(db_default="", help_text="Format of the inputs", max_length=40),
        ),
        migrations.AddField(
            "case", "size",
            models.BigIntegerField(null=True, help_text="What a sweep varies: rows, tokens, sequences"),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex(
            "case", models.Index(fields=["kind", "shape", "dtype", "size"], name="case_sweep"),
        ),
    ]
