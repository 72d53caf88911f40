"""Reports of installations → rows of hosts and GPUs, and an event for whatever happened in between."""

from __future__ import annotations

import datetime as dt
import logging
from typing import Any

from django.db import DataError, IntegrityError, OperationalError, transaction
from django.db.models import F
from django.db.models.functions import Now

from benchapp.alerts.actions import raise_event
from benchapp.alerts.models import Event
from benchapp.catalog.locks import lock
from benchapp.catalog.models import Host, Target
from benchapp.fleet import differences, payload, words
from benchapp.fleet.differences import Happening, Known
from benchapp.fleet.models import Gpu, Installation, Report
from benchapp.runs import work
from benchapp.runs.actions import postgres_listened

logger = logging.getLogger(__name__)

#: Without a report for so long, a host is silent. Workers report every 15 s or so.
SILENT_S = 120
#: Of two machines of one name heard within this time, both are alive.
BOTH_ALIVE = dt.timedelta(minutes=10)
#: Installations of one host, and events of an installation in an hour: a hostile host cannot make more.
MOST_INSTALLATIONS, MOST_EVENTS = 32, 200


def take_reports() -> int:
    """Turn every report that is newer than its rows into rows and events; tell of silent hosts.

    Doing it twice changes nothing. Returns how many reports there were.
    """
    taken = 0
    for pk in Report.objects.exclude(taken_at=F("at")).order_by("pk").values_list("pk", flat=True):
        try:
            taken += _take(pk)
        except OperationalError:
            raise
        except Exception:
            # other hosts have reported too; this one is tried again
            logger.exception("report %s could not be taken", pk)
    tell_silent()
    return taken


@transaction.atomic
def _take(pk: int) -> bool:
    """False where another took it, or while it is being written: nobody waits for a host's transaction."""
    fresh = Report.objects.filter(pk=pk).exclude(taken_at=F("at"))
    row = fresh.select_for_update(skip_locked=True).defer("payload").first()
    if row is None:
        return False
    # by its own time: a report that comes in while this one is taken is newer
    Report.objects.filter(pk=pk).update(taken_at=row.at)
    try:
        with transaction.atomic():
            report = payload.parse(_payload(row), row.worker)
            lock(f"fleet:{report.host}")
            _store(report, row.at)
    except (payload.Fault, DataError, IntegrityError) as fault:
        _refuse(row, str(fault).splitlines()[0])
    return True


def _payload(row: Report) -> Any:
    """What it reported. Raises Fault for what Postgres takes as JSON and Python does not."""
    try:
        return row.payload
    except (ValueError, RecursionError):
        raise payload.Fault("report: too deep, or a number in it is too long") from None


def _refuse(row: Report, fault: str) -> None:
    """Once a day for an installation, whatever else it sends."""
    raise_event(
        "report_refused",
        Event.Severity.WARNING,
        subject=row.worker,
        sentence=words.refused(row.worker, fault),
        dedupe_key=f"report_refused:{row.installation}:{row.at:%Y-%m-%d}",
    )


def _store(report: payload.Report, at: dt.datetime) -> None:
    found = Installation.objects.select_for_update().filter(key=report.installation).first()
    if found is None:
        if Installation.objects.filter(host=report.host).count() >= MOST_INSTALLATIONS:
            raise payload.Fault(f"installation: {report.host} has {MOST_INSTALLATIONS} of them already")
    elif found.host != report.host and at - found.seen_at < BOTH_ALIVE:
        raise payload.Fault(f"installation: {report.installation} is one of {found.host}")
    installation = found or Installation(key=report.installation)
    rows = {gpu.uuid: gpu for gpu in installation.gpus.all()} if found else {}
    happened = _of_host(found, report, at, has_gpus=bool(rows))
    known = {
        uuid: Known(gpu.index, gpu.model, gpu.present, gpu.configuration, gpu.readings)
        for uuid, gpu in rows.items()
    }
    if found is not None:
        happened += differences.between(report.host, known, report)
        happened += [
            Happening("gpu_new", differences.INFO, report.host, _new_gpu(report.host, gpu), gpu.uuid)
            for gpu in report.gpus
            if gpu.uuid not in known
        ]
    xids = differences.xids(report.host, known, report)
    _store_installation(installation, report, at)
    if not report.nvml:
        _store_gpus(installation, rows, report, at)
    told = [(each, f"{report.installation}:{each.key}:{at:%Y%m%dT%H%M%S.%f}") for each in happened]
    _tell(told + [(each, each.key) for each in xids], report, at)


def _tell(happened: list[tuple[Happening, str]], report: payload.Report, at: dt.datetime) -> None:
    """Raise an event for each, as long as the hour's measure of the installation lasts."""
    if not happened:
        return
    said = {"installation": report.installation}
    room = MOST_EVENTS - Event.objects.filter(at__gt=at - dt.timedelta(hours=1), payload=said).count()
    for each, key in happened[: max(room, 0)]:
        raise_event(
            each.kind,
            each.severity,
            subject=each.subject,
            sentence=each.sentence,
            dedupe_key=f"{each.kind}:{key}",
            payload=said,
        )
    if len(happened) > room:
        raise_event(
            "host_noisy",
            differences.WARNING,
            subject=report.host,
            sentence=words.noisy(report.host, MOST_EVENTS),
            dedupe_key=f"host_noisy:{report.installation}:{at:%Y-%m-%dT%H}",
        )


def _new_gpu(host: str, gpu: payload.GpuReport) -> str:
    return f"{words.gpu_name(gpu.index, host)} is new: {gpu.model}, {words.short(gpu.uuid)}."


def _of_host(
    found: Installation | None, report: payload.Report, at: dt.datetime, *, has_gpus: bool
) -> list[Happening]:
    host = report.host
    happened = differences.of_host(found.facts if found else {}, report, has_gpus=has_gpus)
    if found is None:
        gpus = words.count(len(report.gpus), "GPU")
        happened.append(
            Happening(
                "host_new", differences.INFO, host, f"{host} reports for the first time, with {gpus}.", ""
            )
        )
    elif found.silent:
        away = words.ago((at - found.seen_at).total_seconds())
        sentence = f"{host} is heard again, after {away} of silence."
        happened.append(Happening("host_back", differences.INFO, host, sentence, ""))
    if report.protocol != work.PROTOCOL and (found is None or found.protocol != report.protocol):
        sentence = words.other_protocol(host, report.protocol, report.version, work.PROTOCOL)
        happened.append(
            Happening("other_protocol", differences.WARNING, host, sentence, str(report.protocol))
        )
    machines = set(
        Installation.objects.filter(host=host, seen_at__gt=at - BOTH_ALIVE)
        .exclude(machine__in=["", report.machine])
        .values_list("machine", flat=True)
    )
    if report.machine and machines:
        pair = ":".join(sorted([report.machine, min(machines)]))
        raise_event(
            "two_machines",
            differences.ERROR,
            subject=host,
            sentence=words.two_machines(host),
            dedupe_key=f"two_machines:{host}:{pair}"[:180] + f":{at:%Y-%m-%d}",
        )
    return happened


def _store_installation(installation: Installation, report: payload.Report, at: dt.datetime) -> None:
    content = report.model_dump(mode="json")
    installation.host = report.host
    installation.machine = report.machine
    installation.labels = content["labels"]
    installation.version, installation.protocol = report.version, report.protocol
    installation.queues = report.queues
    installation.environments = content["environments"]
    installation.facts = {
        **content["facts"],
        "disk": content["disk"],
        "workers": content["workers"],
        "started_at": content["started_at"],
        "nvml": report.nvml,
        "low_disk": differences.low_disk(report),
    }
    installation.seen_at, installation.silent = at, False
    if installation.pk is None:
        installation.first_seen_at = at
    installation.save()


def _store_gpus(
    installation: Installation, rows: dict[str, Gpu], report: payload.Report, at: dt.datetime
) -> None:
    now = []
    for gpu in report.gpus:
        before: dict[str, Any] = rows[gpu.uuid].readings if gpu.uuid in rows else {}
        lanes = differences.link_width(gpu)
        widest = max(filter(None, (lanes, before.get("widest_link"))), default=None)
        present = gpu.uuid not in report.missing
        xids = differences.kept_xids(gpu.uuid, before, report, at)
        now.append(
            Gpu(
                installation=installation,
                uuid=gpu.uuid,
                index=gpu.index,
                model=gpu.model,
                arch=gpu.arch,
                memory_bytes=gpu.memory_bytes,
                configuration=dict(gpu.configuration),
                readings={
                    **gpu.readings.model_dump(mode="json"),
                    "link_width": lanes,
                    "widest_link": widest,
                    "foreign": [each.name for each in gpu.processes if not each.ours],
                    "xids": xids,
                    "holder": gpu.holder or "",
                    "cores": gpu.cores or "",
                },
                problems=differences.problems(gpu, xids, widest),
                served=gpu.served,
                present=present,
                seen_at=at if present else rows[gpu.uuid].seen_at if gpu.uuid in rows else at,
            )
        )
        if gpu.uuid not in rows:
            _ensure_target(gpu, report.host)
    Gpu.objects.bulk_create(
        now,
        update_conflicts=True,
        unique_fields=["installation", "uuid"],
        update_fields=[
            "index", "model", "arch", "memory_bytes", "configuration", "readings", "problems", "served",
            "present", "seen_at",
        ],
    )  # fmt: skip
    installation.gpus.exclude(uuid__in=[gpu.uuid for gpu in report.gpus]).update(present=False)


def _ensure_target(gpu: payload.GpuReport, host: str) -> None:
    """So that work can be asked of a GPU before anything was measured on it. Documents describe it."""
    Target.objects.get_or_create(
        key=f"gpu:{gpu.uuid}",
        defaults={
            "kind": Target.Kind.GPU,
            "arch": gpu.arch,
            "model": gpu.model,
            "uuid": gpu.uuid,
            "host": Host.objects.get_or_create(name=host)[0],
        },
    )


def tell_silent() -> None:
    """An event for each installation that has not reported for SILENT_S, once until it is heard again."""
    if not postgres_listened(SILENT_S):
        return
    late = Installation.objects.filter(silent=False, seen_at__lt=Now() - dt.timedelta(seconds=SILENT_S))
    for pk in late.values_list("pk", flat=True):
        with transaction.atomic():
            row = late.select_for_update().filter(pk=pk).first()
            if row is None:
                continue
            Installation.objects.filter(pk=pk).update(silent=True)
            raise_event(
                "host_silent",
                Event.Severity.ERROR,
                subject=row.host,
                sentence=words.silent(row.host, row.seen_at, SILENT_S),
                dedupe_key=f"host_silent:{row.key}:{row.seen_at:%Y%m%dT%H%M%S.%f}",
            )
