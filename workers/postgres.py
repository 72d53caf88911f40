"""Troubles between a worker and Postgres, and what each means: wait, or speak to a person."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from django.db import InterfaceError, OperationalError, ProgrammingError, close_old_connections

from workers.stopping import stopping

T = TypeVar("T")

logger = logging.getLogger(__name__)

PAUSE_S, LONGEST_PAUSE_S = 1.0, 30.0
#: What Django raises while a worker cannot use Postgres; of ProgrammingError only what `is_refusal` knows.
TROUBLES = (OperationalError, InterfaceError, ProgrammingError)
#: insufficient privilege, unknown function, unknown schema: a role that was revoked, or another version
REFUSALS = frozenset({"42501", "42883", "3F000"})
#: invalid authorization, wrong or expired password
NO_ENTRY = frozenset({"28000", "28P01"})
NO_ENTRY_WORDS = ("password authentication failed", "is not permitted to log in", "no pg_hba.conf entry")


def is_refusal(error: BaseException) -> bool:
    """Postgres is there and will not have this worker; only a person can change that."""
    return isinstance(error, ProgrammingError) and _state(error) in REFUSALS


def is_trouble(error: BaseException) -> bool:
    """It may pass: what was measured must be kept, and tried again."""
    return isinstance(error, (OperationalError, InterfaceError)) or is_refusal(error)


def sentence(error: BaseException) -> str:
    """What is wrong, in one line, and who can help."""
    told = " ".join(str(error).split())[:300]
    if is_refusal(error):
        return f"Postgres refuses this worker: {told} (was its role revoked, or Tilewatch upgraded?)"
    if _state(error) in NO_ENTRY or any(words in told for words in NO_ENTRY_WORDS):
        return f"Postgres does not let this worker in: {told} (was its role revoked, or has it expired?)"
    return f"Postgres is away: {type(error).__name__}, {told}"


def _state(error: BaseException) -> str:
    return getattr(error.__cause__, "sqlstate", None) or ""


def patiently(what: Callable[[], T]) -> T:
    """Do it, however long Postgres is away; given up only when this worker is asked to stop."""
    pause = PAUSE_S
    while True:
        try:
            return what()
        except TROUBLES as error:
            if not is_trouble(error) or stopping.is_set():
                raise
            logger.warning("%s; tried again in %.0f s", sentence(error), pause)
        close_old_connections()
        stopping.wait(pause)
        pause = min(2 * pause, LONGEST_PAUSE_S)
