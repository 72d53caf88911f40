"""What a run's result asks for next."""

from __future__ import annotations

from django.conf import settings

from benchapp.ingest import schema
from benchapp.runs.models import Document, Job, Run
from benchapp.runs.requests import request_survey


def after(run: Run, row: Document, document: schema.Document) -> None:
    """A survey of the types is followed by the full compile of what fits, in the background, unless this very
    stack's has been made."""
    if not settings.DEEP_SURVEYS or run.kind != Run.Kind.TILES or set(run.params) != {"arch"}:
        return
    if not any(finding.stage == "fits" and finding.passed for finding in document.evidence):
        return
    made = Document.objects.filter(
        state=Document.State.ACCEPTED, stack=row.stack, target=row.target, run__params__tier="full"
    )
    if not made.exists():
        request_survey(
            run.recipe.versions["flashinfer"],
            run.params["arch"],
            user=run.job.requested_by,
            source=Job.Source.FOLLOW_UP,
            tier="full",
        )
