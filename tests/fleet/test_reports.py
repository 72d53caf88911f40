"""What comes of an installation's report: rows, and one event for whatever happened."""

from __future__ import annotations

import datetime as dt
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from django.db import IntegrityError, connection, transaction
from django.db.models import F
from django.db.models.functions import Now

from benchapp.alerts.models import Event
from benchapp.catalog.models import Target
from benchapp.fleet import reports
from benchapp.fleet.models import Gpu, Installation, Report
from tests.fleet.reporting import gpu, report, send, take, uuid_of

pytestmark = pytest.mark.django_db


def events(*kinds: str) -> list[str]:
    """Sentences, oldest first; of all kinds but the first sight of a host where none is named."""
    rows = Event.objects.filter(kind__in=kinds) if kinds else Event.objects.exclude(kind="host_new")
    return list(rows.order_by("pk").values_list("sentence", flat=True))


def later(**ago: float) -> None:
    """Let time pass: every host was heard so long ago."""
    Installation.objects.update(seen_at=Now() - dt.timedelta(**ago))
    Gpu.objects.update(seen_at=Now() - dt.timedelta(**ago))


def test_a_first_report_makes_the_rows():
    take(report(gpus=2))
    host = Installation.objects.get()
    assert (host.key, host.host, host.labels, host.version) == ("boxa01", "boxa", {"rack": "7"}, "0.4.0")
    assert {"build", "build.boxa01", "chores.boxa01", f"gpu.uuid.{uuid_of('boxa', 1)}"} <= set(host.queues)
    assert host.environments["0123456789abcdef"]["bytes"] == 5 * 2**30
    assert (host.facts["driver"], host.facts["disk"]["free_bytes"]) == ("580.95.05", 2**40)
    first, second = host.gpus.all()
    assert (first.uuid, first.index, first.arch, first.served) == (uuid_of("boxa", 0), 0, "sm120", True)
    assert second.configuration == {"power_limit_w": 600.0, "ecc": True, "mig": False, "pcie": "gen5 x16"}
    assert (second.readings["temperature_c"], second.problems) == (42.0, [])
    assert events("host_new") == ["boxa reports for the first time, with 2 GPUs."]
    assert events() == []


def test_a_gpu_can_be_asked_for_before_anything_was_measured_on_it():
    take(report(gpus=1))
    target = Target.objects.get(key=f"gpu:{uuid_of('boxa', 0)}")
    assert (target.kind, target.arch, str(target.host), target.described_at) == ("gpu", "sm120", "boxa", None)


def test_taking_the_same_report_again_changes_nothing():
    send(report())
    assert reports.take_reports() == 1
    assert reports.take_reports() == 0
    Report.objects.update(taken_at=None)
    assert reports.take_reports() == 1
    assert Gpu.objects.count() == 2
    assert Event.objects.count() == 1


def test_a_gpu_that_falls_off_is_told_once_and_again_when_it_is_back():
    told = report(gpus=2)
    take(told)
    take(report(gpus=1, missing=[uuid_of("boxa", 1)]))
    take(report(gpus=1, missing=[uuid_of("boxa", 1)]))
    (lost,) = events()
    assert lost.startswith("GPU 1 of boxa (NVIDIA RTX PRO 6000, GPU-boxa0001) no longer answers")
    assert not Gpu.objects.get(uuid=uuid_of("boxa", 1)).present
    take(told)
    assert events("gpu_back") == ["GPU 1 of boxa (NVIDIA RTX PRO 6000) answers again."]
    assert Gpu.objects.filter(present=True).count() == 2
    take(report(gpus=1))
    assert len(events("gpu_lost")) == 2, "it fell off a second time"


def test_a_host_without_nvml_keeps_its_gpus_and_says_so():
    take(report(gpus=2))
    for _ in range(2):
        take(report(gpus=0, nvml="driver/library version mismatch"))
    (sentence,) = events()
    assert "NVML does not answer on boxa (driver/library version mismatch)" in sentence
    assert Gpu.objects.filter(present=True).count() == 2


def test_a_host_without_gpus_needs_no_nvml():
    for _ in range(2):
        take(report(gpus=0, nvml="no NVIDIA driver on this machine"))
    assert events() == []


def test_xids_are_told_once_with_what_they_mean():
    at = dt.datetime.now(dt.UTC).replace(microsecond=0)
    found = [
        {"uuid": uuid_of("boxa", 0), "code": 79, "at": at.isoformat()},
        {"uuid": uuid_of("boxa", 1), "code": 31, "at": at.isoformat()},
        {"uuid": uuid_of("boxa", 1), "code": 171, "at": at.isoformat()},
    ]
    take(report(xids=found))
    take(report(xids=found))
    bus, page, unknown = events()
    assert bus.startswith(
        f"GPU 0 of boxa reported Xid 79 at {at:%Y-%m-%d %H:%M} UTC: GPU has fallen off the bus"
    )
    assert "GPU memory page fault" in page and "see NVIDIA's list" in unknown
    severities = dict(Event.objects.exclude(kind="host_new").values_list("sentence", "severity"))
    assert (severities[bus], severities[page]) == ("error", "info"), "a bench may well fault"
    take(report(xids=[]))
    first, second = Gpu.objects.all()
    assert [problem.partition(":")[0] for problem in first.problems] == [f"Xid 79 at {at:%Y-%m-%d %H}"]
    assert len(second.problems) == 1
    again = (at + dt.timedelta(minutes=3)).isoformat()
    take(report(xids=[{"uuid": uuid_of("boxa", 0), "code": 79, "at": again}]))
    assert len(events("gpu_xid")) == 4


def test_memory_errors_are_told_as_they_grow():
    def with_errors(count: int, pending: bool = False) -> None:
        readings = {"ecc_uncorrected": count, "pages_pending": pending}
        take(report(gpus=[gpu("boxa", 0, readings=readings)]))

    with_errors(0)
    with_errors(2)
    with_errors(2)
    with_errors(5, pending=True)
    grew, more = events("ecc_uncorrected")
    assert "counts 2 uncorrected memory errors, 2 more" in grew and "counts 5" in more and "3 more" in more
    assert len(events("remap_pending")) == 1
    assert Gpu.objects.get().problems[0].startswith("5 uncorrected memory errors")
    with_errors(0)
    assert Gpu.objects.get().problems == []


def test_a_changed_setting_names_its_gpus_the_old_and_the_new():
    take(report(gpus=3))
    lower = [
        gpu("boxa", index, configuration={"power_limit_w": 450.0, "locked_clocks_mhz": "1980-1980"})
        for index in (0, 2)
    ]
    for _ in range(2):
        take(report(gpus=[lower[0], gpu("boxa", 1), lower[1]]))
    clocks, power = events("configuration_changed")
    assert power.startswith("The power limit of GPUs 0 and 2 of boxa went from 600 W to 450 W")
    assert clocks.startswith("The locked clocks of GPUs 0 and 2 of boxa went from not set to 1980-1980 MHz")


def test_a_narrower_link_is_told_and_stays_a_problem_until_it_is_wide_again():
    def linked(link: str) -> None:
        changes = {"configuration": {"pcie": link}, "readings": {"pcie_link": link}}
        take(report(gpus=[gpu("boxa", 0, **changes)]))

    linked("gen5 x16")
    linked("gen5 x8")
    linked("gen1 x8")
    (sentence,) = events("link_narrower")
    assert sentence.startswith("GPU 0 of boxa has a narrower PCIe link than before, x8 instead of x16")
    assert Gpu.objects.get().problems == ["Its PCIe link is x8; it was x16."]
    linked("gen5 x16")
    assert Gpu.objects.get().problems == []


def test_a_changed_driver_is_told_once_for_the_host():
    take(report())
    newer = report(facts={"driver": "590.10"})
    take(newer)
    take(newer)
    assert events() == [
        "The NVIDIA driver of boxa went from 580.95.05 to 590.10: compare what was measured before and since."
    ]


def test_somebody_elses_process_is_told_where_we_measure():
    ours = {"pid": 1, "name": "python", "memory_bytes": 2**30, "ours": True}
    theirs = {"pid": 2, "name": "blender", "memory_bytes": 3 * 2**30, "ours": False}
    take(report(gpus=[gpu("boxa", 0, processes=[ours]), gpu("boxa", 1, processes=[theirs], served=False)]))
    assert events() == []
    for _ in range(2):
        take(report(gpus=[gpu("boxa", 0, processes=[ours, theirs])]))
    (sentence,) = events("foreign_process")
    assert sentence.startswith("Somebody else works on GPU 0 of boxa: blender (3.00")


def test_a_nearly_full_disk_is_told_until_there_is_room_again():
    full = report(disk={"total_bytes": 2**41, "free_bytes": 2**33})
    take(full, full)
    take(full)
    assert len(events("low_disk")) == 1
    take(report())
    take(full)
    assert len(events("low_disk")) == 2


def test_workers_of_another_protocol_are_told_to_get_no_work():
    old = report(protocol=0, version="0.3.0")
    take(old)
    take(old)
    (sentence,) = events()
    assert (
        sentence.startswith("The workers of boxa (version 0.3.0) speak protocol 0") and "no work" in sentence
    )


def test_two_machines_of_one_name_are_told():
    take(report())
    second = report(installation="other01", machine="another machine")
    take(second)
    take(report(), second)
    (sentence,) = events("two_machines")
    assert sentence.startswith("Two machines call themselves boxa")


def test_one_machine_with_two_data_folders_is_no_second_machine():
    take(report(), report(installation="other01"))
    assert events() == []


def test_a_new_machine_may_take_a_name_that_is_free():
    take(report())
    later(minutes=30)
    take(report(installation="other01", machine="another machine"))
    assert events("two_machines") == []


def test_a_silent_host_is_told_once_and_again_when_it_is_heard(monkeypatch):
    monkeypatch.setattr(reports, "SILENT_S", 1)  # the test's Postgres has not been up for long
    take(report(), report("boxb"))
    Installation.objects.filter(host="boxb").update(seen_at=F("seen_at") - dt.timedelta(minutes=12))
    # however slow this machine is, boxa was heard just now
    Installation.objects.filter(host="boxa").update(seen_at=F("seen_at") + dt.timedelta(hours=1))
    reports.take_reports()
    reports.take_reports()
    (sentence,) = events()
    assert sentence.startswith("Nothing was heard of boxb for more than 1 s")
    assert list(Installation.objects.filter(silent=True).values_list("host", flat=True)) == ["boxb"]
    take(report("boxb"))
    assert events("host_back") == ["boxb is heard again, after 12 min of silence."]
    assert not Installation.objects.filter(silent=True).exists()


def test_a_new_gpu_of_a_known_host_is_told():
    take(report(gpus=1))
    take(report(gpus=2))
    assert events() == ["GPU 1 of boxa is new: NVIDIA RTX PRO 6000, GPU-boxa0001."]


@pytest.mark.parametrize(
    "changes",
    [
        {"gpus": [{"uuid": "x"}]},
        {"gpus": [gpu("boxa", 0, uuid="'; DROP TABLE")]},
        {"gpus": [gpu("boxa", 0), gpu("boxa", 0)]},
        {"gpus": [gpu("boxa", 0, memory_bytes=2**80)]},
        {"gpus": [gpu("boxa", n) for n in range(65)]},
        {"protocol": "many"},
        {"xids": [{"uuid": "GPU-1", "code": 79, "at": "yesterday"}]},
        {"host": "boxb"},
        {"installation": "boxb01"},
        {"workers": [{"name": "x" * 1000}]},
        {"environments": {"0123456789abcdef": {"bytes": "many"}}},
    ],
)
def test_a_report_that_is_wrong_is_one_event_and_leaves_the_rows(changes):
    take(report())
    before = Installation.objects.values().get(), list(Gpu.objects.values())
    for _ in range(2):
        send(report() | changes, "chores@boxa/boxa01")
        reports.take_reports()
    assert (Installation.objects.values().get(), list(Gpu.objects.values())) == before
    (sentence,) = events()
    assert sentence.startswith("A report of chores@boxa/boxa01 was refused")


@pytest.mark.parametrize("content", [[], "text", None, {}, {"installation": "boxa01"}])
def test_what_is_no_report_at_all_is_refused(content):
    send({}, "chores@boxa/boxa01")
    Report.objects.update(payload=content if content is not None else {"installation": None})
    reports.take_reports()
    assert len(events("report_refused")) == 1
    assert not Installation.objects.exists()


def test_what_is_only_shown_is_cut_and_what_is_unknown_left_out():
    busy = [{"pid": n, "name": "a\x1b[31m" + "b" * 1000, "ours": False} for n in range(500)]
    told = report(gpus=[gpu("boxa", 0, processes=busy)], labels={"note": "long" * 1000}, colour="green")
    take(told | {"environments": {"../../etc": {}, "0123456789abcdef": {}}})
    assert list(Installation.objects.get().environments) == ["0123456789abcdef"]
    device = Gpu.objects.get()
    assert len(device.readings["foreign"]) <= 32 and len(device.readings["foreign"][0]) <= 300
    assert "\x1b" not in device.readings["foreign"][0]
    assert len(Installation.objects.get().labels["note"]) == 60


def test_a_host_cannot_speak_for_another_hosts_installation():
    take(report("boxb"))
    send(report("boxa", installation="boxb01"), "chores@boxa/boxb01")
    reports.take_reports()
    assert Installation.objects.get().host == "boxb"
    (sentence,) = events()
    assert "boxb01 is one of boxb" in sentence


def test_one_host_cannot_fill_the_page():
    take(*(report(gpus=0, installation=f"many{n}") for n in range(reports.MOST_INSTALLATIONS + 2)))
    assert Installation.objects.count() == reports.MOST_INSTALLATIONS
    assert len(events("report_refused")) == 2


def test_one_wrong_report_does_not_keep_the_others_out():
    send(report("boxa", gpus=[{}]))
    send(report("boxb"))
    assert reports.take_reports() == 2
    assert Installation.objects.get().host == "boxb"


def test_a_host_that_reports_changes_without_end_is_told_of_once(monkeypatch):
    monkeypatch.setattr(reports, "MOST_EVENTS", 5)
    take(report("quiet"))
    for watts in range(20):
        take(report(gpus=[gpu("boxa", 0, configuration={"power_limit_w": watts})]))
    assert len(events("configuration_changed")) == 4, "and its first sight"
    (sentence,) = events("host_noisy")
    assert sentence.startswith("boxa reported more than 5 changes within an hour")
    take(report("quiet", facts={"driver": "590.10"}))
    assert len(events("driver_changed")) == 1


@pytest.mark.django_db(transaction=True)
def test_a_report_that_is_taken_by_many_at_once_is_told_once():
    take(report(gpus=2), report("boxb", gpus=2))
    for host in ("boxa", "boxb"):
        send(report(host, gpus=1, missing=[uuid_of(host, 1)]))
    start = Barrier(4)

    def together() -> int:
        start.wait()
        try:
            return reports.take_reports()
        finally:
            connection.close()

    with ThreadPoolExecutor(4) as pool:
        taken = [each.result() for each in [pool.submit(together) for _ in range(4)]]
    assert sum(taken) == 2
    assert len(events("gpu_lost")) == 2


@pytest.mark.parametrize(
    "told",
    [
        '{"installation": "evil01", "host": "evil", "protocol": 1e5000}',
        '{"installation": "evil01", "host": "evil", "x": %s}' % ("[" * 3000 + "]" * 3000),
        '{"installation": "evil01", "host": "evil", "started_at": "0001-01-01T00:00:00+14:00"}',
        "[]",
    ],
    ids=["long number", "deep", "before the calendar", "no object"],
)
def test_a_report_that_cannot_be_read_keeps_back_no_other(told):
    with connection.cursor() as cursor:
        cursor.execute("SELECT worker.report('chores@evil/evil01', %s::jsonb)", [told])
    take(report("boxa"))
    assert Installation.objects.get().host == "boxa"
    assert not Report.objects.exclude(taken_at=F("at")).exists()


def test_a_host_cannot_report_for_installations_without_end():
    for number in range(64):
        send(report("boxa", gpus=0, installation=f"boxa{number}"))
    send(report("boxa", gpus=0, installation="boxa63"))
    send(report("boxb", gpus=0))
    with pytest.raises(IntegrityError, match="boxa has too many installations"), transaction.atomic():
        send(report("boxa", gpus=0, installation="boxa64"))
    for worker in ("chores@boxa", "chores@boxa/", "chores@boxa/b@c", f"chores@boxa/{'x' * 17}"):
        with pytest.raises(IntegrityError, match="names no installation"), transaction.atomic():
            send(report("boxa"), worker)
