"""Takes a machine's identity out of a document, so that it can be kept as a recorded one."""

from __future__ import annotations

import dataclasses

from workers.bench.document import Document


def scrub(document: Document, label: str) -> Document:
    """The document with host and GPU called after `label` ("recorded-h200"), and without logs.

    The GPU's placeholder UUID is the same for the same label: recordings of one label form one
    series. Everything measured stays as it was.
    """
    target = document.target
    uuid = None if target.uuid is None else f"GPU-{label}"
    return dataclasses.replace(document, target=dataclasses.replace(target, host=label, uuid=uuid), logs={})
