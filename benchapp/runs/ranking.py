"""The one rule that decides what may rank as a speed."""

from __future__ import annotations

from collections.abc import Collection

from django.db.models import Q

#: ok, or unverified and saying so.
RANKED_OUTCOMES = frozenset({"ok", "unverified"})
#: Flags that take a measurement out of every ranking.
NEVER_RANKS = frozenset({"impossible"})
#: Flags that leave a speed uncertain beside another, in the order in which pages name them.
DOUBTFUL = ("throttled", "contended", "few_samples")


def may_rank(outcome: str, flags: Collection[str], invalid_reason: str = "") -> bool:
    return outcome in RANKED_OUTCOMES and not NEVER_RANKS.intersection(flags) and not invalid_reason


def ranked() -> Q:
    """The same rule as a filter on Measurement."""
    valid = Q(run=None) | Q(run__invalid_reason="")
    return Q(outcome__in=RANKED_OUTCOMES) & ~Q(flags__overlap=list(NEVER_RANKS)) & valid
