"""Where the trigger page offers to measure: CPUs, kinds of GPUs, single ones, gangs of one host."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Sequence

from benchapp.fleet.models import Gpu
from benchapp.fleet.offers import Machines
from benchapp.fleet.words import gpu_name, listed

#: Values of an address that nothing offers, shown so that they can be taken away.
MOST_STRANGE = 20
LONGEST_STRANGE = 80


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str
    chosen: bool
    note: str = ""
    #: not offered; it came with the address
    strange: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Choices under one heading."""

    label: str
    choices: list[Choice]
    folded: bool = False


def choices(offered: Iterable[tuple[str, str]], chosen: Sequence[str]) -> list[Choice]:
    return [Choice(value, label, value in chosen) for value, label in offered]


def strange(values: Sequence[str], offered: Iterable[str]) -> list[Choice]:
    """Those of an address that are not offered."""
    known = set(offered)
    unknown = [value for value in values if value not in known and len(value) <= LONGEST_STRANGE]
    return [Choice(value, value, True, strange=True) for value in unknown[:MOST_STRANGE]]


def measuring(machines: Machines, chosen: Sequence[str], size: int | None, *, cpus: bool) -> list[Group]:
    """Targets of measurements that take `size` GPUs together; None: any number, a gang a whole host."""
    on_cpus = [("cpu", "any host's CPUs")]
    on_cpus += [(f"cpu:{key}", f"CPUs of {host}") for key, host in machines.hosts.items()]
    kinds = [(f"model:{slug}", f"any {model}") for slug, model in machines.models.items()]
    kinds += [(f"gpuarch:{arch}", f"any GPU of {arch.upper()}") for arch in machines.archs]
    hosts = _by_host(machines)
    one = [
        (f"gpu:{gpu.uuid}", f"{gpu_name(gpu.index, host)}, {gpu.model}")
        for host, gpus in hosts.items()
        for gpu in gpus
    ]
    single = size in (None, 1)
    groups = [
        Group("CPUs", choices(on_cpus, chosen) if cpus else []),
        Group("Any GPU of a kind", choices(kinds, chosen) if single else []),
        Group("One GPU", choices(one, chosen) if single else []),
        Group("Gangs", choices(_gangs(hosts, size), chosen)),
    ]
    return [group for group in groups if group.choices]


def of_members(machines: Machines, ticked: Sequence[str], size: int) -> list[Group]:
    """The GPUs of each host with more than `size`, to be ticked one by one."""
    return [
        Group(host, choices([(gpu.uuid, f"GPU {gpu.index}") for gpu in gpus], ticked))
        for host, gpus in _by_host(machines).items()
        if len(gpus) > size
    ]


def _by_host(machines: Machines) -> dict[str, list[Gpu]]:
    hosts: defaultdict[str, list[Gpu]] = defaultdict(list)
    for gpu in sorted(machines.by_uuid.values(), key=lambda gpu: (gpu.installation.host, gpu.index)):
        hosts[gpu.installation.host].append(gpu)
    return hosts


def _gangs(hosts: dict[str, list[Gpu]], size: int | None) -> list[tuple[str, str]]:
    """Each `size` neighbours of a host, by index; None: all of its GPUs."""
    found = []
    for host, gpus in hosts.items():
        each = len(gpus) if size is None else size
        if each < 2:
            continue
        for first in range(0, len(gpus) - each + 1, each):
            gang = gpus[first : first + each]
            whole = f"the {each} GPUs of {host} together"
            part = f"GPUs {listed([str(gpu.index) for gpu in gang])} of {host}"
            target = f"gang:{'+'.join(sorted(gpu.uuid for gpu in gang))}"
            found.append((target, whole if len(gang) == len(gpus) else part))
    return found
