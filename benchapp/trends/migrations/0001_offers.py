import django.db.models.deletion
from django.db import migrations, models

#: The newest measurement of each series is known: no history is read.
FILL = """
INSERT INTO trends_offer (target_id, kind, shape, dtype, backend, cases, newest_at)
SELECT series.target_id, of.kind, of.shape, of.dtype, series.backend, count(DISTINCT of.id),
    max(latest.measured_at)
FROM catalog_series AS series
JOIN catalog_case AS of ON of.id = series.case_id
JOIN runs_latest AS latest ON latest.series_id = series.id
WHERE series.metric = 'time'
GROUP BY series.target_id, of.kind, of.shape, of.dtype, series.backend
"""


class Migration(migrations.Migration):
    initial = True

    dependencies = [("catalog", "0002_case_sweep"), ("runs", "0007_measured_apart")]

    operations = [
        migrations.CreateModel(
            "Offer",
            [
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "target",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE, related_name="+", to="catalog.target"
                    ),
                ),
                ("kind", models.CharField(max_length=20)),
                ("shape", models.CharField(blank=True, max_length=120)),
                ("dtype", models.CharField(blank=True, max_length=40)),
                ("backend", models.CharField(blank=True, max_length=120)),
                (
                    "cases",
                    models.PositiveIntegerField(
                        help_text="The most that one document held: those with most go first"
                    ),
                ),
                ("newest_at", models.DateTimeField(help_text="When its newest case was measured")),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["target", "kind", "shape", "dtype", "backend"], name="trends_offer_once"
                    )
                ]
            },
        ),
        migrations.RunSQL(FILL, migrations.RunSQL.noop),
    ]
