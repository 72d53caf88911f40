"""Generated documents into a database, through the same door as every other document."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterable

from django.db import DatabaseError

from bench.generate import NAME, gemms
from bench.generate_surveys import surveys
from benchapp.ingest.actions import ingest
from benchapp.people import audit
from benchapp.runs.actions import receive
from benchapp.runs.models import Document as Row
from workers.bench.document import Document


class Refused(Exception):
    """Why nothing was filled in, in one sentence."""


@dataclasses.dataclass(frozen=True, slots=True)
class Filled:
    """What is there now; `new` of the documents were not there before. Seconds of taking them in alone."""

    documents: int
    new: int
    measurements: int
    findings: int
    seconds: float


def fill(measurements: int, seed: int, *, with_surveys: bool = False, anyway: bool = False) -> Filled:
    """Raises Refused where the database holds documents of others, unless `anyway`, or cannot be used."""
    try:
        others = Row.objects.exclude(name=NAME).count()
    except DatabaseError as error:
        raise Refused(
            f"the database of DATABASE_URL or of a running `manage.py up` cannot be used: "
            f"{str(error).strip().splitlines()[0]}"
        ) from None
    if others and not anyway:
        raise Refused(
            f"this database holds {others:,} document{'' if others == 1 else 's'} that nobody generated, and "
            "invented figures do not belong beside measured ones; --anyway fills it all the same"
        )
    audit.record(
        None, "fill", "generated documents", measurements=measurements, seed=seed, surveys=with_surveys
    )
    filled = take_in(gemms(measurements, seed))
    if with_surveys:
        tiles = take_in(surveys(seed))
        filled = Filled(*map(sum, zip(dataclasses.astuple(filled), dataclasses.astuple(tiles), strict=True)))
    return filled


def take_in(documents: Iterable[Document]) -> Filled:
    """Receive and ingest each document. Raises Refused with the fault of the first that is rejected."""
    count = new = measurements = findings = 0
    seconds = 0.0
    for document in documents:
        body = document.dumps().encode()
        began = time.perf_counter()
        row, created = receive(body, origin=Row.Origin.FILE, name=NAME)
        row = ingest(row.pk)
        seconds += time.perf_counter() - began
        if row.state == Row.State.REJECTED:
            raise Refused(f"document {row.pk} was refused: {row.fault}")
        count += 1
        new += created
        measurements += len(document.measurements)
        findings += len(document.evidence)
    return Filled(count, new, measurements, findings, seconds)
