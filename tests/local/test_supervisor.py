"""The supervisor's own rules: back-off, naming what keeps crashing, logs that stay small."""

import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchapp.local.child import end, spawn
from benchapp.local.logs import cap, last_lines
from benchapp.local.supervisor import StopRequested, Supervisor, backoff_s


@pytest.fixture
def supervisor() -> Iterator[Supervisor]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    made = Supervisor()
    yield made
    made.stop()
    for number, handler in handlers.items():
        signal.signal(number, handler)


def test_back_off_doubles_up_to_half_a_minute():
    assert [backoff_s(crashes) for crashes in (1, 2, 3, 4, 7, 8, 10_000)] == [0.5, 1, 2, 4, 30, 30, 30]


def test_a_child_that_keeps_crashing_is_named_with_its_last_words(supervisor, tmp_path, capsys):
    log = tmp_path / "fragile.log"
    program = [sys.executable, "-c", "print('out of luck'); raise SystemExit(3)"]
    supervisor.keep("fragile", log, lambda: spawn(program, log=log), ((signal.SIGTERM, 1.0),))
    supervisor.pause(3)
    said = capsys.readouterr().out
    assert "fragile stopped (exit status 3), starting it again in 0.5 s" in said
    assert "fragile has stopped 3 times in a row." in said
    assert "out of luck" in said


def test_a_stop_is_heard_within_a_blink_and_a_stubborn_child_is_killed(supervisor, tmp_path):
    program = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(60)"]
    log = tmp_path / "stubborn.log"
    supervisor.keep("stubborn", log, lambda: spawn(program, log=log), ((signal.SIGTERM, 0.5),))
    supervisor.pause(0.5)
    process = supervisor.kept[0].process
    began = time.monotonic()
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(StopRequested):
        supervisor.pause(60)
    supervisor.stop()
    assert process.poll() == -signal.SIGKILL
    assert time.monotonic() - began < 2


def test_neighbours_stop_together_and_the_first_started_last(supervisor, tmp_path):
    order = tmp_path / "order"
    program = (
        "import signal, sys, time\n"
        "def stop(*_):\n"
        "    time.sleep(0.4); open(sys.argv[1], 'a').write(sys.argv[2]); raise SystemExit\n"
        "signal.signal(15, stop); print('ready', flush=True); time.sleep(60)\n"
    )
    for name, patience in (("a", 2.0), ("b", 3.0), ("c", 3.0)):
        log = tmp_path / f"{name}.log"
        command = [sys.executable, "-c", program, str(order), name]
        supervisor.keep(name, log, lambda c=command, to=log: spawn(c, log=to), ((signal.SIGTERM, patience),))
    while not all("ready" in (tmp_path / f"{name}.log").read_text() for name in "abc"):
        supervisor.pause(0.05)
    began = time.monotonic()
    supervisor.stop()
    assert order.read_text() in ("bca", "cba")
    assert time.monotonic() - began < 1.15


def test_a_long_log_is_moved_aside_while_its_writer_goes_on(tmp_path):
    log = tmp_path / "long.log"
    writer = spawn(
        [sys.executable, "-uc", "import time\nwhile True: print('x' * 999); time.sleep(0.01)"], log=log
    )
    try:
        while not log.exists() or log.stat().st_size < 20_000:
            time.sleep(0.02)
        cap(log, limit=10_000)
        assert log.with_name("long.log.1").stat().st_size >= 20_000
        time.sleep(0.1)
        assert 0 < log.stat().st_size < 20_000
        assert "\0" not in log.read_text()
    finally:
        end([writer], [])


def test_the_end_of_a_log_is_short_and_names_its_file(tmp_path):
    log = tmp_path / "web.log"
    log.write_bytes(b"\xff\n" * 100_000 + b"last\n")
    shown = last_lines(log, 3).splitlines()
    assert len(shown) == 4
    assert str(log) in shown[0]
    assert shown[-1].strip() == "last"
    assert last_lines(Path("/nowhere/none.log")) == "  /nowhere/none.log is empty"
