"""Tiles, what was found about them, and what follows."""

from __future__ import annotations

from django.db import models

from benchapp.catalog.models import Release, Stack
from benchapp.runs.models import Document


class Stage(models.TextChoices):
    """The tile ladder, bottom to top."""

    CANDIDATE = "candidate"
    DISPATCHED = "dispatched"
    COMPILED = "compiled"
    FITS = "fits"
    INITIALISED = "initialised"
    RAN = "ran"
    CORRECT = "correct"


class Tile(models.Model):
    """A CTA tile configuration of a family (M, N, K in elements), for one architecture."""

    family = models.CharField(max_length=40)
    inputs = models.CharField(max_length=40)
    output = models.CharField(max_length=12)
    arch = models.CharField(max_length=12)
    m = models.PositiveIntegerField()
    n = models.PositiveIntegerField()
    k = models.PositiveIntegerField()
    cluster = models.CharField(max_length=12, help_text="1x1x1")
    fusion = models.CharField(max_length=20)
    swap_ab = models.BooleanField()
    schedule = models.CharField(max_length=40)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "arch", "family", "inputs", "output", "m", "n", "k",
                    "cluster", "fusion", "swap_ab", "schedule",
                ],
                name="tile_once",
            )
        ]  # fmt: skip

    def __str__(self) -> str:
        swap = " swap" if self.swap_ab else ""
        return f"{self.m}×{self.n}×{self.k} {self.fusion}{swap}"


class EvidenceLog(models.Model):
    """A compiler's or generator's own words, kept once a document."""

    document = models.ForeignKey(Document, on_delete=models.CASCADE)
    name = models.CharField(max_length=200)
    text = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["document", "name"], name="log_once")]

    def __str__(self) -> str:
        return self.name


class Evidence(models.Model):
    """One finding about one tile in one release. Append-only."""

    tile = models.ForeignKey(Tile, on_delete=models.PROTECT, related_name="evidence")
    release = models.ForeignKey(Release, on_delete=models.PROTECT)
    stack = models.ForeignKey(Stack, on_delete=models.PROTECT)
    document = models.ForeignKey(Document, on_delete=models.PROTECT)
    found_at = models.DateTimeField()
    stage = models.CharField(max_length=12, choices=Stage.choices)
    passed = models.BooleanField()
    source = models.CharField(max_length=12, help_text="generator, compiler, device")
    tier = models.CharField(max_length=8, blank=True, help_text="types, body, full")
    reason = models.CharField(max_length=20, blank=True)
    stages = models.PositiveSmallIntegerField(null=True)
    need_bytes = models.PositiveIntegerField(null=True)
    limit_bytes = models.PositiveIntegerField(null=True)
    parts = models.JSONField(default=dict, help_text="What need_bytes consists of")
    threads = models.PositiveIntegerField(null=True)
    unit = models.CharField(max_length=200, blank=True, help_text="Generated file it stands in")
    detail = models.TextField(blank=True)
    log = models.ForeignKey(EvidenceLog, on_delete=models.PROTECT, null=True)
    cpu_seconds = models.FloatField(null=True)

    class Meta:
        verbose_name_plural = "evidence"
        indexes = [models.Index(fields=["tile", "release", "stage"], name="evidence_of_tile")]

    def __str__(self) -> str:
        return f"{self.stage} {'passed' if self.passed else 'failed'}"


class Verdict(models.Model):
    """What follows from all evidence on a tile in a release; rebuilt from it at any time."""

    tile = models.ForeignKey(Tile, on_delete=models.CASCADE, related_name="verdicts")
    release = models.ForeignKey(Release, on_delete=models.CASCADE)
    stage = models.CharField(
        max_length=12, choices=Stage.choices, blank=True, help_text="Highest stage passed"
    )
    failed_stage = models.CharField(max_length=12, choices=Stage.choices, blank=True)
    reason = models.CharField(max_length=20, blank=True, help_text="Why it stopped at failed_stage")
    source = models.CharField(max_length=12)
    tier = models.CharField(max_length=8, blank=True)
    stages = models.PositiveSmallIntegerField(null=True)
    need_bytes = models.PositiveIntegerField(null=True)
    limit_bytes = models.PositiveIntegerField(null=True)
    found_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tile", "release"], name="verdict_once")]

    def __str__(self) -> str:
        return f"{self.tile_id} in {self.release_id}: {self.stage}"
