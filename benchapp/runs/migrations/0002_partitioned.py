"""Measurement and sample as tables partitioned by month of measured_at.

Django cannot create partitioned tables, so the SQL stands here; later column changes are ordinary
migrations, since ALTER TABLE on the parent reaches every partition. Nothing refers to these tables
by foreign key, and they refer to others without a constraint: ingest is their only writer, and a
constraint would be checked for each of hundreds of thousands of rows.
"""

import django.contrib.postgres.fields
import django.db.models.deletion
from django.db import migrations, models

CREATE = """
CREATE SEQUENCE runs_measurement_id_seq AS bigint;
CREATE TABLE runs_measurement (
    measured_at timestamptz NOT NULL,
    id bigint NOT NULL DEFAULT nextval('runs_measurement_id_seq'),
    document_id bigint NOT NULL,
    run_id bigint,
    series_id bigint NOT NULL,
    stack_id bigint NOT NULL,
    outcome varchar(16) NOT NULL,
    flags varchar(24)[] NOT NULL,
    n integer NOT NULL CHECK (n >= 0),
    median double precision,
    q1 double precision,
    q3 double precision,
    min double precision,
    host_median double precision,
    host_q1 double precision,
    host_q3 double precision,
    timer varchar(16) NOT NULL,
    l2_policy varchar(10) NOT NULL,
    pdl boolean,
    inputs varchar(80) NOT NULL,
    kernel varchar(300) NOT NULL,
    flops double precision,
    bytes double precision,
    reference varchar(120) NOT NULL,
    cosine double precision,
    max_relative_error double precision,
    tolerance double precision,
    nan_count bigint,
    zero_count bigint,
    elements bigint,
    sm_clock_mhz_min double precision,
    sm_clock_mhz_median double precision,
    sm_clock_mhz_max double precision,
    power_w double precision,
    temperature_c double precision,
    throttle_reasons varchar(60)[] NOT NULL,
    error text NOT NULL,
    PRIMARY KEY (measured_at, id)
) PARTITION BY RANGE (measured_at);
CREATE INDEX measurement_series ON runs_measurement (series_id, measured_at DESC);
CREATE INDEX measurement_run ON runs_measurement (run_id);
CREATE INDEX measurement_document ON runs_measurement (document_id);
CREATE TABLE runs_sample (
    measured_at timestamptz NOT NULL,
    measurement_id bigint NOT NULL,
    "values" double precision[] NOT NULL,
    PRIMARY KEY (measured_at, measurement_id)
) PARTITION BY RANGE (measured_at);
CREATE TABLE runs_measurement_default PARTITION OF runs_measurement DEFAULT;
CREATE TABLE runs_sample_default PARTITION OF runs_sample DEFAULT;
"""
DROP = """
DROP TABLE runs_sample;
DROP TABLE runs_measurement;
DROP SEQUENCE runs_measurement_id_seq;
"""


class Migration(migrations.Migration):
    dependencies = [("runs", "0001_initial")]
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(CREATE, DROP)],
            state_operations=[
                migrations.CreateModel(
                    name='Sample',
                    fields=[
                        ('pk', models.CompositePrimaryKey('measured_at', 'measurement_id', blank=True, editable=False, primary_key=True, serialize=False)),
                        ('measured_at', models.DateTimeField()),
                        ('measurement_id', models.BigIntegerField()),
                        ('values', django.contrib.postgres.fields.ArrayField(base_field=models.FloatField(), size=None)),
                    ],
                    options={
                        'db_table': 'runs_sample',
                    },
                ),
                migrations.CreateModel(
                    name='Measurement',
                    fields=[
                        ('pk', models.CompositePrimaryKey('measured_at', 'id', blank=True, editable=False, primary_key=True, serialize=False)),
                        ('id', models.BigIntegerField()),
                        ('measured_at', models.DateTimeField()),
                        ('outcome', models.CharField(max_length=16)),
                        ('flags', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=24), default=list, size=None)),
                        ('n', models.PositiveIntegerField(default=0)),
                        ('median', models.FloatField(null=True)),
                        ('q1', models.FloatField(null=True)),
                        ('q3', models.FloatField(null=True)),
                        ('min', models.FloatField(null=True)),
                        ('host_median', models.FloatField(null=True)),
                        ('host_q1', models.FloatField(null=True)),
                        ('host_q3', models.FloatField(null=True)),
                        ('timer', models.CharField(blank=True, max_length=16)),
                        ('l2_policy', models.CharField(blank=True, max_length=10)),
                        ('pdl', models.BooleanField(null=True)),
                        ('inputs', models.CharField(blank=True, max_length=80)),
                        ('kernel', models.CharField(blank=True, max_length=300)),
                        ('flops', models.FloatField(null=True)),
                        ('bytes', models.FloatField(null=True)),
                        ('reference', models.CharField(blank=True, max_length=120)),
                        ('cosine', models.FloatField(null=True)),
                        ('max_relative_error', models.FloatField(null=True)),
                        ('tolerance', models.FloatField(null=True)),
                        ('nan_count', models.BigIntegerField(null=True)),
                        ('zero_count', models.BigIntegerField(null=True)),
                        ('elements', models.BigIntegerField(null=True)),
                        ('sm_clock_mhz_min', models.FloatField(null=True)),
                        ('sm_clock_mhz_median', models.FloatField(null=True)),
                        ('sm_clock_mhz_max', models.FloatField(null=True)),
                        ('power_w', models.FloatField(null=True)),
                        ('temperature_c', models.FloatField(null=True)),
                        ('throttle_reasons', django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=60), default=list, size=None)),
                        ('error', models.TextField(blank=True)),
                        ('document', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to='runs.document')),
                        ('series', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to='catalog.series')),
                        ('stack', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.DO_NOTHING, to='catalog.stack')),
                        ('run', models.ForeignKey(db_constraint=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, to='runs.run')),
                    ],
                    options={
                        'db_table': 'runs_measurement',
                    },
                ),
            ],
        )
    ]
