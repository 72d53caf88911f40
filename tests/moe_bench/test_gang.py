"""A gang's processes: real ones, without torch."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from workers.bench.moe.gang import Gang, LostError

MODULE = "tests.moe_bench.faulty_rank"
ROOT = Path(__file__).resolve().parents[2]


def gone(pid):
    """Whether a process has ended, whoever collects what is left of it."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


def wait_gone(pids):
    deadline = time.monotonic() + 20
    while not all(map(gone, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return all(map(gone, pids))


@pytest.fixture
def gang():
    with Gang(2, "cpu", MODULE) as started:
        yield started


def pids_of(gang):
    return [each["pid"] for each in gang.ask({"greeting": ""}, 30)]


def test_every_rank_answers_and_holds_what_its_parent_holds(tmp_path):
    with (tmp_path / "lease").open("w") as lease:
        os.set_inheritable(lease.fileno(), True)
        with Gang(3, "cpu", MODULE) as gang:
            answers = gang.ask({"greeting": str(lease.fileno())}, 30)
            assert [each["rank"] for each in answers] == [0, 1, 2]
            assert all(each["held"] for each in answers)
            pids = [each["pid"] for each in answers]
    assert all(map(gone, pids))


def test_a_rank_that_dies_ends_the_gang():
    with pytest.raises(LostError) as lost, Gang(2, "cpu", MODULE) as gang:
        pids = pids_of(gang)
        gang.ask({"death": "1"}, 60)
    assert lost.value.outcome == "crashed"
    assert lost.value.why == (
        "rank 1 of 2: its process ended with SIGKILL, last saying 'a last word', at its death"
    )
    assert all(map(gone, pids))


def test_whoever_sees_another_rank_die_is_not_blamed(gang):
    with pytest.raises(LostError) as lost:
        gang.ask({"accusation": "1"}, 60)
    assert lost.value.outcome == "crashed" and lost.value.why.startswith(
        "rank 1 of 2: its process ended with"
    )


def test_a_silent_rank_is_named_once_its_time_is_up(gang):
    pids_of(gang)
    with pytest.raises(LostError) as lost:
        gang.ask({"silence": "0"}, 0.5)
    assert lost.value.outcome == "timeout"
    assert lost.value.why == "no answer within 0.5 s from 1 of 2 ranks: rank 0 at its silence"


def test_a_library_that_writes_among_the_lines_is_told(gang):
    with pytest.raises(LostError) as lost:
        gang.ask({"nonsense": "1"}, 60)
    assert lost.value.outcome == "crashed" and "NCCL WARN" in lost.value.why


def test_a_failure_is_its_outcome(gang):
    with pytest.raises(LostError) as lost:
        gang.ask({"failure": "0"}, 60)
    assert (lost.value.outcome, lost.value.everywhere) == ("oom", True)


def test_what_a_rank_started_ends_with_the_gang():
    with Gang(1, "cpu", MODULE) as gang:
        orphan = gang.ask({"orphan": "0"}, 30)[0]["pid"]
        rank = gang.ask({"greeting": ""}, 30)[0]["pid"]
        assert not gone(orphan)
        os.kill(rank, signal.SIGKILL)
        with pytest.raises(LostError) as lost:
            gang.ask({"greeting": ""}, 60)
        assert "SIGKILL" in lost.value.why
    assert wait_gone([orphan])


def test_ranks_end_with_their_parent():
    script = (
        "import sys, time\n"
        "from workers.bench.moe.gang import Gang\n"
        f"with Gang(2, 'cpu', {MODULE!r}) as gang:\n"
        "    print(*(each['pid'] for each in gang.ask({'greeting': ''}, 30)), flush=True)\n"
        "    time.sleep(600)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as parent:
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert len(pids) == 2 and not any(map(gone, pids))
        parent.kill()
    assert wait_gone(pids)
