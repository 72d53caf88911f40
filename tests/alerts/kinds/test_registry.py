"""When kinds look: once for each document, whoever fails, however many look at once."""

from __future__ import annotations

import threading

import pytest
from django.db import connection

from benchapp.alerts.kinds import registry
from benchapp.runs.models import Document as Row
from tests.alerts.kinds.stored import lost, store, the, timed, told

pytestmark = pytest.mark.django_db


def test_a_kind_that_fails_leaves_the_others_their_turn_and_is_tried_again(monkeypatch):
    def broken(document):
        raise RuntimeError("no disk")

    looks = registry._OF_MEASUREMENTS
    monkeypatch.setattr(registry, "_OF_MEASUREMENTS", (broken, *looks))
    store("0.6.9", timed(1), day=1)
    store("0.6.13", lost(1), day=2)
    assert told(the("coverage")) == ["opened"]
    assert registry.look_at_new() == 2
    monkeypatch.setattr(registry, "_OF_MEASUREMENTS", looks)
    assert registry.look_at_new() == 2
    assert registry.look_at_new() == 0
    assert told(the("coverage")) == ["opened"]


def test_others_files_are_not_looked_at():
    store("0.6.9", timed(1), day=1, origin=Row.Origin.IMPORT, look=False)
    assert registry.look_at_new() == 0


@pytest.mark.django_db(transaction=True)
def test_documents_looked_at_by_two_at_once_open_one_alert():
    store("0.6.9", timed(1), timed(2), day=1)
    rows = [store("0.6.13", lost(m), day=2 + m, look=False) for m in (1, 2)]
    together = threading.Barrier(4)

    def look(pk):
        together.wait()
        registry.after_document(pk)
        connection.close()

    threads = [threading.Thread(target=look, args=(row.pk,)) for row in (*rows, *rows)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert the("coverage").title.startswith("2 cases lost")
    assert told(the("coverage")) == ["opened", "joined"]
