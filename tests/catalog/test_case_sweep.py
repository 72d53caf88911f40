"""The migration that tells cases of earlier versions their sweep."""

from __future__ import annotations

from importlib import import_module

import pytest
from django.apps import apps
from django.db import connection

from benchapp.catalog.digests import case_label, case_sweep
from benchapp.catalog.models import Case

pytestmark = pytest.mark.django_db
migration = import_module("benchapp.catalog.migrations.0002_case_sweep")


def test_every_case_that_is_there_is_told_its_sweep(monkeypatch):
    monkeypatch.setattr(migration, "BATCH", 3)
    params = [{"m": m, "n": 64, "k": 32, "dtype": "bf16", "layout": "nt"} for m in range(1, 8)]
    told = [("gemm", each) for each in params]
    told += [("unheard_of", {"a": '"{,}\\'}), ("rmsnorm", {"tokens": "many", "hidden": 2**53})]
    Case.objects.bulk_create(
        Case(digest=str(at), kind=kind, params=each, label="old") for at, (kind, each) in enumerate(told)
    )
    with connection.schema_editor() as editor:
        migration.fill(apps, editor)
    for case in Case.objects.all():
        assert (case.shape, case.dtype, case.size) == case_sweep(case.kind, case.params)
        assert case.label == case_label(case.kind, case.params)
    assert set(Case.objects.filter(kind="gemm").values_list("size", flat=True)) == set(range(1, 8))
