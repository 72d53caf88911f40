"""Names of queues and workers."""

from __future__ import annotations

import pytest

from benchapp.runs import queues


@pytest.mark.parametrize(
    ("gpu", "label"), [("", "gpu"), ("GPU-1a2b3c4d-0000-0000-0000-000000000000", "gpu-1a2b3c4d")]
)
def test_a_worker_is_named_by_the_start_of_its_gpus_uuid(gpu: str, label: str):
    assert queues.worker_label("gpu", gpu) == label


def test_parts_of_one_gpu_have_workers_of_different_names():
    parts = [f"MIG-GPU-1a2b3c4d-0000-0000-0000-000000000000/{gi}/0" for gi in range(7)]
    assert len({queues.worker_label("gpu", part) for part in parts}) == 7
