"""Hosts and GPUs as their workers report them; schedules, the release watch, candidates."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from benchapp.runs.models import Job


class Report(models.Model):
    """The newest report of an installation, as it came. `benchapp.fleet.reports` says what it holds."""

    installation = models.CharField(max_length=16, unique=True)
    worker = models.CharField(max_length=120)
    payload = models.JSONField()
    at = models.DateTimeField(db_default=Now())
    taken_at = models.DateTimeField(null=True, help_text="When it was last turned into the rows below")

    def __str__(self) -> str:
        return f"report of {self.installation}"


class Installation(models.Model):
    """The workers that share one data folder on one host."""

    key = models.CharField(max_length=16, unique=True, help_text="As in the names of its workers")
    host = models.CharField(max_length=100)
    machine = models.CharField(
        max_length=64,
        blank=True,
        help_text="Digest of the machine's own id: tells two hosts of one name apart",
    )
    labels = models.JSONField(default=dict)
    version = models.CharField(max_length=40, blank=True)
    protocol = models.PositiveSmallIntegerField(
        default=0, help_text="Of its workers; another one gets no work"
    )
    queues = ArrayField(models.CharField(max_length=120), default=list, help_text="That its workers serve")
    environments = models.JSONField(default=dict, help_text="Name → {bytes, used_at}: built and ready")
    facts = models.JSONField(default=dict, help_text="Driver, CPUs, memory, disk …")
    first_seen_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now())
    silent = models.BooleanField(default=False, help_text="Not heard for so long that an event was raised")

    class Meta:
        ordering = ["host", "key"]

    def __str__(self) -> str:
        return self.host


class Gpu(models.Model):
    """One GPU as one installation sees it."""

    installation = models.ForeignKey(Installation, on_delete=models.CASCADE, related_name="gpus")
    uuid = models.CharField(max_length=80)
    index = models.PositiveSmallIntegerField()
    model = models.CharField(max_length=120)
    arch = models.CharField(max_length=20)
    memory_bytes = models.BigIntegerField(null=True)
    configuration = models.JSONField(default=dict, help_text="Settings somebody chose: power limit, clocks …")
    readings = models.JSONField(default=dict, help_text="Temperature, power, ECC counts, foreign processes …")
    problems = models.JSONField(default=list, help_text="Sentences; empty: nothing is wrong")
    served = models.BooleanField(default=True, help_text="A worker of this installation is pinned to it")
    present = models.BooleanField(default=True, help_text="It answered in the newest report")
    seen_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["installation", "index"]
        constraints = [models.UniqueConstraint(fields=["installation", "uuid"], name="gpu_once")]

    def __str__(self) -> str:
        return f"{self.model} {self.uuid}"


class Schedule(models.Model):
    """Work that is asked for again and again. Exactly one of `cron` and `interval_s` is set."""

    class Missed(models.TextChoices):
        RUN = "run", "run once, late"
        SKIP = "skip", "skip and record"

    name = models.CharField(max_length=100, unique=True)
    ask = models.JSONField(help_text="As benchapp.fleet.asks.Ask writes it")
    cron = models.CharField(max_length=100, blank=True)
    interval_s = models.PositiveIntegerField(null=True)
    timezone = models.CharField(max_length=60, default="UTC")
    missed = models.CharField(max_length=4, choices=Missed.choices, default=Missed.RUN)
    skip_if_running = models.BooleanField(default=True)
    paused_at = models.DateTimeField(null=True)
    next_due = models.DateTimeField(null=True, db_index=True)
    created_at = models.DateTimeField(db_default=Now())
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(cron="", interval_s__isnull=False)
                | models.Q(cron__gt="", interval_s__isnull=True),
                name="schedule_cron_or_interval",
            )
        ]

    def __str__(self) -> str:
        return self.name


class Firing(models.Model):
    """What became of one due time of a schedule."""

    class Outcome(models.TextChoices):
        ASKED = "asked", "asked"
        RUNNING = "running", "skipped, the one before was still running"
        MISSED = "missed", "skipped, missed"
        REFUSED = "refused", "could not be asked for"

    schedule = models.ForeignKey(Schedule, on_delete=models.CASCADE, related_name="firings")
    due_at = models.DateTimeField()
    at = models.DateTimeField(db_default=Now())
    outcome = models.CharField(max_length=8, choices=Outcome.choices)
    sentence = models.TextField(blank=True)
    by_hand = models.BooleanField(default=False)
    job = models.ForeignKey(Job, on_delete=models.SET_NULL, null=True, related_name="firings")
    checked = models.BooleanField(default=False, help_text="Whether it yielded data has been looked at")

    class Meta:
        ordering = ["-due_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["schedule", "due_at"], name="firing_once")]

    def __str__(self) -> str:
        return f"{self.schedule}, due {self.due_at:%Y-%m-%d %H:%M}"


class WatchedRelease(models.Model):
    """A version that the package index offered. The first look makes rows and asks for nothing."""

    package = models.CharField(max_length=60, help_text="As on the index: flashinfer-python …")
    version = models.CharField(max_length=60)
    first_seen_at = models.DateTimeField(db_default=Now())
    new = models.BooleanField(default=False, help_text="It appeared after the first look")
    job = models.ForeignKey(Job, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ["-first_seen_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["package", "version"], name="watched_release_once")]

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Candidate(models.Model):
    """A wheel that is no release, registered by an operator: a patch under test."""

    package = models.CharField(max_length=40, help_text="As in recipes: flashinfer …")
    version = models.CharField(
        max_length=60, help_text="Its own, with the content hash: 0.6.3+candidate.1a2b3c4d5e6f"
    )
    sha256 = models.CharField(max_length=64, unique=True)
    size = models.PositiveBigIntegerField()
    body = models.BinaryField()
    origin = models.CharField(max_length=300, help_text="Name of the file or folder that it was made from")
    note = models.CharField(max_length=300, blank=True)
    registered_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    registered_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-registered_at", "-id"]
        constraints = [models.UniqueConstraint(fields=["package", "version"], name="candidate_once")]

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Endpoint(models.Model):
    """An OpenAI-compatible server that may be measured. What is stated of it is a person's word."""

    name = models.CharField(max_length=60, unique=True)
    url = models.CharField(max_length=300, help_text="Its base: requests go to …/v1/chat/completions")
    model = models.CharField(max_length=120, help_text="As the server knows it")
    hardware = models.CharField(max_length=120, help_text="Stated: 8 × RTX PRO 6000")
    gpus = models.PositiveIntegerField(null=True)
    stack = models.JSONField(default=dict, help_text="Stated: component → version")
    api_key_env = models.CharField(
        max_length=80, blank=True, help_text="Name of the variable of a worker host that holds its API key"
    )
    enabled = models.BooleanField(default=True)
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    added_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name
