"""An inbox row, opened: a document of ours, or the bundle of a table that was imported."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

from benchapp.ingest import schema
from benchapp.ingest.importers import bundle
from benchapp.ingest.importers.aiconfigurator_rows import Rows
from benchapp.ingest.importers.base import ImportFault
from benchapp.runs.models import Document


@dataclasses.dataclass(frozen=True, slots=True)
class Incoming:
    """`document` is all but the measurements of a bundle, which come through `batches` and count themselves
    in its rows."""

    document: schema.Document
    rows: Rows | None = None

    def moments(self) -> Iterator[dt.datetime]:
        """When its measurements were made; a table has one moment."""
        if self.rows is not None:
            yield self.document.finished_at
        yield from (item.measured_at for item in self.document.measurements)

    def batches(self) -> Iterator[Sequence[schema.Measurement]]:
        """All measurements, a part at a time: never all of a large table at once."""
        return iter([self.document.measurements]) if self.rows is None else self.rows.batches()

    def facts(self) -> dict[str, Any]:
        """What an inbox row tells of a table, once its measurements are through."""
        notes = list(self.document.notes)
        if self.rows is None:
            return {"notes": notes}
        return {"notes": [*self.rows.tally.notes(), *notes], "rows": self.rows.tally.as_dict()}


def read(row: Document) -> Incoming:
    """Raises schema.Fault."""
    body = bytes(row.body)
    if row.origin != Document.Origin.IMPORT or not body.startswith(bundle.MAGIC):
        document = schema.parse(body)
        if not (document.measurements or document.evidence or document.comparisons):
            raise schema.Fault("document: holds neither measurements nor evidence")
        return Incoming(document)
    try:
        rows = Rows(body)
    except ImportFault as fault:
        raise schema.Fault(f"table: {fault}") from None
    return Incoming(rows.document, rows)
