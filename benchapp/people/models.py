"""Who may do what, and who did what."""

from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class Role(models.TextChoices):
    """Each role may do all that the one before it may."""

    VIEWER = "viewer", "Viewer"
    OPERATOR = "operator", "Operator"
    ADMIN = "admin", "Admin"


#: From weakest to strongest.
ROLE_ORDER = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


class User(AbstractUser):
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)
    #: The API token that the current request came with, if one; not stored.
    via: ApiToken | None = None

    @property
    def effective_role(self) -> Role:
        """The role that counts now: the person's, or their token's where that is weaker."""
        roles = [Role(self.role)] if self.via is None else [Role(self.role), Role(self.via.role)]
        return min(roles, key=ROLE_ORDER.index)

    def may(self, role: Role) -> bool:
        """Whether this person, by the way they came, has `role` or a stronger one."""
        return self.is_active and ROLE_ORDER.index(self.effective_role) >= ROLE_ORDER.index(role)


class ApiToken(models.Model):
    """A bearer token. Only its SHA-256 is kept; the token itself is shown once."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=12, help_text="First characters, to tell tokens apart")
    digest = models.CharField(max_length=64, unique=True)
    role = models.CharField(max_length=16, choices=Role.choices, default=Role.VIEWER)
    created_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at"]

    def __str__(self) -> str:
        return f"{self.prefix}… ({self.name})"


class SetupLink(models.Model):
    """A one-time link by which a person chooses a password; without a user it makes the first admin."""

    user = models.ForeignKey(User, on_delete=models.CASCADE, null=True, related_name="setup_links")
    digest = models.CharField(max_length=64, unique=True)
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"setup link of {self.created_at:%Y-%m-%d}"


class LoginAttempt(models.Model):
    """One try to log in that has not succeeded, kept for as long as it counts towards a lock."""

    name = models.CharField(max_length=150, help_text="As it was typed, case folded")
    address = models.CharField(max_length=45, blank=True, help_text="IPv4, the /64 of an IPv6, or unknown")
    at = models.DateTimeField(auto_now_add=True, db_index=True)

    class Meta:
        indexes = [models.Index(fields=["name", "address", "at"])]

    def __str__(self) -> str:
        return f"{self.name} from {self.address or 'an unknown address'}"


class AuditEntry(models.Model):
    """One write that a person, a token or the machine itself made. Append-only."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    user = models.ForeignKey(User, on_delete=models.SET_NULL, null=True)
    actor = models.CharField(max_length=150, db_index=True, help_text="Name as it was then, or 'tilewatch'")
    action = models.CharField(max_length=64, db_index=True)
    subject = models.CharField(max_length=200)
    detail = models.JSONField(default=dict)

    class Meta:
        ordering = ["-at", "-id"]
        verbose_name_plural = "audit entries"

    def __str__(self) -> str:
        return f"{self.actor} {self.action} {self.subject}"
