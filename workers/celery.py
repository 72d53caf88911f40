"""The Celery application of a worker host: `celery -A workers.celery worker -Q build -c 1`."""

from __future__ import annotations

import signal

from celery.signals import celeryd_after_setup, worker_process_init, worker_ready, worker_shutting_down

from benchapp.celery import app
from benchapp.local.exec_child import die_with_parent
from benchapp.runs.broker import WORK_TASK
from workers import identity
from workers.stopping import stopping

app.conf.include = ["workers.tasks"]


@celeryd_after_setup.connect
def _serve(instance: object, **kwargs: object) -> None:
    # before the pool process is forked, which inherits it
    identity.serve(instance.app.amqp.queues.consume_from)  # type: ignore[attr-defined]


@worker_process_init.connect
def _die_with_worker(**kwargs: object) -> None:
    # a worker killed with -9 must not leave a pool process that goes on measuring
    die_with_parent(signal.SIGKILL)


@worker_shutting_down.connect
def _stop(**kwargs: object) -> None:
    stopping.set()


@worker_ready.connect
def _look_for_work(sender: object, **kwargs: object) -> None:
    for queue in sender.task_consumer.queues:  # type: ignore[attr-defined]
        app.send_task(WORK_TASK, args=(queue.name,), queue=queue.name)
