"""Which workers a host would run: `python -m workers up --dry-run`, and the choice behind it."""

from __future__ import annotations

import pytest

from tests.simulated.pynvml import NVML_ERROR_LIBRARY_NOT_FOUND, gpu
from workers import gpus, plan, up

FIRST, SECOND = gpu(0)["uuid"], gpu(1)["uuid"]
PART = {"uuid": "MIG-0a1b2c3d-1", "model": "NVIDIA H200 MIG 1g.18gb", "memory_bytes": 18_000_000_000}

pytestmark = pytest.mark.usefixtures("host")


def chosen(asked: str) -> tuple[list[str], str]:
    """UUIDs of the GPUs that would be served, and what is said of the others."""
    served, notes = plan.choose(gpus.ask(), asked)
    return [each["uuid"] for each in served], " ".join(notes)


def test_one_worker_a_gpu_and_three_beside_them(run_up, nvml):
    nvml(gpu(0), gpu(1, model="NVIDIA RTX PRO 6000", capability=[12, 0]))
    done = run_up("--dry-run")
    assert done.returncode == 0, done.stderr
    head, *lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == ["gpu0", "gpu1", "build", "cpu", "chores"]
    assert head.split() == ["worker", "GPU", "model", "UUID", "CPUs", "queues"]
    queues = f"gpu.uuid.{SECOND}, gpu.model.nvidia-rtx-pro-6000, gpu.arch.sm120"
    assert all(words in lines[1] for words in ("NVIDIA RTX PRO 6000", SECOND, queues))


def test_a_worker_knows_its_gpu_and_one_without_sees_none(nvml):
    nvml(gpu(0))
    served, _ = plan.choose(gpus.ask(), "all")
    first, *others = plan.workers(served, "k3jd82ks", [(0,), (1,), (2,), (3,)], cpu=False)
    assert [worker.name for worker in others] == ["build", "chores"]
    assert (
        up.environment(first).items()
        >= {
            "CUDA_VISIBLE_DEVICES": FIRST,
            "TILEWATCH_GPU": FIRST,
            "TILEWATCH_WORKER": "gpu",
        }.items()
    )
    for worker in others:
        assert up.environment(worker)["CUDA_VISIBLE_DEVICES"] == ""
    assert (first.cpus, others[0].cpus) == ((0, 1), (2, 3)), "no compiler on the CPUs of a measurement"
    assert "chores.k3jd82ks" in up.command(others[1])


@pytest.mark.parametrize("which", ["1", SECOND, f"{SECOND}, 1"])
def test_only_those_asked_for(nvml, which):
    nvml(gpu(0), gpu(1))
    assert chosen(which) == ([SECOND], "")


@pytest.mark.parametrize("which", ["2", "GPU-ffffffff", "0,,1", "-1", "all,0"])
def test_a_gpu_that_is_not_there_is_named_beside_those_that_are(nvml, which):
    nvml(gpu(0), gpu(1))
    with pytest.raises(plan.PlanError) as error:
        chosen(which)
    assert "--gpus: there is no GPU" in str(error.value)
    assert f"0 ({FIRST}), 1 ({SECOND})" in str(error.value)


def test_without_a_driver_the_others_start_and_the_reason_is_given(run_up, nvml):
    nvml(error=NVML_ERROR_LIBRARY_NOT_FOUND)
    done = run_up("--dry-run")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()[1:-1]] == ["build", "cpu", "chores"]
    assert done.stdout.splitlines()[-1] == "No GPU is served: no NVIDIA driver on this machine."
    asked = run_up("--dry-run", "--gpus", "0")
    assert (asked.returncode, asked.stdout) == (1, "")
    assert asked.stderr == "The workers cannot start: --gpus 0: no NVIDIA driver on this machine.\n"


def test_a_gpu_in_mig_mode_is_left_out_and_its_devices_are_served_by_uuid(nvml):
    nvml(gpu(0), gpu(1, mig=True, parts=[PART]))
    served, notes = chosen("all")
    assert served == [FIRST]
    assert notes.startswith("GPU 1, NVIDIA H200, is in MIG mode and left out.")
    assert f"{PART['uuid']} ({PART['model']})" in notes
    assert chosen(f"0,{PART['uuid']}") == ([FIRST, PART["uuid"]], "")
    with pytest.raises(
        plan.PlanError, match=f"GPU 1 is in MIG mode; name a MIG device of it: {PART['uuid']}"
    ):
        chosen("1")


def test_mig_devices_are_workers_of_their_own(nvml):
    other = {**PART, "uuid": "MIG-0a1b2c3d-2"}
    nvml(gpu(0), gpu(1, mig=True, parts=[PART, other]))
    served, _ = plan.choose(gpus.ask(), f"{PART['uuid']},{other['uuid']}")
    names = [worker.name for worker in plan.workers(served, "k3jd82ks", [(0,)], cpu=True)]
    assert names == ["gpu1-0", "gpu1-1", "build", "cpu", "chores"]


def test_a_lost_gpu_is_told(nvml):
    nvml(gpu(0, lost=True), gpu(1))
    served, notes = chosen("all")
    assert served == [SECOND]
    assert notes.startswith("GPU 0 cannot be used: ")


@pytest.mark.parametrize("labels", ["rack", "Rack=b4", "rack=", "=b4", "rack=b4=5"])
def test_a_label_that_is_none_is_named(capsys, labels):
    with pytest.raises(SystemExit) as ended:
        up.main(["up", "--labels", labels])
    assert ended.value.code == 2
    assert "expected name=value" in capsys.readouterr().err


def test_a_data_folder_that_cannot_be_written_is_named(run_up, nvml, monkeypatch):
    nvml(gpu(0))
    monkeypatch.setenv("TILEWATCH_HOME", "/proc/nowhere")
    done = run_up()
    assert done.returncode == 1
    assert done.stderr.startswith("The workers cannot start: ")
    assert "/proc/nowhere" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"DJANGO_SETTINGS_MODULE": "benchapp.settings.production"}, "TILEWATCH_SECRET_KEY is not set"),
        ({"DATABASE_URL": "mysql://host/name"}, "DATABASE_URL: expected postgres://"),
        ({"TILEWATCH_HOST_NAME": "a/b"}, "TILEWATCH_HOST_NAME: expected"),
        ({"TILEWATCH_DISK_BUDGET_GB": "lots"}, "TILEWATCH_DISK_BUDGET_GB: expected a number of GB"),
    ],
    ids=["no secret", "no postgres", "no name", "no number"],
)
def test_what_no_worker_could_start_with_is_said_at_once(run_up, nvml, monkeypatch, variables, sentence):
    nvml(gpu(0))
    monkeypatch.setenv("DJANGO_SETTINGS_MODULE", "benchapp.settings.local")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    done = run_up()
    assert done.returncode == 1
    assert done.stderr.startswith(f"The workers cannot start: {sentence}")
    assert done.stderr.count("\n") == 1
