"""The work of a soak: runs asked for in batches, some of them cancelled, watched until each has ended."""

from __future__ import annotations

import time

from django.db import close_old_connections
from django.db.models import Count

from bench.soak_chaos import TROUBLES
from bench.soak_place import MODELS, UUIDS, Place
from bench.soak_plan import BUILT, TIME_LIMIT_S, Asked, Size
from benchapp.people.models import User
from benchapp.runs import queues
from benchapp.runs.actions import Request, cancel, request_job
from benchapp.runs.models import Attempt, Document, Job, Run
from benchapp.runs.states import FINAL

LOOK_EVERY_S = 0.3
DEVICE = "cuda"


class Load:
    """Call `tend` often. `asked` holds each run by its key in the database."""

    def __init__(self, asks: list[Asked], size: Size, place: Place) -> None:
        self.asked: dict[int, Asked] = {}
        self.total = len(asks)
        self.active = 0
        self.changed_at = time.monotonic()
        self.cancelled = 0
        self._user = User.objects.create(username="soak")
        self._waiting = asks[::-1]
        self._size, self._place = size, place
        self._cancels: list[tuple[float, int]] = []
        self._looked_at = 0.0
        self._seen: object = None

    def tend(self, *, more: bool) -> None:
        """Ask, cancel and look, where Postgres answers. `more`: never let the workers be idle."""
        now = time.monotonic()
        if now - self._looked_at < LOOK_EVERY_S:
            return
        self._looked_at = now
        try:
            for due in [each for each in self._cancels if each[0] <= now]:
                self.cancelled += cancel(Run.objects.get(pk=due[1]), self._user)
                self._cancels.remove(due)
            self._look()
            if self.active < self._size.batch // 2:
                for _ in range(self._size.batch):
                    if not self._waiting and more:
                        self._waiting.append(self._one_more())
                    if self._waiting:
                        self._ask(self._waiting[-1])
                        self._waiting.pop()
        except TROUBLES:
            close_old_connections()

    @property
    def ended(self) -> bool:
        return not self._waiting and self.active == 0

    @property
    def done_share(self) -> float:
        return (len(self.asked) - self.active) / self.total

    @property
    def settled(self) -> bool:
        """Nothing waits to be delivered or ingested, and no environment is being built."""
        try:
            self._look()
            waiting = Document.objects.filter(state=Document.State.RECEIVED).exists()
            building = Run.objects.exclude(state__in=FINAL).exists()
        except TROUBLES:
            close_old_connections()
            return False
        return not (waiting or building or self._place.spooled())

    def _look(self) -> None:
        states = Run.objects.order_by().values_list("state").annotate(Count("pk"))
        seen = (
            sorted(states), Attempt.objects.count(), Document.objects.count(), len(self._place.spooled())
        )  # fmt: skip
        if seen != self._seen:
            self._seen, self.changed_at = seen, time.monotonic()
        self.active = Run.objects.filter(pk__in=self.asked).exclude(state__in=FINAL).count()

    def _one_more(self) -> Asked:
        number = self.total
        self.total += 1
        return Asked(number, "well", "uuid", (number % len(UUIDS),), BUILT, None, 0.1, None)

    def _ask(self, ask: Asked) -> None:
        model, arch, _ = MODELS[ask.gpus[0]]
        queue = {
            "model": queues.gpu_model(model),
            "arch": queues.gpu_arch(arch),
        }.get(ask.by, queues.gpu(UUIDS[ask.gpus[0]]))
        request = Request(
            kind=Run.Kind.GEMM,
            title=f"Soak {ask.number}: {ask.child}",
            queue=queue,
            versions={"torch": ask.torch},
            params={"device": DEVICE, "cases": [ask.case(str(self._place.evidence))]},
            priority=ask.priority,
            needs_environment=True,
            gpus=tuple(UUIDS[number] for number in ask.gpus) if ask.by == "gang" else (),
            time_limit_s=TIME_LIMIT_S if ask.child in ("hang", "deaf") else None,
        )
        # the key makes asking again harmless where Postgres went away before it could answer
        answer = request_job(
            [request], title=request.title, user=None, source=Job.Source.COMMAND, key=f"soak-{ask.number}"
        )
        ((run, _),) = answer.runs
        self.asked[run.pk] = ask
        self.active += 1
        if ask.cancelled_after_s is not None:
            self._cancels.append((time.monotonic() + ask.cancelled_after_s, run.pk))
