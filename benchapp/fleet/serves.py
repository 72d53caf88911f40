"""What alerts ask of the fleet: who serves a target now, and which versions there are."""

from __future__ import annotations

from collections.abc import Callable

from benchapp.alerts.places import Place
from benchapp.catalog.models import Target
from benchapp.fleet import builds, offers
from benchapp.fleet.models import Gpu
from benchapp.fleet.words import gpu_name
from benchapp.runs import queues
from benchapp.runs.again import RECORDED


def place_of(target: Target) -> Place:
    """The queue of that very GPU, of its own host's CPUs, or of a compiler, its own host's first."""
    host = target.host.name if target.host else ""
    if target.kind == Target.Kind.GPU:
        return _of_gpu(target)
    if target.kind == Target.Kind.CPU:
        found = _of_host(queues.cpu_of, host)
        # times are the host's own
        here = [(name, queue) for name, queue in found if name == host]
        return (
            Place(here[0][1], f"CPUs of {host}")
            if here
            else Place(why=f"No live worker serves {host}'s CPUs.")
        )
    if target.kind == Target.Kind.ARCH:
        found = _of_host(queues.build_of, host)
        return (
            Place(found[0][1], f"compiler of {found[0][0]}") if found else Place(why="No live host compiles.")
        )
    return Place(why=f"{target} is somebody else's server: its versions are not ours to change.")


def _of_gpu(target: Target) -> Place:
    if target.uuid.startswith(RECORDED):
        return Place(why=f"No host here has this {target}: it was measured elsewhere.")
    gpu = Gpu.objects.filter(uuid=target.uuid).select_related("installation").order_by("-seen_at").first()
    name = gpu_name(gpu.index, gpu.installation.host) if gpu else ""
    queue = queues.gpu(target.uuid)
    if any(queue in each.queues for each in builds.live()):
        return Place(queue, name or str(target))
    return Place(why=f"No live worker serves {f'{name}, ' if name else ''}{target} {target.uuid}.")


def _of_host(queue_of: Callable[[str], str], host: str) -> list[tuple[str, str]]:
    """(host, queue) of the live installations that serve such a queue, those of `host` first."""
    serving = ((each.host, queue_of(each.key), each) for each in builds.live())
    found = [(name, queue) for name, queue, each in serving if queue in each.queues]
    return sorted(found, key=lambda each: (each[0] != host, each))


def releases(component: str) -> list[str]:
    """Those known of a package of recipes; none of what recipes do not name."""
    return offers.releases(component) if component in offers.ON_INDEX else []
