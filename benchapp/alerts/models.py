"""Events, changes found in series, the alerts made of both, what confirmed them, and who is told."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models.functions import Now

from benchapp.catalog.models import Case, Host, Series, Stack, Target
from benchapp.runs.models import Document, Run


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


class Watch(models.Model):
    """A series under detection: whether it has to be looked at, what came of the last look, what a person
    set for it."""

    series = models.OneToOneField(Series, on_delete=models.CASCADE, primary_key=True, related_name="watch")
    due_at = models.DateTimeField(null=True, help_text="Since when new measurements wait; None: none do")
    looked_at = models.DateTimeField(null=True)
    lag_s = models.FloatField(null=True, help_text="Of the last look, since its oldest new measurement")
    points = models.PositiveIntegerField(default=0, help_text="That the last look rested on")
    spread = models.FloatField(
        null=True, help_text="Relative run-to-run spread of the series' own; None: too few points"
    )
    failure = models.TextField(blank=True, help_text="Why the last look came to nothing")
    known_from = models.DateTimeField(
        null=True, help_text="A new baseline: what was measured before is not compared with"
    )
    muted = models.BooleanField(default=False)
    stacks = ArrayField(
        models.BigIntegerField(), default=list, help_text="That its points go through, in their order"
    )
    least_effect = models.FloatField(null=True, help_text="Set by a person; None: the usual")
    set_spread = models.FloatField(null=True, help_text="Set by a person; None: the series' own")
    minimum_history = models.PositiveIntegerField(null=True, help_text="Set by a person; None: the usual")

    class Meta:
        indexes = [
            models.Index(fields=["due_at"], name="watch_due", condition=models.Q(due_at__isnull=False)),
            models.Index(fields=["looked_at"], name="watch_looked"),
        ]

    def __str__(self) -> str:
        return f"watch of {self.series_id}"


class Alert(models.Model):
    """One thing for a person to look at; it may hold many changes. `key` says which thing it is: no two open
    alerts have one key."""

    class Kind(models.TextChoices):
        STACK = "stack", "moved with a version"
        MACHINE = "machine", "moved with the machine"
        BUILD = "build", "build cost moved"
        DRIFT = "drift", "host drifts"
        COVERAGE = "coverage", "coverage lost"
        SCHEDULE = "schedule", "schedule without data"
        CORRECTNESS = "correctness", "correctness lost"
        IMPOSSIBLE = "impossible", "impossible number"
        SURVIVORS = "survivors", "survivors vanished"
        TACTIC = "tactic", "chosen tile changed"

    class State(models.TextChoices):
        NEW = "new", "new"
        ACKNOWLEDGED = "acknowledged", "acknowledged"
        INVESTIGATING = "investigating", "investigating"
        FIXED = "fixed", "fixed"
        WONT_FIX = "wont_fix", "won't fix"
        INVALID = "invalid", "invalid"
        MACHINE = "machine", "machine"

    class Confirm(models.TextChoices):
        """How far its confirming is: the verdict itself stands in `verdict`."""

        NONE = "", "not asked"
        ASKED = "asked", "asked"
        DONE = "done", "done"
        CANNOT = "cannot", "cannot be asked"

    class Verdict(models.TextChoices):
        NONE = "", "none"
        SAME = "SAME", "same"
        FAST = "FAST", "faster"
        SLOW = "SLOW", "slower"
        AMBG = "AMBG", "uncertain"

    key = models.CharField(max_length=200)
    kind = models.CharField(max_length=12, choices=Kind.choices)
    state = models.CharField(max_length=13, choices=State.choices, default=State.NEW)
    title = models.CharField(max_length=200)
    sentence = models.TextField(help_text="What happened, in words")
    worse = models.BooleanField(help_text="A regression; False: an improvement")
    recorded = models.BooleanField(
        default=False, help_text="Made of documents that came with Tilewatch alone"
    )
    host = models.ForeignKey(Host, on_delete=models.PROTECT, null=True, related_name="+")
    target = models.ForeignKey(Target, on_delete=models.PROTECT, null=True, related_name="+")
    stack_before = models.ForeignKey(Stack, on_delete=models.PROTECT, null=True, related_name="+")
    stack_after = models.ForeignKey(Stack, on_delete=models.PROTECT, null=True, related_name="+")
    ratio = models.FloatField(null=True, help_text="After / before of its strongest change")
    importance = models.FloatField(default=1)
    confidence = models.FloatField(default=1)
    certain = models.BooleanField(help_text="Decided without a confirm job")
    cost = models.FloatField(default=0, help_text="effect × importance × confidence: benchapp.alerts.cost")
    suspects = models.JSONField(
        default=list, help_text="[{component, before, after, share, why}], the likeliest first"
    )
    evidence = models.JSONField(default=dict, help_text="What its kind has to show")
    confirm = models.CharField(max_length=6, choices=Confirm.choices, blank=True, default=Confirm.NONE)
    confirm_sentence = models.TextField(blank=True)
    confirm_run = models.ForeignKey(
        Run,
        on_delete=models.SET_NULL,
        null=True,
        related_name="+",
        help_text="The newest run that was asked for to confirm it",
    )
    confirm_facts = models.JSONField(
        default=dict, help_text="Of the newest confirming: series, digest of what was asked, tries"
    )
    verdict = models.CharField(max_length=4, choices=Verdict.choices, blank=True, default=Verdict.NONE)
    event = models.ForeignKey(Event, on_delete=models.SET_NULL, null=True, related_name="alerts")
    assignee = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    upstream_url = models.URLField(max_length=300, blank=True)
    snoozed_until = models.DateTimeField(null=True)
    snoozed_component = models.CharField(max_length=40, blank=True)
    snoozed_version = models.CharField(
        max_length=60, blank=True, help_text="Quiet until this version of the component was measured"
    )
    opened_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now(), help_text="When its evidence changed last")
    closed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-cost", "-id"]
        indexes = [models.Index(fields=["state", "-cost"], name="alert_inbox")]
        constraints = [
            models.UniqueConstraint(
                fields=["key"], condition=models.Q(closed_at=None), name="alert_open_once"
            ),
            models.CheckConstraint(
                condition=models.Q(state__in=["new", "acknowledged", "investigating"], closed_at__isnull=True)
                | models.Q(state__in=["fixed", "wont_fix", "invalid", "machine"], closed_at__isnull=False),
                name="alert_closed_has_time",
            ),
        ]

    def __str__(self) -> str:
        return self.title


class Change(models.Model):
    """A step found in one series. Levels in the series' unit; `ratio` is after / before."""

    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="changes")
    alert = models.ForeignKey(Alert, on_delete=models.SET_NULL, null=True, related_name="changes")
    at = models.DateTimeField(help_text="Measured-at of the first point of the new level")
    before_at = models.DateTimeField(help_text="Measured-at of the last point of the old level")
    stack_before = models.ForeignKey(Stack, on_delete=models.PROTECT, related_name="+")
    stack_after = models.ForeignKey(Stack, on_delete=models.PROTECT, related_name="+")
    before = models.FloatField()
    after = models.FloatField()
    ratio = models.FloatField()
    low = models.FloatField(help_text="95 % interval of the ratio")
    high = models.FloatField()
    confidence = models.FloatField()
    certain = models.BooleanField(help_text="The series alone decides; else it wants a confirm job")
    worse = models.BooleanField()
    n_before = models.PositiveIntegerField()
    n_after = models.PositiveIntegerField()
    found_at = models.DateTimeField(db_default=Now())
    seen_at = models.DateTimeField(db_default=Now(), help_text="When detection found it last")
    gone_at = models.DateTimeField(null=True, help_text="Since when detection finds it no longer")

    class Meta:
        ordering = ["-at", "-id"]
        constraints = [models.UniqueConstraint(fields=["series", "at"], name="change_once")]

    def __str__(self) -> str:
        return f"change of series {self.series_id} at {self.at:%Y-%m-%d %H:%M}"


class Entry(models.Model):
    """The history of an alert: who did what, or what happened to it."""

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="entries")
    at = models.DateTimeField(db_default=Now())
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+")
    actor = models.CharField(max_length=150, help_text="Name of the person then, or tilewatch")
    action = models.CharField(max_length=30, help_text="opened, joined, state, assigned, note, confirm …")
    sentence = models.TextField()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.sentence


class Comparison(models.Model):
    """What an A/B of two recipes on one target said of one case and metric."""

    document = models.ForeignKey(Document, on_delete=models.CASCADE, related_name="comparisons")
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, related_name="comparisons")
    alert = models.ForeignKey(Alert, on_delete=models.SET_NULL, null=True, related_name="comparisons")
    target = models.ForeignKey(Target, on_delete=models.PROTECT, related_name="+")
    case = models.ForeignKey(Case, on_delete=models.PROTECT, related_name="+")
    backend = models.CharField(max_length=120, blank=True)
    metric = models.CharField(max_length=20, help_text="time, host_time, cpu_time, size")
    old_stack = models.ForeignKey(Stack, on_delete=models.PROTECT, related_name="+")
    new_stack = models.ForeignKey(Stack, on_delete=models.PROTECT, related_name="+")
    verdict = models.CharField(max_length=4, choices=Alert.Verdict.choices)
    ratio = models.FloatField(null=True, help_text="New / old; None: a side gave no value")
    low = models.FloatField(null=True)
    high = models.FloatField(null=True)
    pairs = models.PositiveIntegerField(default=0)
    in_cycles = models.BooleanField(default=False, help_text="Times × clock, since the clock moved")
    facts = models.JSONField(default=dict, help_text="As the document writes it: values of each process …")
    at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return f"{self.case} {self.metric}: {self.verdict}"


class Bisect(models.Model):
    """The search for the first version of a component that has a change, step by step, each an A/B."""

    class State(models.TextChoices):
        RUNNING = "running", "running"
        FOUND = "found", "found"
        UNDECIDED = "undecided", "undecided"
        FAILED = "failed", "failed"
        CANCELLED = "cancelled", "cancelled"

    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, related_name="bisects")
    series = models.ForeignKey(Series, on_delete=models.CASCADE, related_name="+")
    component = models.CharField(max_length=40)
    versions = models.JSONField(help_text="Ordered, from the good one to the bad one")
    state = models.CharField(max_length=9, choices=State.choices, default=State.RUNNING)
    first_bad = models.CharField(max_length=60, blank=True)
    sentence = models.TextField(blank=True)
    asked_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    asked_at = models.DateTimeField(db_default=Now())
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(
                fields=["alert"], condition=models.Q(state="running"), name="bisect_one_an_alert"
            )
        ]

    def __str__(self) -> str:
        return f"bisect of {self.component} for alert {self.alert_id}"


class BisectStep(models.Model):
    bisect = models.ForeignKey(Bisect, on_delete=models.CASCADE, related_name="steps")
    number = models.PositiveSmallIntegerField()
    old_version = models.CharField(max_length=60)
    new_version = models.CharField(max_length=60)
    run = models.ForeignKey(Run, on_delete=models.SET_NULL, null=True, related_name="+")
    verdict = models.CharField(max_length=4, choices=Alert.Verdict.choices, blank=True)
    comparison = models.ForeignKey(Comparison, on_delete=models.SET_NULL, null=True, related_name="+")

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["bisect", "number"], name="bisect_step_once")]

    def __str__(self) -> str:
        return f"{self.old_version} against {self.new_version}"


class Channel(models.Model):
    """Somewhere that alerts are told. Its secrets stand in variables of the control worker, by name."""

    class Kind(models.TextChoices):
        EMAIL = "email", "e-mail"
        SLACK = "slack", "Slack-compatible webhook"
        WEBHOOK = "webhook", "signed webhook"

    name = models.CharField(max_length=60, unique=True)
    kind = models.CharField(max_length=8, choices=Kind.choices)
    config = models.JSONField(default=dict, help_text="Of its kind: addresses, URL, name of the secret …")
    enabled = models.BooleanField(default=True)
    wait_until = models.DateTimeField(
        null=True,
        help_text="Nothing is sent to it before then: an attempt is under way, or the last ones failed",
    )
    failures = models.PositiveSmallIntegerField(default=0, help_text="Attempts that failed in a row")
    added_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.SET_NULL, null=True, related_name="+"
    )
    added_at = models.DateTimeField(db_default=Now())

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name


class Route(models.Model):
    """Which alerts a channel gets: those that meet all that is set here; what is empty meets every alert."""

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="routes")
    kinds = models.JSONField(default=list, help_text="Of Alert.Kind")
    gpu_models = models.JSONField(default=list)
    moe_models = models.JSONField(default=list, help_text="Names of models")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, null=True, related_name="+")
    improvements = models.BooleanField(default=False, help_text="Improvements too")
    least_cost = models.FloatField(default=0)

    def __str__(self) -> str:
        return f"route to {self.channel_id}"


class Delivery(models.Model):
    """One message to one channel, until it was taken or given up."""

    class State(models.TextChoices):
        QUEUED = "queued", "queued"
        SENT = "sent", "sent"
        DEAD = "dead", "given up"

    class Purpose(models.TextChoices):
        OPENED = "opened", "opened"
        UPDATED = "updated", "update"
        CLOSED = "closed", "closed"
        DIGEST = "digest", "digest"
        TEST = "test", "test"

    channel = models.ForeignKey(Channel, on_delete=models.CASCADE, related_name="deliveries")
    alert = models.ForeignKey(Alert, on_delete=models.CASCADE, null=True, related_name="deliveries")
    purpose = models.CharField(max_length=7, choices=Purpose.choices)
    state = models.CharField(max_length=6, choices=State.choices, default=State.QUEUED)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True, db_default=Now(), help_text="None: nothing more is tried")
    error = models.TextField(blank=True)
    thread = models.CharField(
        max_length=200, blank=True, help_text="What ties an alert's messages together: a Message-ID, a thread"
    )
    message = models.JSONField(default=dict, help_text="Title, words and address, as they were then")
    made_at = models.DateTimeField(db_default=Now())
    sent_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["next_at"], name="delivery_due", condition=models.Q(state="queued"))]
        constraints = [
            models.UniqueConstraint(
                fields=["channel", "alert"],
                condition=models.Q(purpose="opened"),
                name="delivery_opened_once",
            )
        ]

    def __str__(self) -> str:
        return f"{self.purpose} to {self.channel_id}"
