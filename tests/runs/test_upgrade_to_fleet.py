"""The migrations that brought workers' functions and the fleet, over a database in use before them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.state import StateApps

from benchapp.catalog.digests import digest, environment_name
from benchapp.runs import work
from benchapp.runs.models import Run

STATES = ("queued", "running", "delivered", "done", "failed", "cancelled")
ENDED = {"done", "failed", "cancelled"}
VERSIONS = {"torch": "2.13.0"}
RUNS = 3000
BEFORE: list[tuple[str, str | None]] = [("runs", "0004_follow_ups"), ("fleet", None)]


@pytest.fixture
def before(transactional_db: None) -> Iterator[StateApps]:
    """The schema as it was, without the functions, in the session's own database."""
    MigrationExecutor(connection).migrate(BEFORE)
    with connection.cursor() as cursor:
        cursor.execute("DROP SCHEMA worker CASCADE")
    yield MigrationExecutor(connection).loader.project_state(("runs", "0004_follow_ups")).apps
    call_command("migrate", verbosity=0)


def rows(columns: str) -> list[tuple[object, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {columns} FROM runs_run ORDER BY id")  # noqa: S608 - written here
        return cursor.fetchall()


def fill(before: StateApps) -> None:
    """Runs of every state and both kinds, with what hangs on them."""
    run, job = before.get_model("runs", "Run"), before.get_model("runs", "Job")
    attempt, document = before.get_model("runs", "Attempt"), before.get_model("runs", "Document")
    recipe = before.get_model("catalog", "Recipe").objects.create(digest=digest(VERSIONS), versions=VERSIONS)
    asked = job.objects.create(title="a job", source="person")
    made = run.objects.bulk_create(
        run(
            job=asked, recipe=recipe, queue="cpu", state=STATES[number % 6], priority=number % 3,
            kind="gemm" if number % 4 < 2 else "tiles", params={"number": number},
            attempt=int(number % 6 != 0), worker="" if number % 6 == 0 else "cpu@here/k3jd82ks",
        )
        for number in range(RUNS)
    )  # fmt: skip
    tried = [one for one in made if one.attempt]
    attempt.objects.bulk_create(
        attempt(run=one, number=1, worker=one.worker, log=f"log of {one.pk}") for one in tried
    )
    document.objects.bulk_create(
        document(sha256=f"{one.pk:064}", body=b"{}", size=2, origin="worker", run=one, state="accepted")
        for one in tried
        if one.state == "done"
    )


def test_nothing_is_lost_and_every_run_goes_on(before: StateApps):
    fill(before)
    kept = "id, job_id, kind, queue, state, priority, recipe_id, params::text, attempt, worker, created_at"
    was = rows(kept)
    assert len(was) == RUNS

    call_command("migrate", verbosity=0)

    assert rows(kept) == was
    assert set(rows("turn, gpus::text, time_limit_s")) == {(0, "{}", None)}
    for run in Run.objects.all():
        assert run.told == (run.state in ENDED), run.state
        waits = run.kind == Run.Kind.GEMM and run.state in ("queued", "running")
        assert run.environment == (environment_name(VERSIONS) if waits else ""), (run.kind, run.state)
    assert Run.objects.get(params__number=2).attempts.get().log.startswith("log of")
    assert Run.objects.filter(documents__state="accepted").count() == RUNS // 6

    claim = work.claim(["cpu"], "cpu@here/k3jd82ks")
    assert claim is not None
    best = Run.objects.filter(params__number=claim.params["number"]).get()
    assert (best.state, best.attempt, claim.priority) == ("running", 1, 0)
    under_way = next(run for run in Run.objects.filter(state="running", attempt=1) if run.pk != best.pk)
    assert work.deliver(under_way.pk, 1, b"what was measured meanwhile")
    under_way.refresh_from_db()
    assert under_way.state == "delivered"
