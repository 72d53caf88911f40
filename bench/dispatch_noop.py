"""A bare Celery application whose one task does nothing: what a dispatch costs at the least."""

from __future__ import annotations

import os

from celery import Celery

QUEUE = "bench.noop"

app = Celery("noop", broker=os.environ["REDIS_URL"], backend=os.environ["REDIS_URL"])
app.conf.task_default_queue = QUEUE


@app.task(name="noop")  # type: ignore[untyped-decorator,unused-ignore]
def noop() -> None:
    pass
