"""When each kind of alert looks: after a document, at an event, and now and then."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable

from django.db import transaction
from django.utils import timezone

from benchapp.alerts.kinds import (
    correctness,
    coverage,
    drift,
    impossible,
    schedules,
    survivors,
    tactic,
)
from benchapp.alerts.kinds.standing import measured_here
from benchapp.alerts.models import Event
from benchapp.runs import broker
from benchapp.runs.models import Document

logger = logging.getLogger(__name__)

#: Looks at documents that nobody looked at yet.
LOOK_TASK = "alerts.look_at_documents"
_OF_MEASUREMENTS: tuple[Callable[[Document], None], ...] = (
    coverage.after,
    correctness.after,
    impossible.after,
    tactic.after,
)
_OF_EVENTS: dict[str, Callable[[Event], object]] = {
    schedules.WITHOUT_DATA: schedules.without_data,
    survivors.VANISHED: survivors.vanished,
}
#: In a document's facts: it was looked at.
LOOKED = "alerts_looked"
#: A document that could not be looked at for so long is left.
PATIENCE = dt.timedelta(days=7)


def soon() -> None:
    """After commit, have the control worker look at new documents; if the message is lost, the sweep does."""
    broker.ask_control(LOOK_TASK)


def look_at_new() -> int:
    """Look at accepted documents that nobody looked at yet, the oldest first; how many there were. Files of
    other tools make no alerts."""
    new = Document.objects.filter(
        state=Document.State.ACCEPTED, ingested_at__gte=timezone.now() - PATIENCE
    ).exclude(origin=Document.Origin.IMPORT)
    found = list(
        new.exclude(facts__has_key=LOOKED).order_by("ingested_at", "pk").values_list("pk", flat=True)
    )
    for pk in found:
        after_document(pk)
    return len(found)


def after_document(document_id: int) -> None:
    """Let every kind look at an accepted document. Again, it changes nothing. A kind that fails leaves the
    others their turn, and the document is looked at again."""
    document = Document.objects.select_related("target__host", "stack").defer("body").get(pk=document_id)
    looks = [*_OF_MEASUREMENTS] if measured_here(document) else []
    if document.facts.get("findings"):
        looks.append(survivors.after)
    failed = False
    for look in looks:
        try:
            look(document)
        except Exception:
            logger.exception("%s of document %s", look.__module__, document_id)
            failed = True
    if not failed:
        _looked(document_id)


@transaction.atomic
def _looked(document_id: int) -> None:
    row = Document.objects.select_for_update().defer("body").get(pk=document_id)
    row.facts[LOOKED] = True
    row.save(update_fields=["facts"])


def at_event(event: Event) -> None:
    """Open or join the alert that an event makes, in its transaction; most make none."""
    make = _OF_EVENTS.get(event.kind)
    if make is None:
        return
    try:
        with transaction.atomic():
            make(event)
    except Exception:  # the event stands, and so does what raised it
        logger.exception("event %s", event.pk)


def sweep() -> None:
    """Look at new documents and at the drift of GPUs."""
    look_at_new()
    drift.sweep()
