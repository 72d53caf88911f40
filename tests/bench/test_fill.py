"""Filling a database: through the product's own way in, twice without effect, and never beside real data."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bench.fill import Refused, fill
from bench.generate import NAME
from benchapp.ingest.actions import ingest
from benchapp.people.models import AuditEntry
from benchapp.runs.actions import receive
from benchapp.runs.models import Document, Measurement
from benchapp.tiles.models import Evidence
from tests.ingest.documents import body, gemm
from tests.querycount import at_most

pytestmark = pytest.mark.django_db
#: Queries of a page, however much is stored.
LIMITS = {
    "/": 25,
    "/tiles/": 12,
    "/trends/": 12,
    "/trends/?view=versions": 12,
    "/trends/?view=time": 12,
    "/runs/": 8,
}


def test_measurements_and_surveys_are_stored_and_marked():
    filled = fill(2_000, 1, with_surveys=True)
    assert Measurement.objects.count() == filled.measurements == 2_000
    assert Evidence.objects.count() == filled.findings
    assert filled.documents == filled.new == Document.objects.filter(state="accepted", name=NAME).count()
    assert AuditEntry.objects.get(action="fill").detail["measurements"] == 2_000


def test_the_same_seed_again_changes_nothing():
    fill(900, 1)
    again = fill(900, 1)
    assert (again.documents, again.new) == (2, 0)
    assert Measurement.objects.count() == 900


def test_real_data_is_left_alone_unless_asked_for():
    row, _ = receive(body(gemm()), origin=Document.Origin.FILE, name="mine.json")
    ingest(row.pk)
    with pytest.raises(Refused, match="holds 1 document that nobody generated"):
        fill(10, 1)
    assert Document.objects.count() == 1
    assert fill(10, 1, anyway=True).new == 1


def test_pages_of_a_full_database_stay_within_their_queries(client):
    fill(2_000, 1, with_surveys=True)
    for path, limit in LIMITS.items():
        with at_most(limit):
            assert client.get(path).status_code == 200


def command(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "bench", "fill", *arguments],
        cwd=Path(__file__).parents[2],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


@pytest.mark.django_db(transaction=True)
def test_the_command_fills_the_database_it_is_pointed_at_and_refuses_a_real_one(child_environment):
    ended = command(child_environment, "--measurements", "50")
    assert ended.returncode == 0, ended.stderr
    assert "50 measurements and 0 findings in 1 documents, 1 of them new" in ended.stdout
    receive(body(gemm()), origin=Document.Origin.FILE, name="mine.json")
    ended = command(child_environment, "--measurements", "60")
    assert ended.returncode == 1
    assert ended.stderr.startswith("Not filled: this database holds 1 document that nobody generated")
    assert Measurement.objects.count() == 50


def test_a_database_that_does_not_answer_is_said_so(child_environment):
    ended = command(child_environment | {"DATABASE_URL": "postgres://nobody@127.0.0.1:1/none"})
    assert ended.returncode == 1
    assert ended.stderr.startswith("Not filled: the database of DATABASE_URL or of a running")
    assert "Traceback" not in ended.stderr
