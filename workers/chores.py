"""The worker of chores: it tells Tilewatch how this host is, delivers what lies in the spool, and tidies up.

    celery -A benchapp.celery worker --include=workers.chores --pool=solo -Q chores.INSTALLATION

Two threads beside its one task at a time. Neither ends of an error: what fails now is tried again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from celery import shared_task
from celery.signals import worker_init
from django.conf import settings
from django.db import close_old_connections

from benchapp.fleet import work
from workers import collect, disk, gpus, identity, postgres, presence, report, spool
from workers.disk import Inventory

logger = logging.getLogger(__name__)

REPORT_EVERY_S = 10.0
#: Sizes of folders are looked at, and folders of attempts that are over removed.
LOOK_EVERY_S = 300.0
COLLECT_EVERY_S = 3600.0


class Chores:
    """What the threads share. Everything else is theirs alone."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.supervisor = os.getppid()
        self.inventory = Inventory(home)
        self.disk: dict[str, int] = {}
        self._watch = gpus.Watch()
        self._xids: deque[dict[str, Any]] = deque(maxlen=report.MOST_XIDS)

    def name(self) -> str:
        return f"chores@{identity.host_name()}/{identity.installation_key()}"

    def report(self) -> None:
        """Look at the GPUs, say which of them take no runs, and send one report."""
        plan = report.read_plan(self.home)
        found = self._watch.look()
        self._xids.extend(found["xids"])
        presence.tell(self.home, report.unusable(plan, found))
        content = report.payload(
            plan,
            found,
            supervisor=self.supervisor,
            xids=list(self._xids),
            disk=self.disk,
            # anew each time: a run may wait for one that was built just now
            environments=self.inventory.environments(),
        )
        work.report(self.name(), content)

    def deliver(self) -> None:
        """What a worker could not deliver and left, in case that no run follows."""
        spool.flush(self.home / "spool")

    def look(self) -> None:
        """Measure the folders, remove those of attempts that are over."""
        allowed = disk.budget()
        budget = {} if allowed is None else {"budget_bytes": allowed}
        self.disk = self.inventory.sizes() | budget
        if removed := collect.sweep_attempts(self.home, self.name()):
            logger.info("%d folders of attempts that are over were removed", removed)

    def make_room(self) -> None:
        collect.collect(self.inventory, disk.budget())


class Patience:
    """Does a chore whatever comes, and says only once that it fails, and when it works again."""

    def __init__(self, name: str, chore: Callable[[], object]) -> None:
        self._name = name
        self._chore = chore
        self._trouble = ""

    def __call__(self) -> None:
        try:
            self._chore()
        except postgres.TROUBLES as error:
            self._note(postgres.sentence(error), error)
        except Exception as error:
            self._note(f"{type(error).__name__}: {error}", error)
        else:
            if self._trouble:
                logger.info("%s: it works again", self._name)
            self._trouble = ""

    def _note(self, sentence: str, error: Exception) -> None:
        if sentence != self._trouble:
            logger.warning(
                "%s: %s",
                self._name,
                sentence,
                exc_info=not isinstance(error, (*postgres.TROUBLES, ValueError)),
            )
        self._trouble = sentence


def _tell(chores: Chores) -> None:
    tasks = (
        Patience("the connection", close_old_connections),
        Patience("the report", chores.report),
        Patience("the spool", chores.deliver),
    )
    while True:
        for task in tasks:
            task()
        time.sleep(REPORT_EVERY_S)


def _tidy(chores: Chores) -> None:
    look, room = Patience("the look at the disk", chores.look), Patience("the collection", chores.make_room)
    begin_anew = Patience("the connection", close_old_connections)
    due = time.monotonic() + LOOK_EVERY_S
    while True:
        begin_anew()
        look()
        if time.monotonic() >= due:
            room()
            look()
            due = time.monotonic() + COLLECT_EVERY_S
        time.sleep(LOOK_EVERY_S)


@worker_init.connect  # type: ignore[untyped-decorator]
def begin(**kwargs: object) -> None:
    """Start the threads, also while the broker is away; they end with the process."""
    chores = Chores(Path(settings.HOME))
    for work_on in (_tell, _tidy):
        threading.Thread(target=work_on, args=(chores,), daemon=True).start()


@shared_task(name="workers.collect")  # type: ignore[untyped-decorator]
def make_room() -> int:
    """Make room now, whoever asks; returns how many things were removed."""
    return len(collect.collect(Inventory(Path(settings.HOME)), disk.budget()))
