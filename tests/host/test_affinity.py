"""Which CPUs each worker gets, on made-up machines of every shape."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from workers import affinity

Core = tuple[int, ...]


def machine(seed: int) -> tuple[list[set[int]], list[Core]]:
    """GPUs and cores: some sockets, one or two threads a core, some cores not ours, some GPUs anywhere."""
    dice = random.Random(seed)
    sockets, threads = dice.randint(1, 4), dice.randint(1, 2)
    width = dice.randint(1, 12)
    count = sockets * width
    cores = [tuple(core + count * thread for thread in range(threads)) for core in range(count)]
    at = [
        {cpu for core in cores[place * width : (place + 1) * width] for cpu in core}
        for place in range(sockets)
    ]
    near = [set(dice.choice([*at, set()])) for _ in range(dice.randint(0, 10))]
    return near, dice.sample(cores, dice.randint(1, count))


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_shares_are_near_whole_disjoint_and_leave_room_for_compilers(first):
    for seed in range(first, first + 100):
        holds(*machine(seed))


def holds(near: list[set[int]], cores: list[Core]) -> None:
    shares = affinity.shares(near, cores)
    usable = {cpu for core in cores for cpu in core}
    assert len(shares) == len(near)
    assert all(share and usable.issuperset(share) for share in shares)
    assert all(len(share) <= affinity.MOST for share in shares)
    if len(cores) < len(near):
        return
    taken = [cpu for share in shares for cpu in share]
    assert len(taken) == len(set(taken)), "no CPU is shared where there are enough"
    whose = {cpu: place for place, share in enumerate(shares) for cpu in share}
    for core in cores:
        assert len({whose.get(cpu) for cpu in core}) == 1, "a core is never divided"
    for place, share in enumerate(shares):
        close = near[place] & usable
        if not close.issuperset(share) and close:
            others = {cpu for other in shares if other is not share for cpu in other}
            assert close <= others, "far from its GPU only where nothing near is left"
    used = sum(1 for core in cores if core[0] in whose)
    assert used <= max(len(near), len(cores) - max(2, len(cores) // 4)), "compilers keep a quarter"
    rest = affinity.left_over(shares, cores)
    assert set(rest) == (usable - set(taken) if len(usable) - len(set(taken)) >= 2 else usable)


@pytest.mark.parametrize("gpus", range(1, 9))
def test_gpus_of_one_socket_get_equal_shares(gpus):
    for count in range(gpus, 80):
        everywhere = set(range(count))
        shares = affinity.shares([everywhere] * gpus, [(cpu,) for cpu in everywhere])
        sizes = [len(share) for share in shares]
        assert max(sizes) - min(sizes) <= 1, f"{count} cores: {sizes}"


def test_more_gpus_than_cores_share_what_is_near():
    assert affinity.shares([{0}, {1}, {1}], [(0,), (1,)]) == [(0,), (1,), (1,)]


def test_eight_gpus_on_two_sockets_with_threads():
    cores = [(core, core + 64) for core in range(64)]
    sockets = [set(range(first, first + 32)) | set(range(first + 64, first + 96)) for first in (0, 32)]
    shares = affinity.shares([*[sockets[0]] * 4, *[sockets[1]] * 4], cores)
    assert all(len(share) == 8 for share in shares)
    assert len(affinity.left_over(shares, cores)) == 64


def test_ranges_are_the_kernels():
    assert affinity.as_ranges([5, 0, 1, 2, 8, 9]) == "0-2,5,8-9"
    assert affinity.from_ranges("0-2,5,8-9\n") == [0, 1, 2, 5, 8, 9]
    assert affinity.as_ranges([]) == ""
    assert affinity.from_ranges("") == []


def test_cores_of_this_machine_are_all_that_may_be_used_each_once():
    cpus = [cpu for core in affinity.physical_cores() for cpu in core]
    assert sorted(cpus) == sorted(os.sched_getaffinity(0))


def test_a_child_starts_pinned_and_its_parent_stays_as_it_was():
    before = os.sched_getaffinity(0)
    with affinity.pinned([min(before)]):
        said = subprocess.run(
            [sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"],
            capture_output=True,
            text=True,
            check=True,
        )
    assert said.stdout.split() == [str(min(before))]
    assert os.sched_getaffinity(0) == before
