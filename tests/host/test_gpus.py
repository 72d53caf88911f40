"""What the process that speaks to NVML says of GPUs, healthy and not."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.host.conftest import REPOSITORY
from tests.simulated.pynvml import NVML_ERROR_DRIVER_NOT_LOADED, gpu
from workers import gpus

FIRST, SECOND = gpu(0)["uuid"], gpu(1)["uuid"]

pytestmark = pytest.mark.usefixtures("host")


def test_a_gpu_is_described(nvml):
    nvml(
        gpu(
            0,
            cpus=[0, 1, 2, 5],
            throttle_mask=0x4,
            ecc_uncorrected=3,
            processes=[{"pid": os.getpid(), "memory_bytes": 7}],
        )
    )
    found = gpus.ask()
    assert (found["nvml"], found["driver"], found["lost"]) == ("", "580.95.05", [])
    (one,) = found["gpus"]
    assert (one["uuid"], one["index"], one["model"], one["arch"]) == (FIRST, 0, "NVIDIA H200", "sm90")
    assert (one["cores"], one["parent"], one["memory_bytes"]) == ("0-2,5", "", 150_754_820_096)
    assert one["readings"] == {
        "temperature_c": 30,
        "power_w": 75.5,
        "sm_clock_mhz": 345,
        "memory_used_bytes": 0,
        "throttle": ["sw_power_cap"],
        "ecc_corrected": 0,
        "ecc_uncorrected": 3,
        "pages_pending": False,
        "pcie_link": "gen5 x16",
    }
    (process,) = one["processes"]
    assert (process["pid"], process["memory_bytes"]) == (os.getpid(), 7)
    assert process["name"], "a process of this machine has a name"


def test_its_configuration_is_what_a_document_says(nvml):
    nvml(gpu(0, power_limit_w=450.0, ecc=False, pcie=[4, 8]))
    script = "import json, sys; from workers.bench.gemm.nvidia import open_source as source\n"
    script += "print(json.dumps(source(sys.argv[1]).settings().configuration))"
    bench = subprocess.run(
        [sys.executable, "-c", script, FIRST], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    (one,) = gpus.ask()["gpus"]
    assert one["configuration"] == json.loads(bench.stdout)
    assert one["configuration"] == {"power_limit_w": 450.0, "ecc": False, "mig": False, "pcie": "gen4 x8"}


def test_what_a_gpu_cannot_say_is_left_out(nvml):
    nvml(
        gpu(
            0,
            unsupported=[
                "nvmlDeviceGetEccMode",
                "nvmlDeviceGetTotalEccErrors",
                "nvmlDeviceGetPowerUsage",
                "nvmlDeviceGetMemoryInfo",
                "nvmlDeviceGetCpuAffinity",
                "nvmlDeviceGetComputeRunningProcesses",
            ],
        )
    )
    (one,) = gpus.ask()["gpus"]
    assert "ecc" not in one["configuration"]
    assert not {"ecc_corrected", "ecc_uncorrected", "power_w", "memory_used_bytes"} & one["readings"].keys()
    assert (one["memory_bytes"], one["cores"], one["processes"]) == (None, "", [])


def test_a_lost_gpu_is_named_and_the_others_are_described(nvml):
    nvml(gpu(0, lost=True), gpu(1))
    found = gpus.ask()
    assert [each["uuid"] for each in found["gpus"]] == [SECOND]
    assert [each["index"] for each in found["lost"]] == [0]


@pytest.mark.parametrize("uuid", [FIRST, "GPU-ffffffff"], ids=["lost", "unknown"])
def test_a_gpu_that_cannot_say_who_uses_it_is_a_sentence(nvml, uuid):
    nvml(gpu(0, lost=True))
    neighbours = gpus.Neighbours()
    with pytest.raises(ValueError, match=rf"\AGPU {uuid} does not answer: [^\n]+\Z"):
        neighbours.of(uuid)
    neighbours.close()


def test_no_driver_is_a_sentence(nvml, monkeypatch):
    nvml(error=NVML_ERROR_DRIVER_NOT_LOADED)
    assert gpus.ask() == gpus.nothing("no NVIDIA driver on this machine")
    nvml(error=18)
    assert gpus.ask()["nvml"].startswith("NVML says: ")


def test_a_driver_that_hangs_is_not_waited_for(nvml):
    nvml(gpu(0), hangs_s=60)
    assert gpus.ask(patience_s=1) == gpus.nothing("NVML did not answer within 1 s")
    watch = gpus.Watch()
    assert watch.look(patience_s=1) == gpus.nothing("NVML did not answer within 1 s")
    nvml(gpu(0))
    assert [each["uuid"] for each in watch.look()["gpus"]] == [FIRST]
    watch.close()


def test_a_watch_tells_of_each_xid_once_and_of_what_falls_off_and_comes_back(nvml):
    watch = gpus.Watch(retry_s=0)
    nvml(gpu(0, xids=[13]), gpu(1))
    assert watch.look()["xids"] == [], "what happened before is not news"
    nvml(gpu(0, xids=[13, 31]), gpu(1, xids=[79]))
    assert [(each["uuid"], each["code"]) for each in watch.look()["xids"]] == [(FIRST, 31), (SECOND, 79)]
    assert watch.look()["xids"] == []
    nvml(gpu(0, xids=[13, 31]))
    assert [each["uuid"] for each in watch.look()["gpus"]] == [FIRST]
    nvml(gpu(0, xids=[13, 31]), gpu(1, lost=True))
    found = watch.look()
    assert ([each["uuid"] for each in found["gpus"]], len(found["lost"])) == ([FIRST], 1)
    nvml(gpu(0, xids=[13, 31]), gpu(1))
    assert [each["uuid"] for each in watch.look()["gpus"]] == [FIRST, SECOND]
    watch.close()


def test_a_watch_ends_with_its_owner(nvml):
    nvml(gpu(0))
    owner = "import os; from workers.gpus import Watch; watch = Watch(); watch.look()\n"
    owner += "print(watch._child._process.pid, flush=True); os._exit(0)"
    said = subprocess.run(
        [sys.executable, "-c", owner], cwd=REPOSITORY, capture_output=True, text=True, timeout=30
    )
    # the pipes that `run` waits for were the child's too: it has ended
    assert said.stdout.strip().isdecimal()


def test_a_machine_without_a_driver_is_not_asked_by_a_new_process_each_time(nvml):
    nvml(error=NVML_ERROR_DRIVER_NOT_LOADED)
    watch = gpus.Watch(retry_s=3600)
    watch.look()
    first = watch._child._process.pid
    assert watch.look() == gpus.nothing("no NVIDIA driver on this machine")
    assert watch._child._process.pid == first
    watch.close()


def test_neighbours_are_told_by_one_process_as_long_as_nvml_answers(nvml):
    nvml(gpu(0), gpu(1))
    neighbours = gpus.Neighbours()
    assert neighbours.of(FIRST) == []
    process = neighbours._child._process
    nvml(gpu(0, processes=[{"pid": os.getpid(), "memory_bytes": 1}]), gpu(1, lost=True))
    (found,) = neighbours.of(FIRST)
    assert (found["pid"], found["memory_bytes"]) == (os.getpid(), 1)
    assert neighbours._child._process is process
    with pytest.raises(ValueError, match=f"GPU {SECOND} does not answer"):
        neighbours.of(SECOND)
    nvml(gpu(0), gpu(1))
    assert neighbours.of(SECOND) == []
    neighbours.close()
