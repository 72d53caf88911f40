"""The one way in: an inbox row becomes measurements, evidence, verdicts and events."""

from __future__ import annotations

import contextlib
import gc
import gzip
import logging
import os
import zlib
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings
from django.db import DataError, IntegrityError, InterfaceError, OperationalError, connection, transaction
from django.db.models.functions import Now

from benchapp.alerts import confirm
from benchapp.alerts.actions import raise_event
from benchapp.alerts.models import Event
from benchapp.catalog.locks import lock
from benchapp.ingest import (
    comparisons,
    findings,
    followups,
    identities,
    incoming,
    measurements,
    schema,
    vanished,
)
from benchapp.ingest.incoming import Incoming
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs import partitions
from benchapp.runs.actions import end, receive
from benchapp.runs.models import Document, Run, State
from benchapp.runs.states import may_move
from benchapp.runs.summary import benchmark_line
from benchapp.tiles.summary import survey_line

logger = logging.getLogger(__name__)

DOCUMENT_REJECTED = "document_rejected"
#: A worker has its run under lock for milliseconds.
RUN_PATIENCE_MS = 5000


@contextlib.contextmanager
def _collector_paused() -> Iterator[None]:
    """A document becomes a tree of many thousand objects without a cycle; searching it for cycles again and
    again takes as long as building it."""
    paused = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if paused:
            gc.enable()


@_collector_paused()
def ingest(document_id: int) -> Document:
    """Ingest one inbox row; a row that was dealt with before stays as it is.

    A faulty document is kept as rejected with its fault, and its run fails with the same sentence. Where
    the database itself is in trouble its error is raised, and the row stays in the inbox for the next try.
    """
    row = Document.objects.get(pk=document_id)
    if row.state != Document.State.RECEIVED:
        return row
    try:
        opened = incoming.read(row)
        partitions.ensure(opened.moments())
        return _accept(document_id, opened)
    except schema.Fault as fault:
        return _reject(document_id, str(fault))
    except (DataError, IntegrityError) as error:
        return _reject(document_id, f"document: the database refused it: {str(error).splitlines()[0]}")
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        # Tilewatch's own mistake must not be tried every 30 s; `ingest --again` tries it once it is mended
        logger.exception("document %s", document_id)
        return _reject(document_id, f"document: Tilewatch could not take it in ({type(error).__name__})")


@transaction.atomic
def _accept(document_id: int, opened: Incoming) -> Document:
    document = opened.document
    # One ingest at a time: verdicts are derived from all evidence, so that two at once could each
    # miss the other's. What is slow (parsing) has happened before.
    lock("ingest")
    row = Document.objects.select_for_update().defer("body").get(pk=document_id)
    if row.state != Document.State.RECEIVED:
        return row
    run = _locked(row.run_id) if row.run_id else None
    if run is not None and (
        run.state == State.CANCELLED
        or Document.objects.filter(run=run, state=Document.State.ACCEPTED).exists()
    ):
        row.state = Document.State.SUPERSEDED
        row.save(update_fields=["state"])
        return row
    target = identities.target_of(document)
    row.target, row.stack = target, identities.stack_of(document)
    row.kind, row.schema_version = document.kind, document.schema_version
    row.state = Document.State.ACCEPTED
    row.facts = {
        "producer": document.producer,
        "command": list(document.command),
        "started_at": document.started_at.isoformat(),
        "finished_at": document.finished_at.isoformat(),
        "costs": dict(document.costs),
        "properties": dict(document.target.properties),  # of the target then; it keeps only the newest
        "measurements": measurements.store(row, opened, target),
        "findings": findings.store(row, document),
        **opened.facts(),
    }
    compared = comparisons.store(row, document, run)
    if not (row.facts["measurements"] or row.facts["findings"] or compared):
        raise schema.Fault(" ".join(["document: holds nothing that can be stored.", *row.facts["notes"]]))
    if row.origin != Document.Origin.RECORDED:  # history is no news
        vanished.tell(document)
    row.facts["summary"] = _summary(row, document)
    row.save(update_fields=["target", "stack", "kind", "schema_version", "state", "facts"])
    Document.objects.filter(pk=row.pk).update(ingested_at=Now())
    if run is not None:
        if run.target_id is None:
            run.target = target
            run.save(update_fields=["target"])
        if compared:
            confirm.after(run, compared)
        end(run, State.DONE)
        followups.after(run, row, document)
    return row


def _summary(row: Document, document: schema.Document) -> str:
    if document.comparisons:
        return comparisons.line(document)
    return survey_line(row) if document.evidence else benchmark_line(row)


def _locked(run_id: int) -> Run:
    """The run, as soon as nobody else has it. Raises OperationalError where a host's transaction keeps it:
    every other document would wait."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = %s", [RUN_PATIENCE_MS])
        run = Run.objects.select_for_update().get(pk=run_id)
        cursor.execute("SET LOCAL lock_timeout = 0")
    return run


@transaction.atomic
def _reject(document_id: int, fault: str) -> Document:
    row = Document.objects.select_for_update().defer("body").get(pk=document_id)
    if row.state != Document.State.RECEIVED:
        return row
    row.state, row.fault = Document.State.REJECTED, fault
    row.save(update_fields=["state", "fault"])
    subject = f"run {row.run_id}" if row.run_id else row.name or f"document {row.pk}"
    raise_event(
        "document_rejected",
        Event.Severity.ERROR,
        subject=subject,
        sentence=f"A document of {subject} was refused: {fault}",
        dedupe_key=f"document_rejected:{row.sha256}",
        payload={"document": row.pk},
    )
    run = _locked(row.run_id) if row.run_id else None
    if run is not None and run.state == State.DELIVERED:
        end(run, State.FAILED, DOCUMENT_REJECTED, f"The document it delivered was refused: {fault}")
    return row


@transaction.atomic
def _reopen(document_id: int) -> None:
    row = Document.objects.select_for_update().defer("body").get(pk=document_id)
    if row.state != Document.State.REJECTED:
        return
    row.state, row.fault = Document.State.RECEIVED, ""
    row.save(update_fields=["state", "fault"])
    run = Run.objects.select_for_update().get(pk=row.run_id) if row.run_id else None
    if run is not None and may_move(run.state, State.DELIVERED):
        run.state = State.DELIVERED
        run.save(update_fields=["state"])
    audit.record(None, "ingest_again", f"document {row.pk}")


def ingest_again(document_id: int) -> Document:
    """Try a rejected document once more, after the schema changed."""
    _reopen(document_id)
    return ingest(document_id)


def printable(name: str) -> str:
    """A file name that can be stored and shown, whatever bytes it is made of."""
    return os.fsencode(name).decode("utf-8", "replace")


class Unreadable(Exception):
    """A file that cannot even enter the inbox, with the reason."""


def ingest_file(path: Path, *, origin: Document.Origin, user: User | None = None) -> tuple[Document, bool]:
    """Ingest a file, packed where its name ends in .gz. The same bytes again change nothing.

    Returns (document, whether it was taken in now). Raises Unreadable.
    """
    limit = settings.DOCUMENT_LIMIT_BYTES
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as source:
            body = source.read(limit + 1)
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise Unreadable(f"{printable(str(path))}: not a whole gzip file") from None
    except OSError as error:
        raise Unreadable(f"{printable(str(path))}: {error.strerror}") from None
    if len(body) > limit:
        raise Unreadable(f"{printable(str(path))}: larger than {limit:,} bytes, the most a document may have")
    with transaction.atomic():
        row, new = receive(body, origin=origin, name=printable(path.name))
        waiting = row.state == Document.State.RECEIVED
        if new:
            audit.record(user, "ingest_file", f"document {row.pk}", name=path.name, sha256=row.sha256)
    return ingest(row.pk), waiting
