"""Events: things that happened and that alerts are made from."""

from __future__ import annotations

from django.db import models


class Event(models.Model):
    class Severity(models.TextChoices):
        INFO = "info"
        WARNING = "warning"
        ERROR = "error"

    kind = models.CharField(max_length=40, help_text="run_failed, document_rejected, rows_in_default …")
    severity = models.CharField(max_length=8, choices=Severity.choices)
    at = models.DateTimeField(auto_now_add=True, db_index=True)
    subject = models.CharField(max_length=200)
    sentence = models.TextField()
    payload = models.JSONField(default=dict)
    dedupe_key = models.CharField(max_length=200, unique=True, help_text="The same thing is told once")

    class Meta:
        ordering = ["-at", "-id"]

    def __str__(self) -> str:
        return self.sentence
