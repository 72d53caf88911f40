"""`manage.py trigger`: the same rules, plan and rights as the page."""

from __future__ import annotations

import io
import shlex
from collections.abc import Iterator

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.http import QueryDict

from benchapp.fleet import asks, plan_words
from benchapp.people.audit import SYSTEM
from benchapp.people.models import AuditEntry, Role, User
from benchapp.runs.actions import end
from benchapp.runs.models import Job, Run, State
from benchapp.runs.signals import runs_asked
from tests.fleet.machines import host

pytestmark = pytest.mark.django_db

SURVEY = ("--what", "survey", "--version", "0.6.3", "--target", "arch:sm120")


def trigger(*arguments: str) -> str:
    out = io.StringIO()
    call_command("trigger", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_it_asks_for_one_job_as_the_command_itself():
    said = trigger(*SURVEY, "--version", "0.6.2")
    first, second = Run.objects.order_by("pk")
    assert said == f"queued as run {first.pk}\nqueued as run {second.pk}\n"
    job = Job.objects.get()
    assert (job.source, job.requested_by) == (Job.Source.COMMAND, None)
    assert AuditEntry.objects.filter(actor=SYSTEM, action="request_run").count() == 2
    assert trigger(*SURVEY) == f"already under way as run {first.pk}\n"


def test_a_dry_run_shows_the_plan_and_asks_for_nothing():
    host("boxa", "aaaaaaaa", "GPU-a0")
    said = trigger(
        *(
            "--what",
            "gemm",
            "--version",
            "2.13.0",
            "--target",
            "gpu:GPU-a0",
            "--suite",
            "cpu-smoke",
            "--dry-run",
        )
    )
    assert "1 run." in said and "No history of such runs" in said
    assert "cuda 13, torch 2.13.0: built first on boxa." in said
    assert "GEMM suite cpu-smoke on GPU-a0 with cuda 13, torch 2.13.0: no history, 0 ahead" in said
    assert not Run.objects.exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("--version", "; ls"), r"--version: '; ls' is not a version"),
        (("--target", "arch:sm1"), r"--target: 'arch:sm1' is no target here"),
        (("--case", "1x1x1:bf16"), "--case: Expected none"),
        (("--time-limit-s", "1"), "--time-limit-s: Expected whole seconds"),
    ],
)
def test_a_refusal_names_the_option(change, said):
    with pytest.raises(CommandError, match=said):
        trigger(*SURVEY, *change)
    assert not Run.objects.exists()


def test_somebody_who_is_named_needs_the_right():
    for name, role in (("olga", Role.OPERATOR), ("vic", Role.VIEWER)):
        User.objects.create_user(name, password="x", role=role)
    User.objects.create_user("gone", password="x", role=Role.ADMIN, is_active=False)
    trigger(*SURVEY, "--as", "olga")
    assert Job.objects.get().requested_by.username == "olga"
    for name, said in (
        ("vic", "needs the role operator"),
        ("gone", "needs the role"),
        ("eve", "nobody here"),
    ):
        with pytest.raises(CommandError, match=said):
            trigger("--what", "survey", "--version", "0.6.1", "--target", "arch:sm120", "--as", name)
    assert Job.objects.count() == 1


@pytest.fixture
def ended_at_once() -> Iterator[None]:
    """Whatever is asked for is ended before anybody can wait for it."""

    def end_them(sender: type[Run], runs: list[Run], **kwargs: object) -> None:
        for run in runs:
            end(run, State.FAILED, "no_such_version", "There is no such wheel.")

    runs_asked.connect(end_them)
    yield
    runs_asked.disconnect(end_them)


def test_waiting_ends_with_the_runs_and_says_what_failed(ended_at_once):
    with pytest.raises(CommandError, match="not done: run"):
        trigger(*SURVEY, "--version", "0.6.2", "--wait")
    assert Run.objects.filter(state=State.FAILED).count() == 2


def test_the_command_that_the_page_shows_asks_for_the_same():
    query = "what=gemm&version=2.13.0&target=cpu&suite=cpu-smoke&case=1x1024x1024:bf16&time_limit_s=60"
    ask = asks.clean(asks.from_query(QueryDict(query)))
    words = shlex.split(plan_words.command(ask))
    assert words[:3] == ["python", "manage.py", "trigger"]
    trigger(*words[3:])
    assert asks.Ask.from_json(Job.objects.get().asked) == ask


def test_a_benchmark_of_flashinfer_with_every_option_comes_back_from_its_command():
    host("boxa", "aaaaaaaa", "GPU-a0")
    query = (
        "what=gemm&library=flashinfer&version=0.6.9&target=gpuarch:sm90&case=16x4096x7168:nvfp4"
        "&case=rmsnorm:tokens=64,hidden=7168,dtype=bf16&processes=3&case_timeout_s=60&timer=cuda_graph"
        "&backend=torch.mm&backend=flashinfer.mm_fp4.cutlass&foreign=flag"
    )
    ask = asks.clean(asks.from_query(QueryDict(query)))
    words = shlex.split(plan_words.command(ask))
    trigger(*words[3:])
    assert asks.Ask.from_json(Job.objects.get().asked) == ask
    said = trigger(*words[3:], "--dry-run")
    assert "flashinfer 0.6.9, torch 2.11.0: it and its kernels are built first on boxa." in said
    with pytest.raises(CommandError, match="--processes: Expected whole processes from 1 to 10"):
        trigger(*words[3:], "--processes", "300")
    with pytest.raises(CommandError, match=r"--backend: .* is no backend"):
        trigger(*words[3:], "--backend", "'; ls")
