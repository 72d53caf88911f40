"""What the filters of the trends page can ask for, kept so that no page counts over all series."""

from __future__ import annotations

from django.db import models

from benchapp.catalog.models import Target
from benchapp.runs.steps import COLLECTIVES, SERVING, STEPS

#: Kinds of case that have pages of their own: whole models, servers under load and collectives.
ELSEWHERE = (*STEPS, SERVING, *COLLECTIVES)


class Offer(models.Model):
    """Something that was timed: one shape, format and backend on one target. Kept up at ingest."""

    target = models.ForeignKey(Target, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=20)
    shape = models.CharField(max_length=120, blank=True)
    dtype = models.CharField(max_length=40, blank=True)
    backend = models.CharField(max_length=120, blank=True)
    cases = models.PositiveIntegerField(help_text="The most that one document held: those with most go first")
    newest_at = models.DateTimeField(help_text="When its newest case was measured")

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["target", "kind", "shape", "dtype", "backend"], name="trends_offer_once"
            )
        ]

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, self.dtype, self.shape, self.backend)))
