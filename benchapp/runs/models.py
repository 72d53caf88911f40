"""Jobs, their runs and attempts, the inbox, and what was measured."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from benchapp.catalog.models import Recipe, Series, Stack, Target


class State(models.TextChoices):
    """Legal moves: see `benchapp.runs.states`."""

    QUEUED = "queued", "queued"
    RUNNING = "running", "running"
    DELIVERED = "delivered", "delivered"
    DONE = "done", "done"
    FAILED = "failed", "failed"
    CANCELLED = "cancelled", "cancelled"


class Job(models.Model):
    """A request: somebody or something asked for work; its runs do it."""

    class Source(models.TextChoices):
        FIRST_START = "first_start", "first start"
        PERSON = "person", "person"
        COMMAND = "command", "command line"
        FOLLOW_UP = "follow_up", "follow-up of another run"
        SCHEDULE = "schedule", "schedule"
        RELEASE_WATCH = "release_watch", "release watch"
        BACKFILL = "backfill", "backfill"

    title = models.CharField(max_length=200)
    source = models.CharField(max_length=16, choices=Source.choices)
    key = models.CharField(  # noqa: DJ001 - unique, and most jobs have none
        max_length=64, unique=True, null=True, help_text="Asking again with the same key makes no second job"
    )
    asked = models.JSONField(
        default=dict, help_text="What was asked for, as the trigger page would be filled"
    )
    requested_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.title


class Run(models.Model):
    """One case list, one recipe, one target. Postgres decides who works on it; a message only wakes."""

    class Kind(models.TextChoices):
        TILES = "tiles", "tile survey"
        GEMM = "gemm", "GEMM benchmark"
        MOE = "moe", "MoE model benchmark"
        SERVING = "serving", "serving benchmark"
        BUILD = "build", "environment build"
        CONFIRM = "confirm", "A/B of two environments"

    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="runs")
    kind = models.CharField(max_length=16, choices=Kind.choices)
    queue = models.CharField(max_length=80)
    state = models.CharField(max_length=16, choices=State.choices, default=State.QUEUED)
    priority = models.SmallIntegerField(default=0, help_text="Higher goes first")
    turn = models.BigIntegerField(
        default=0, help_text="Lower goes first among equals, so that jobs of one queue take turns"
    )
    recipe = models.ForeignKey(Recipe, on_delete=models.PROTECT)
    target = models.ForeignKey(Target, on_delete=models.PROTECT, null=True)
    params = models.JSONField(default=dict, help_text="What the bench is told: cases, device …")
    environment = models.CharField(
        max_length=16, blank=True, help_text="Name of the environment that its host must have built before"
    )
    recipe_beside = models.ForeignKey(
        Recipe,
        on_delete=models.PROTECT,
        null=True,
        related_name="+",
        help_text="Of an A/B: the old one, `recipe` being the new one",
    )
    environment_beside = models.CharField(
        max_length=16,
        blank=True,
        db_default="",
        help_text="The environment of `recipe_beside`, which must be there too",
    )
    gpus = ArrayField(
        models.CharField(max_length=80),
        default=list,
        help_text="UUIDs of a gang; empty: the worker's own GPU",
    )
    time_limit_s = models.PositiveIntegerField(null=True, help_text="None: what its kind may take")
    waits_for = models.ForeignKey(
        "self",
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="Starts after this one ended",
    )
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)

    attempt = models.PositiveSmallIntegerField(default=0)
    worker = models.CharField(max_length=120, blank=True)
    heartbeat_at = models.DateTimeField(null=True)
    cancel_requested_at = models.DateTimeField(null=True)
    progress_done = models.PositiveIntegerField(default=0)
    progress_total = models.PositiveIntegerField(default=0)
    progress_message = models.CharField(max_length=300, blank=True)

    failure_code = models.CharField(max_length=40, blank=True)
    failure = models.TextField(blank=True, help_text="One clear sentence")
    invalid_reason = models.TextField(blank=True, help_text="Why a person took it out of ranking")
    told = models.BooleanField(default=False, help_text="Listeners have heard of its end")

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(
                fields=["queue", "-priority", "turn", "id"],
                name="run_claim",
                condition=models.Q(state=State.QUEUED),
            ),
            models.Index(
                fields=["heartbeat_at"],
                name="run_alive",
                condition=models.Q(state__in=[State.RUNNING, State.DELIVERED]),
            ),
            models.Index(
                fields=["id"],
                name="run_untold",
                condition=models.Q(told=False, state__in=[State.DONE, State.FAILED, State.CANCELLED]),
            ),
        ]

    def __str__(self) -> str:
        return f"run {self.pk}"


class Attempt(models.Model):
    """One claim of a run, with the log it wrote."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveSmallIntegerField()
    worker = models.CharField(max_length=120)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True)
    outcome = models.CharField(max_length=40, blank=True, help_text="delivered, failed, lost, cancelled")
    failure = models.TextField(blank=True)
    log = models.TextField(blank=True)
    gpus = ArrayField(
        models.CharField(max_length=80), default=list, help_text="UUIDs of the GPUs it held, by its own word"
    )
    lease_from = models.DateTimeField(null=True, help_text="By the clock of its host")
    lease_to = models.DateTimeField(null=True, help_text="None: still held, or its worker was lost")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["run", "number"], name="attempt_once")]

    def __str__(self) -> str:
        return f"run {self.run_id}, attempt {self.number}"


class Maintenance(models.Model):
    """A GPU or a whole host takes no new runs, from `starts_at` on. A drain has no end until it is lifted."""

    gpu = models.CharField(max_length=80, blank=True, help_text="UUID; empty: every GPU of the host")
    host = models.CharField(max_length=100, blank=True, help_text="Name; empty where `gpu` is named")
    reason = models.CharField(max_length=300)
    starts_at = models.DateTimeField(db_default=Now())
    ends_at = models.DateTimeField(null=True, help_text="None: until lifted")
    lifted_at = models.DateTimeField(null=True)
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(
                condition=models.Q(gpu="", host__gt="") | models.Q(gpu__gt="", host=""),
                name="maintenance_of_one_thing",
            )
        ]

    def __str__(self) -> str:
        return f"{self.gpu or self.host}: {self.reason}"


class WorkerRole(models.Model):
    """A Postgres role of a GPU host's workers, and the one host whose runs it may touch."""

    role = models.CharField(max_length=63, unique=True)
    host = models.CharField(max_length=100)
    created_at = models.DateTimeField(db_default=Now())
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return self.role


class Document(models.Model):
    """The inbox: every document as it came, byte for byte, and what became of it."""

    class State(models.TextChoices):
        RECEIVED = "received", "received"
        ACCEPTED = "accepted", "accepted"
        SUPERSEDED = "superseded", "superseded"
        REJECTED = "rejected", "rejected"

    class Origin(models.TextChoices):
        WORKER = "worker", "measured here"
        FILE = "file", "from a file"
        RECORDED = "recorded", "recorded elsewhere"
        IMPORT = "import", "imported from another tool's file"

    sha256 = models.CharField(max_length=64, unique=True)
    body = models.BinaryField()
    size = models.PositiveBigIntegerField()
    origin = models.CharField(max_length=12, choices=Origin.choices)
    name = models.CharField(max_length=300, blank=True, help_text="File name, where it came from a file")
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, related_name="documents")
    attempt = models.PositiveSmallIntegerField(null=True)
    state = models.CharField(max_length=12, choices=State.choices, default=State.RECEIVED)
    fault = models.TextField(blank=True)
    schema_version = models.PositiveSmallIntegerField(null=True)
    kind = models.CharField(max_length=20, blank=True)
    target = models.ForeignKey(Target, on_delete=models.PROTECT, null=True)
    stack = models.ForeignKey(Stack, on_delete=models.PROTECT, null=True)
    facts = models.JSONField(default=dict, help_text="command, times, costs: all but the bulk")
    received_at = models.DateTimeField(db_default=Now())
    ingested_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["run"], condition=models.Q(state="accepted"), name="one_accepted_document_a_run"
            )
        ]

    def __str__(self) -> str:
        return f"document {self.sha256[:12]}"


class Measurement(models.Model):
    """One case's outcome in a run. A leaf table, partitioned by month; nothing may point at it.

    Times in seconds, clocks in MHz, power in W, temperature in °C.
    """

    pk = models.CompositePrimaryKey("measured_at", "id")
    id = models.BigIntegerField()
    measured_at = models.DateTimeField()
    document = models.ForeignKey(Document, on_delete=models.DO_NOTHING, db_constraint=False)
    run = models.ForeignKey(Run, on_delete=models.DO_NOTHING, db_constraint=False, null=True)
    series = models.ForeignKey(Series, on_delete=models.DO_NOTHING, db_constraint=False)
    stack = models.ForeignKey(Stack, on_delete=models.DO_NOTHING, db_constraint=False)
    outcome = models.CharField(max_length=16)
    flags = ArrayField(models.CharField(max_length=24), default=list)
    n = models.PositiveIntegerField(default=0)
    median = models.FloatField(null=True)
    q1 = models.FloatField(null=True)
    q3 = models.FloatField(null=True)
    min = models.FloatField(null=True)
    host_median = models.FloatField(null=True)
    host_q1 = models.FloatField(null=True)
    host_q3 = models.FloatField(null=True)
    discarded = models.PositiveIntegerField(db_default=0, help_text="Samples thrown away: the clock was low")
    process_medians = ArrayField(
        models.FloatField(), db_default=[], help_text="GPU seconds of each fresh process"
    )
    process_host_medians = ArrayField(models.FloatField(), db_default=[])
    timer = models.CharField(max_length=16, blank=True)
    l2_policy = models.CharField(max_length=10, blank=True)
    pdl = models.BooleanField(null=True)
    inputs = models.CharField(max_length=80, blank=True)
    kernel = models.CharField(max_length=300, blank=True)
    flops = models.FloatField(null=True)
    bytes = models.FloatField(null=True)
    reference = models.CharField(max_length=300, blank=True)
    cosine = models.FloatField(null=True)
    max_relative_error = models.FloatField(null=True)
    tolerance = models.FloatField(null=True)
    nan_count = models.BigIntegerField(null=True)
    zero_count = models.BigIntegerField(null=True)
    elements = models.BigIntegerField(null=True)
    sm_clock_mhz_min = models.FloatField(null=True)
    sm_clock_mhz_median = models.FloatField(null=True)
    sm_clock_mhz_max = models.FloatField(null=True)
    power_w = models.FloatField(null=True)
    temperature_c = models.FloatField(null=True)
    throttle_reasons = ArrayField(models.CharField(max_length=60), default=list)
    facts = models.JSONField(
        null=True, help_text="`Step` or `Serving` of workers.bench.document, of whole models and servers"
    )
    error = models.TextField(blank=True)

    class Meta:
        db_table = "runs_measurement"

    def __str__(self) -> str:
        return f"measurement {self.id}"


class Sample(models.Model):
    """The samples of one measurement (seconds per call, in the order taken). Partitioned like it."""

    pk = models.CompositePrimaryKey("measured_at", "measurement_id")
    measured_at = models.DateTimeField()
    measurement_id = models.BigIntegerField()
    values = ArrayField(models.FloatField())

    class Meta:
        db_table = "runs_sample"

    def __str__(self) -> str:
        return f"samples of {self.measurement_id}"


class Latest(models.Model):
    """The newest measurement of a series beside the newest that may rank, so that a failure stays visible."""

    series = models.OneToOneField(Series, on_delete=models.CASCADE, primary_key=True)
    measurement_id = models.BigIntegerField()
    measured_at = models.DateTimeField()
    outcome = models.CharField(max_length=16)
    flags = ArrayField(models.CharField(max_length=24), default=list)
    median = models.FloatField(null=True)
    good_measurement_id = models.BigIntegerField(null=True)
    good_measured_at = models.DateTimeField(null=True)
    good_median = models.FloatField(null=True)

    class Meta:
        verbose_name_plural = "latest"

    def __str__(self) -> str:
        return f"latest of series {self.series_id}"
