from itertools import islice

from django.db import migrations, models

from benchapp.catalog.digests import case_label, case_sweep

BATCH = 2000


def fill(apps, schema_editor):
    """What the parameters of the cases that are there say."""
    cases = apps.get_model("catalog", "Case").objects.values_list("pk", "kind", "params")
    with schema_editor.connection.cursor() as cursor:
        for batch in batched(cases.iterator(chunk_size=BATCH), BATCH):
            told = [(pk, *case_sweep(kind, params), case_label(kind, params)) for pk, kind, params in batch]
            # bulk_update would look through a batch for each of its rows: over ten minutes for 500,000
            cursor.execute(
                """
                UPDATE catalog_case SET
                    shape = told.shape, dtype = told.dtype, size = told.size, label = told.label
                FROM unnest(%s::int8[], %s::text[], %s::text[], %s::int8[], %s::text[])
                    AS told (id, shape, dtype, size, label)
                WHERE catalog_case.id = told.id
                """,
                [list(column) for column in zip(*told, strict=True)],
            )


def batched(rows, size):
    while batch := list(islice(rows, size)):
        yield batch


class Migration(migrations.Migration):
    dependencies = [("catalog", "0001_initial")]

    operations = [
        migrations.AddField(
            "case",
            "shape",
            models.CharField(db_default="", help_text="What a sweep holds still: 4096x7168", max_length=120),
        ),
        migrations.AddField(
            "case",
            "dtype",
            models.CharField(db_default="", help_text="Format of the inputs", max_length=40),
        ),
        migrations.AddField(
            "case",
            "size",
            models.BigIntegerField(null=True, help_text="What a sweep varies: rows, tokens, sequences"),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
        migrations.AddIndex(
            "case",
            models.Index(fields=["kind", "shape", "dtype", "size"], name="case_sweep"),
        ),
    ]
