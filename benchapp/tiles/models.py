"""Tiles, what was found about them, and what follows."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
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
    source = models.CharField(max_length=12, help_text="heuristic, generator, compiler, device, imported")
    tier = models.CharField(max_length=8, blank=True, help_text="types, body, full")
    reason = models.CharField(max_length=20, blank=True)
    stages = models.PositiveSmallIntegerField(null=True)
    need_bytes = models.PositiveIntegerField(null=True)
    limit_bytes = models.PositiveIntegerField(null=True)
    parts = models.JSONField(default=dict, help_text="What need_bytes consists of")
    predicted_stages = models.PositiveSmallIntegerField(null=True)
    predicted_bytes = models.PositiveIntegerField(null=True)
    threads = models.PositiveIntegerField(null=True)
    registers = models.PositiveSmallIntegerField(null=True)
    spill_store_bytes = models.PositiveIntegerField(null=True)
    spill_load_bytes = models.PositiveIntegerField(null=True)
    stack_bytes = models.PositiveIntegerField(null=True, help_text="Local memory a thread")
    object_bytes = models.PositiveIntegerField(null=True)
    chosen_for = models.CharField(max_length=300, blank=True, help_text="Shapes an autotuner chose it for")
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
    tier = models.CharField(max_length=8, blank=True, help_text="Deepest tier it compiled at, or failed at")
    stages = models.PositiveSmallIntegerField(null=True)
    need_bytes = models.PositiveIntegerField(null=True)
    limit_bytes = models.PositiveIntegerField(null=True)
    spill_store_bytes = models.PositiveIntegerField(null=True)
    chosen = models.BooleanField(default=False, help_text="An autotuner chose it for some shape")
    found_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["tile", "release"], name="verdict_once")]

    def __str__(self) -> str:
        return f"{self.tile_id} in {self.release_id}: {self.stage}"


class Listing(models.Model):
    """Where one release's own sources name a variant, as its newest survey read them."""

    release = models.ForeignKey(Release, on_delete=models.CASCADE, related_name="listings")
    document = models.ForeignKey(Document, on_delete=models.PROTECT)
    arch = models.CharField(max_length=12)
    family = models.CharField(max_length=40)
    inputs = models.CharField(max_length=40)
    m = models.PositiveIntegerField()
    n = models.PositiveIntegerField()
    k = models.PositiveIntegerField()
    cluster = models.CharField(max_length=12, help_text="1x1x1")
    fusion = models.CharField(max_length=20)
    swap_ab = models.BooleanField()
    schedule = models.CharField(max_length=40)
    candidate = models.BooleanField(help_text="In the tactic list of the version's heuristic")
    dispatched = models.BooleanField(help_text="In the version's dispatch table")
    instantiated = models.BooleanField(help_text="Among what the version's generator writes")
    gemm1_tactics = ArrayField(models.PositiveIntegerField(), default=list)
    gemm2_tactics = ArrayField(models.PositiveIntegerField(), default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=[
                    "release", "arch", "family", "inputs", "m", "n", "k",
                    "cluster", "fusion", "swap_ab", "schedule",
                ],
                name="listing_once",
            )
        ]  # fmt: skip

    def __str__(self) -> str:
        swap = " swap" if self.swap_ab else ""
        return f"{self.m}×{self.n}×{self.k} {self.fusion}{swap}"
