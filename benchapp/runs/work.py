"""What a worker does with the database: claim, beat, deliver, end. `worker_api.sql` decides every race.

Nothing here reads or writes a table, so a GPU host's role needs no right on any.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import json
from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db import connection

from benchapp.runs import broker
from benchapp.runs.models import Run

#: Raised whenever workers of an earlier version can no longer do what is asked of them.
PROTOCOL = 1
#: Runs of a priority below this are done while nobody needs the host.
BACKGROUND = 0


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """One attempt of a run: what is to be done."""

    run_id: int
    attempt: int
    kind: Run.Kind
    queue: str
    priority: int
    #: the recipe, package → version
    versions: dict[str, str]
    params: dict[str, Any]
    #: name of the environment it needs; "" for static work
    environment: str
    #: UUIDs of a gang; empty: the worker's own GPU
    gpus: tuple[str, ...]
    time_limit_s: int | None
    #: of an A/B, the old environment: `environment` and `versions` are the new one's
    environment_beside: str = ""
    versions_beside: dict[str, str] = dataclasses.field(default_factory=dict)

    @property
    def background(self) -> bool:
        return self.priority < BACKGROUND

    def __str__(self) -> str:
        return f"run {self.run_id}"


@dataclasses.dataclass(frozen=True, slots=True)
class Lease:
    """GPUs that an attempt held, by the clock of its host."""

    gpus: tuple[str, ...]
    since: dt.datetime
    until: dt.datetime | None = None

    def as_json(self) -> str:
        held = {"gpus": self.gpus, "from": self.since.isoformat()}
        return json.dumps(held | ({"to": self.until.isoformat()} if self.until else {}))


class Beat(enum.Enum):
    CONTINUE = "continue"
    CANCEL = "cancel"
    #: a better run needs the host; this one comes again later
    YIELD = "yield"
    #: somebody else holds the run now, or it has ended
    LOST = "lost"


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    done: int = 0
    total: int = 0
    message: str = ""


def _call(function: str, *arguments: Any) -> list[Any]:
    """The rows' first columns. `function` is one of `worker_api.CALLABLE`, its types cast."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT * FROM worker.{function}", arguments)  # noqa: S608 - written in this module
        return [row[0] for row in cursor.fetchall()]


def claim(
    queues: Sequence[str], worker: str, *, gpu: str = "", ready: Sequence[str] | None = None
) -> Claim | None:
    """Take the best runnable run of the queues. None when there is none for this worker now.

    `ready` names the environments that this host has built; None: whatever a run needs is there. Raises
    django.db.NotSupportedError where Tilewatch speaks another protocol.
    """
    (told,) = _call(
        "claim(%s, %s::text[], %s, %s, %s::text[])",
        PROTOCOL, list(queues), worker, gpu, None if ready is None else list(ready),
    )  # fmt: skip
    if told is None:
        return None
    found = json.loads(told) if isinstance(told, str) else told
    return Claim(**{**found, "kind": Run.Kind(found["kind"]), "gpus": tuple(found["gpus"])})


def beat(
    run_id: int,
    attempt: int,
    progress: Progress | None = None,
    log: str = "",
    *,
    lease: Lease | None = None,
    queues: Sequence[str] = (),
    ready: Sequence[str] | None = None,
) -> Beat:
    """Say that this attempt lives, how far it is, what it printed since the last beat, which GPUs it holds.

    `queues` and `ready`, as in `claim`, say what a background run makes way for.
    """
    (answer,) = _call(
        "beat(%s, %s, %s::jsonb, %s, %s::jsonb, %s::text[], %s::text[])",
        run_id,
        attempt,
        None if progress is None else _plain(json.dumps(dataclasses.asdict(progress))),
        _plain(log),
        None if lease is None else lease.as_json(),
        list(queues),
        None if ready is None else list(ready),
    )
    return Beat(answer)


def deliver(run_id: int, attempt: int, body: bytes, lease: Lease | None = None) -> int:
    """A document into the inbox; its id there. Ingest decides what becomes of it."""
    (document,) = _call(
        "deliver(%s, %s, %s, %s::jsonb)", run_id, attempt, body, None if lease is None else lease.as_json()
    )
    broker.ask_ingest(document)
    return int(document)


def fail(run_id: int, attempt: int, code: str, sentence: str, lease: Lease | None = None) -> bool:
    """End this attempt's run as failed, with one sentence for people. False if the run is no longer ours."""
    return _end(run_id, attempt, "failed", code, sentence, lease)


def give_up_cancelled(run_id: int, attempt: int, lease: Lease | None = None) -> bool:
    """The worker has ended the child of a run that somebody cancelled."""
    return _end(run_id, attempt, "cancelled", "", "", lease)


def put_back(run_id: int, attempt: int, outcome: str = "put back", lease: Lease | None = None) -> bool:
    """A worker that stops or yields gives its run back; this does not count as a lost attempt."""
    return _end(run_id, attempt, outcome, "", "", lease)


def _end(run_id: int, attempt: int, outcome: str, code: str, sentence: str, lease: Lease | None) -> bool:
    (mine,) = _call(
        "end_attempt(%s, %s, %s, %s, %s, %s::jsonb)",
        run_id, attempt, outcome, code, _plain(sentence), None if lease is None else lease.as_json(),
    )  # fmt: skip
    broker.ask_control(broker.ENDED_TASK)
    return bool(mine)


def built(run_id: int, attempt: int) -> bool:
    """The environment that a run of kind *build* was for is there: all that such a run leaves."""
    return _end(run_id, attempt, "built", "", "", None)


def release(worker: str) -> None:
    """A worker that has just started cannot be working: what it held in an earlier life is lost."""
    broker.wake(_call("release(%s, %s)", worker, settings.MAX_ATTEMPTS))
    broker.ask_control(broker.ENDED_TASK)


def under_way(worker: str) -> set[str]:
    """ "run-attempt" of all that the workers of this worker's installation are at."""
    return set(_call("under_way(%s)", worker))


def _plain(text: str) -> str:
    """NUL is the one character that Postgres text cannot hold."""
    return text.replace("\x00", "�").replace("\\u0000", "�")
