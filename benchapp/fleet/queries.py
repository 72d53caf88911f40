"""What the fleet page shows. The number of queries never grows with hosts, GPUs or runs."""

from __future__ import annotations

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

from django.db.models import Count, F, Min, Q
from django.db.models.functions import Left, Now

from benchapp.catalog.models import Recipe
from benchapp.fleet import maintenance
from benchapp.fleet.models import Gpu, Installation
from benchapp.fleet.reports import SILENT_S
from benchapp.fleet.rows import Fleet, GpuRow, HostRow, QueueRow
from benchapp.fleet.waiting import name_of
from benchapp.runs import queues, work
from benchapp.runs.models import Attempt, Maintenance, Run, State
from benchapp.runs.queries import etag

RUNNING_SHOWN = 40
QUEUES_SHOWN = 40


def fleet() -> Fleet:
    """Everything, in seven queries."""
    installations = list(Installation.objects.annotate(now=Now()))
    gpus = list(Gpu.objects.order_by("installation", "index", "uuid"))
    current_and_coming = list(maintenance.current_and_coming().annotate(now=Now()))
    held = [row for row in current_and_coming if row.starts_at <= row.now]
    attempts = list(
        Attempt.objects.filter(run__state=State.RUNNING, number=F("run__attempt"))
        .select_related("run__job", "run__recipe")
        .defer("log")
        .order_by("run__started_at", "run")
    )
    waiting = _queues()
    by_place = _by_place(attempts)
    recipes = _recipes(installations)
    hosts = [_host(each, gpus, held, by_place, waiting, recipes) for each in installations]
    shown = sorted(waiting.items(), key=lambda item: (item[1][2] is None, item[1][2], item[0]))
    return Fleet(
        hosts,
        [_queue(queue, counts, hosts, gpus) for queue, counts in shown[:QUEUES_SHOWN]],
        len(shown[QUEUES_SHOWN:]),
        attempts[:RUNNING_SHOWN],
        sum(queued for queued, _, _ in waiting.values()),
        len(attempts),
        [row for row in current_and_coming if row.starts_at > row.now],
        etag(
            (
                [(row.installation.pk, row.installation.seen_at, row.live, row.current) for row in hosts],
                [(gpu.pk, gpu.present, gpu.served) for gpu in gpus],
                [(row.pk, row.starts_at <= row.now) for row in current_and_coming],
                [(each.run_id, each.number, each.run.progress_done, each.gpus) for each in attempts],
                sorted(waiting.items()),
            )
        ),
    )


def _queues() -> dict[str, tuple[int, int, dt.datetime | None]]:
    """Queue → (queued, running, when the longest waiting was asked for)."""
    rows = (
        Run.objects.filter(state__in=[State.QUEUED, State.RUNNING])
        .order_by()
        .values_list("queue")
        .annotate(
            queued=Count("id", filter=Q(state=State.QUEUED)),
            running=Count("id", filter=Q(state=State.RUNNING)),
            oldest=Min("created_at", filter=Q(state=State.QUEUED)),
        )
    )
    return {queue: (queued, running, oldest) for queue, queued, running, oldest in rows}


def _recipes(installations: Iterable[Installation]) -> dict[str, str]:
    """Environment → its recipe in words, of those that are built somewhere."""
    # an environment is named by the beginning of its recipe's digest
    names = {name for each in installations for name in each.environments}
    known = Recipe.objects.annotate(name=Left("digest", 16)).filter(name__in=names) if names else ()
    return {recipe.name: str(recipe) for recipe in known}


def _by_place(attempts: Iterable[Attempt]) -> dict[str, list[Attempt]]:
    """What runs, by the UUIDs that are held for it and by the end of its worker's name."""
    found: dict[str, list[Attempt]] = defaultdict(list)
    for attempt in attempts:
        place = attempt.worker.partition("@")[2]
        for uuid in attempt.gpus:
            found[f"{uuid}@{place.partition('/')[0]}"].append(attempt)
        if not attempt.gpus:  # it has no lease yet
            found[attempt.worker].append(attempt)
        if not attempt.worker.startswith("gpu"):
            found[place].append(attempt)
    return found


def _host(
    installation: Any,
    gpus: Sequence[Gpu],
    held: Sequence[Maintenance],
    by_place: dict[str, list[Attempt]],
    waiting: dict[str, tuple[int, int, dt.datetime | None]],
    recipes: dict[str, str],
) -> HostRow:
    host, place = installation.host, f"{installation.host}/{installation.key}"
    live = (installation.now - installation.seen_at).total_seconds() < SILENT_S
    current = installation.protocol == work.PROTOCOL
    of_host = maintenance.holding(held, host=host)
    rows = []
    for gpu in gpus:
        if gpu.installation_id != installation.pk:
            continue
        worker = f"{queues.worker_label('gpu', gpu.uuid)}@{place}"
        running = by_place.get(f"{gpu.uuid}@{host}", []) + by_place.get(worker, [])
        of_gpu = maintenance.holding(held, host=host, uuids=[gpu.uuid])
        own, *shared = [
            waiting.get(queue, (0, 0, None))[0]
            for queue in queues.of_gpu_worker(gpu.uuid, gpu.model, gpu.arch)
        ]
        rows.append(
            GpuRow(gpu, _state(gpu, live, current, of_gpu, bool(running)), of_gpu, running, own, sum(shared))
        )
    return HostRow(installation, live, current, of_host, rows, by_place.get(place, []), recipes)


def _state(gpu: Gpu, live: bool, current: bool, held: Maintenance | None, running: bool) -> str:
    if not live:
        return "silent"
    if not gpu.present:
        return "lost"
    if held is not None:
        return "drained"
    if not gpu.served:
        return "unserved"
    if not current:
        return "outdated"
    return "busy" if running else "idle"


def _queue(
    queue: str,
    counts: tuple[int, int, dt.datetime | None],
    hosts: Sequence[HostRow],
    gpus: Sequence[Gpu],
) -> QueueRow:
    serving = {
        row.installation.host
        for row in hosts
        if row.live and row.current and queue in row.installation.queues
    }
    return QueueRow(queue, name_of(queue, [row.installation for row in hosts], gpus), *counts, len(serving))
