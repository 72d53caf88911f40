"""The fleet page and what its buttons do."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db.models import F
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from benchapp.fleet.models import Gpu, Installation, Report
from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs import queues, work
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Maintenance, Run
from tests.fleet.reporting import MODEL, gpu, report, take, uuid_of
from tests.querycount import at_most

pytestmark = pytest.mark.django_db

VERSIONS = {"torch": "2.13.0", "cuda": "13"}


@pytest.fixture
def operator() -> Client:
    client = Client()
    client.force_login(User.objects.create_user("olga", password="x" * 20, role=Role.OPERATOR))
    return client


def page(client: Client | None = None, query: str = "") -> str:
    answer = (client or Client()).get(f"/fleet/{query}")
    assert answer.status_code == 200
    return " ".join(answer.content.decode().split())


def lede(text: str) -> str:
    return text.partition('id="fleet-lede">')[2].partition("</p>")[0]


def ask(queue: str, **changes) -> Run:
    request = Request(Run.Kind.GEMM, "a GEMM", queue, VERSIONS, {"n": Run.objects.count()}, **changes)
    return request_run(request, user=None, source=Job.Source.COMMAND)[0]


def fall_silent(host: str, **ago: float) -> None:
    Installation.objects.filter(host=host).update(seen_at=F("seen_at") - dt.timedelta(**ago), silent=True)


def test_without_a_host_the_page_says_how_to_add_one():
    text = page()
    assert "No host has reported yet." in text
    assert "python -m workers up" in text


def test_one_well_host():
    take(report(gpus=2))
    text = page()
    assert "1 host, 2 of 2 GPUs working." in lede(text)
    assert "Nothing runs." in lede(text)
    assert text.count("● free") == 2
    for said in (MODEL, "GPU-boxa0001", "580.95.05", "rack=7", "power limit", "600 W", "gen5 x16", "41 °C"):
        assert said in text


def test_a_host_without_gpus():
    take(report(gpus=0, nvml="no NVIDIA driver on this machine"))
    text = page()
    assert "1 host, no GPU." in lede(text)
    assert "No GPU: no NVIDIA driver on this machine." in text


def test_troubles_are_said_first():
    take(report(gpus=4), report("boxb", gpus=4), report("boxc", gpus=4))
    take(report("boxb", gpus=3, missing=[uuid_of("boxb", 3)]))
    fall_silent("boxc", hours=3)
    said = lede(page())
    assert "3 hosts, 7 of 12 GPUs working:" in said
    assert "GPU 3 of boxb no longer answers, last seen <time" in said
    assert "boxc is silent, last heard <time" in said


def test_a_gpu_that_two_installations_see_counts_once():
    shared = report(gpus=1)
    take(shared, report(gpus=[gpu("boxa", 0, served=False)], installation="other01"))
    assert "1 host, 1 of 1 GPU working." in lede(page())


def test_what_runs_stands_at_its_gpu():
    take(report(gpus=2))
    run, gang = ask(queues.gpu_arch("sm120")), ask("gpu.gang")
    ask(queues.gpu(uuid_of("boxa", 1)))
    worker = "gpu-boxa0000@boxa/boxa01"
    work.claim([run.queue], worker)
    work.beat(run.pk, 1, work.Progress(3, 12, "case 3"))
    work.claim(["gpu.gang"], "gpu-boxa0001@boxa/boxa01")
    both = tuple(uuid_of("boxa", index) for index in (0, 1))
    work.beat(gang.pk, 1, lease=work.Lease(both, timezone.now()))
    rows = page().partition('class="rows gpus"')[2].split("<tr>")[2:4]
    assert f"run {run.pk}</a>" in rows[0] and f"run {gang.pk}</a>" in rows[0] and "3 of 12" in rows[0]
    assert f"run {run.pk}</a>" not in rows[1] and f"run {gang.pk}</a>" in rows[1]
    assert "▸ working" in rows[0]
    text = page()
    assert "2 runs under way, 1 queued." in lede(text)
    assert 'GPU 1 of boxa</th><td class="num">1</td>' in text


def test_a_queue_that_nobody_serves_is_marked():
    take(report(gpus=1))
    ask(queues.gpu_arch("sm100"))
    ask(queues.gpu_arch("sm120"))
    rows = page().partition('id="queues-title"')[2].split("<tr>")
    assert "any GPU of sm100" in rows[2] and "▲ nobody" in rows[2]
    assert "any GPU of sm120" in rows[3] and "1 host" in rows[3]


def test_the_page_asks_no_more_of_the_database_for_64_hosts_of_8_gpus():
    take(report(gpus=1))
    ask(queues.gpu_arch("sm120"))
    with at_most(9) as few:
        page()
    told = Report.objects.get()
    Report.objects.bulk_create(
        Report(installation=f"box{n}", worker=f"chores@box{n}/box{n}", payload=told.payload)
        for n in range(64)
    )
    hosts = Installation.objects.bulk_create(
        Installation(
            key=f"box{n}", host=f"box{n}", protocol=work.PROTOCOL, queues=["build"], facts={"nvml": ""}
        )
        for n in range(64)
    )
    Gpu.objects.bulk_create(
        Gpu(installation=host, uuid=uuid_of(host.host, n), index=n, model=MODEL, arch="sm120")
        for host in hosts
        for n in range(8)
    )
    for n in range(30):
        run = ask(queues.gpu_arch("sm120"))
        work.claim([run.queue], f"gpu-{n}@box{n}/box{n}")
    with at_most(len(few)):
        text = page()
    assert "65 hosts, 513 of 513 GPUs working." in lede(text)
    assert text.count('class="rows gpus"') == 0, "all are well: none has to be shown in full"
    assert page(query="?host=box7").count('class="rows gpus"') == 1


def test_an_unknown_host_is_not_found():
    take(report())
    assert Client().get("/fleet/?host=nowhere").status_code == 404


def test_polling_costs_nothing_while_nothing_changes():
    take(report(gpus=1))
    client = Client()
    first = client.get("/fleet/now")
    again = {"If-None-Match": first["ETag"]}
    assert client.get("/fleet/now", headers=again).status_code == 304
    ask(queues.gpu_arch("sm120"))
    changed = client.get("/fleet/now", headers=again)
    assert changed.status_code == 200 and "any GPU of sm120" in changed.content.decode()
    again = {"If-None-Match": changed["ETag"]}
    fall_silent("boxa", minutes=5)
    assert "host silent" in client.get("/fleet/now", headers=again).content.decode()


def test_a_viewer_sees_no_buttons_and_may_not_press_them():
    take(report(gpus=1))
    assert "Drain" not in page()
    viewer = Client()
    viewer.force_login(User.objects.create_user("vera", password="x" * 20))
    for name, args in (("take_out", []), ("lift", [1]), ("collect", ["boxa01"]), ("forget", ["boxa01"])):
        assert viewer.post(reverse(f"fleet:{name}", args=args)).status_code == 403
    assert not Maintenance.objects.exists()


def test_freeing_disk_is_asked_of_the_hosts_own_queue(
    operator, monkeypatch, django_capture_on_commit_callbacks
):
    sent = []
    monkeypatch.setattr("benchapp.runs.broker._send", lambda *what: sent.append(what))
    take(report())
    with django_capture_on_commit_callbacks(execute=True):
        operator.post(reverse("fleet:collect", args=["boxa01"]))
    assert ("workers.collect", "chores.boxa01") in sent
    assert AuditEntry.objects.filter(action="collect", actor="olga", subject="boxa").exists()


def test_only_a_silent_host_can_be_forgotten(operator):
    take(report())
    operator.post(reverse("fleet:forget", args=["boxa01"]))
    assert Installation.objects.exists()
    fall_silent("boxa", days=3)
    assert "Forget host" in page(operator)
    operator.post(reverse("fleet:forget", args=["boxa01"]))
    assert not Installation.objects.exists() and not Report.objects.exists()
    assert AuditEntry.objects.filter(action="forget_host", subject="boxa").count() == 1
    assert operator.post(reverse("fleet:forget", args=["boxa01"])).status_code == 404
    assert operator.post("/fleet/hosts/%00/forget").status_code == 404


def test_a_hostile_hosts_words_stay_words():
    take(report(gpus=1, labels={"<script>alert(1)</script>": "<b>x</b>"}, version="<i>"))
    text = page()
    assert "<script>alert" not in text and "<b>x" not in text and "&lt;i&gt;" in text
