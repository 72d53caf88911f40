"""From the form to what is stored: a real Celery worker, the real AIPerf, a real server of known timing."""

from __future__ import annotations

import dataclasses
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from django.test import Client

from benchapp.fleet import endpoints
from benchapp.people.models import User
from benchapp.runs.models import Measurement, Run, State
from tests.serving import aiperf
from tests.serving.server import PROMPT_TOKENS, Behaviour, Fault, Server
from tests.workers.conftest import Start, becomes, worker_of
from workers.bench.cases.serving import Serving as Case
from workers.bench.serving import plan, run
from workers.bench.serving.endpoint import Endpoint

Launch = Callable[[], "subprocess.Popen[bytes]"]
KEY = "sesame-street-7"
TTFT, ITL, OUTPUT = 0.08, 0.02, 12
#: The first two requests warm up; of the others, by number, these go wrong.
FAULTS: dict[int, Fault] = {
    3: "500", 5: "garbage", 6: "cut", 7: "short", 8: "no_usage", 9: "in_one", 10: "told_error", 11: "broken",
}  # fmt: skip


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "envs").symlink_to(aiperf.python().parents[2])
    return tmp_path


@pytest.mark.slow
def test_only_requests_that_ended_well_make_a_speed_and_it_is_the_servers(
    start: Start, control: Launch, client: Client
):
    start(*worker_of("cpu"), log="worker.log", environment={"TILEWATCH_KEY_TEST": KEY})
    control()
    user = User.objects.create_user("ada", role="operator")
    client.force_login(user)
    with Server(Behaviour(TTFT, ITL, faults=FAULTS, key=KEY)) as server:
        fields = {
            "url": server.url, "model": "tiny", "hardware": "2 × a clock", "gpus": 2,
            "stack": {"flashinfer": "0.6.3", "vllm": "0.10.0"}, "api_key_env": "TILEWATCH_KEY_TEST",
        }  # fmt: skip
        endpoint = endpoints.add("clock", fields, user)
        form = {
            "concurrency": "2", "input": "40", "output": str(OUTPUT), "rounds": "9", "case_timeout_s": "120",
            "aiperf": endpoints.AIPERF, "host": "",
        }  # fmt: skip
        asked = client.post(f"/fleet/endpoints/{endpoint.pk}/measure", form)
        measured = Run.objects.get()
        assert asked.headers["Location"] == f"/runs/{measured.pk}/"
        becomes(measured, State.DONE, seconds=120)
    row = Measurement.objects.select_related("series__case", "series__target", "stack").get()
    seen = row.facts
    assert seen["sent"] == 18
    assert seen["completed"] == 10
    broken = seen["errors"].pop("cut") + seen["errors"].pop("connection", 0)
    assert broken == 4  # cut, no usage, an error told in the stream, a connection that was dropped
    assert seen["errors"] == {"garbage": 1, "http_500": 1, "not_streamed": 1, "short": 1}
    # the server waits for its schedule: nothing can be faster, and a machine under load is slower
    assert row.outcome == "unverified"
    assert ITL * 0.9 < row.median < ITL * 3
    assert TTFT <= seen["ttft"]["p50"] < TTFT * 5
    assert ITL * 0.9 < seen["tpot"]["p50"] < ITL * 3
    assert ITL * 0.9 < seen["itl"]["mean"] < ITL * 3
    whole = TTFT + (OUTPUT - 1) * ITL
    assert whole * 0.98 <= seen["latency"]["p50"] < whole * 3
    assert seen["output_tokens"] == 10 * OUTPUT
    assert seen["input_tokens"] == 10 * PROMPT_TOKENS
    # ten whole answers, two at a time, and some that went wrong beside them
    assert seen["window_s"] > 10 / 2 * whole * 0.98
    assert (seen["counted_by"], seen["stack_by"], seen["gpus"]) == ("server", "told", 2)
    assert row.stack.components == {"flashinfer": "0.6.3", "vllm": "0.11.0", "aiperf": endpoints.AIPERF}
    assert (row.series.target.kind, row.series.target.model) == ("endpoint", "2 × a clock")
    assert row.series.case.params["concurrency"] == 2
    # asked for word for word, and no two alike
    assert len({each["messages"][0]["content"] for each in server.requests}) == 20
    assert {each["max_tokens"] for each in server.requests} == {OUTPUT}
    document = measured.documents.get()
    assert KEY.encode() not in bytes(document.body)
    assert KEY not in client.get(f"/runs/{measured.pk}/").content.decode()


def test_aiperf_is_ended_whole_at_its_limit(tmp_path: Path):
    python = aiperf.python()
    case = Case("tiny", 1, 8, 4, 1)
    # nothing listens there, and it is ended long before it would ask
    path = plan.write(
        Endpoint("a", "http://127.0.0.1:9", "tiny", "none"), case, plan.Times.of(60), tmp_path, 1
    )
    ended = run.run(path, tmp_path, 1.0, {}, python=str(python))
    assert "was still at it after 1 s" in ended.why
    assert not _of(tmp_path)


def _of(folder: Path) -> list[str]:
    """Processes that still have this folder as theirs."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if entry.readlink().is_relative_to(folder):
                found.append(entry.parent.name)
        except OSError:
            continue
    return found


def test_a_limit_leaves_time_for_aiperf_itself():
    for seconds in (5.0, 60.0, 600.0):
        times = plan.Times.of(seconds)
        assert times.request + times.sending + times.request <= seconds
        assert all(value > 0 for value in dataclasses.astuple(times))
