"""What is compared with what: targets, stacks, recipes, cases and the series they make."""

from __future__ import annotations

from django.db import models

from benchapp.catalog.digests import recipe_words


class Host(models.Model):
    name = models.CharField(max_length=100, unique=True)
    first_seen_at = models.DateTimeField(auto_now_add=True)

    def __str__(self) -> str:
        return self.name


class Target(models.Model):
    """A GPU (by UUID), a host's CPUs, or an architecture (static work needs no GPU)."""

    class Kind(models.TextChoices):
        ARCH = "arch", "architecture"
        CPU = "cpu", "CPU"
        GPU = "gpu", "GPU"
        ENDPOINT = "endpoint", "endpoint"

    key = models.CharField(
        max_length=200, unique=True, help_text="arch:sm120, gpu:GPU-…, cpu:digest of host and model"
    )
    kind = models.CharField(max_length=8, choices=Kind.choices)
    arch = models.CharField(max_length=20, help_text="sm120, sm90, x86_64 …")
    model = models.CharField(max_length=120, blank=True, help_text="Product name as the device tells it")
    uuid = models.CharField(max_length=80, blank=True)
    host = models.ForeignKey(Host, on_delete=models.PROTECT, null=True)
    properties = models.JSONField(default=dict, help_text="sm_count, l2_bytes, smem_optin_bytes …")
    described_at = models.DateTimeField(null=True, help_text="Of the newest document that described it")

    def __str__(self) -> str:
        return self.model or self.arch.upper()


class Configuration(models.Model):
    """Settings somebody chose on a GPU; part of what is comparable. Readings never are."""

    digest = models.CharField(max_length=64, unique=True)
    settings = models.JSONField(default=dict)

    def __str__(self) -> str:
        return ", ".join(f"{k}={v}" for k, v in sorted(self.settings.items())) or "default"


class Recipe(models.Model):
    """Versions asked for, e.g. {"flashinfer": "0.6.3"} or {"torch": "2.13.0"}."""

    digest = models.CharField(max_length=64, unique=True)
    versions = models.JSONField(default=dict)

    def __str__(self) -> str:
        return recipe_words(self.versions)


class Release(models.Model):
    """One version of a package that evidence speaks of; `cutlass` is what its wheel bundles."""

    package = models.CharField(max_length=40)
    version = models.CharField(max_length=40)
    cutlass = models.CharField(max_length=40, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["package", "version"], name="release_once")]

    def __str__(self) -> str:
        return f"{self.package} {self.version}"


class Stack(models.Model):
    """Versions observed in a run, identified by the digest of the sorted set."""

    digest = models.CharField(max_length=64, unique=True)
    components = models.JSONField(default=dict)

    def __str__(self) -> str:
        return ", ".join(f"{name} {version}" for name, version in sorted(self.components.items()))


class Case(models.Model):
    """What is measured, free of stack and hardware: kind and canonical parameters."""

    digest = models.CharField(max_length=64, unique=True)
    kind = models.CharField(max_length=20)
    params = models.JSONField(default=dict)
    label = models.CharField(max_length=200)
    shape = models.CharField(max_length=120, db_default="", help_text="What a sweep holds still: 4096x7168")
    dtype = models.CharField(max_length=40, db_default="", help_text="Format of the inputs")
    size = models.BigIntegerField(null=True, help_text="What a sweep varies: rows, tokens, sequences")

    class Meta:
        indexes = [models.Index(fields=["kind", "shape", "dtype", "size"], name="case_sweep")]

    def __str__(self) -> str:
        return self.label


class Series(models.Model):
    """One case × one target × configuration × backend × metric, over stacks and time."""

    case = models.ForeignKey(Case, on_delete=models.PROTECT)
    target = models.ForeignKey(Target, on_delete=models.PROTECT)
    configuration = models.ForeignKey(Configuration, on_delete=models.PROTECT)
    backend = models.CharField(max_length=120)
    metric = models.CharField(max_length=20)

    class Meta:
        verbose_name_plural = "series"
        constraints = [
            models.UniqueConstraint(
                fields=["case", "target", "configuration", "backend", "metric"], name="series_once"
            )
        ]

    def __str__(self) -> str:
        return f"{self.case} · {self.backend} on {self.target}"
