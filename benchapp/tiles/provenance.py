"""Which versions' evidence was found here, and which was taken over as recorded elsewhere."""

from __future__ import annotations

from benchapp.runs.models import Document


def only_recorded(arch: str, package: str) -> set[str]:
    """Versions of a package all of whose tile evidence on `arch` came with the source. One query."""
    accepted = Document.objects.filter(kind="tiles", state=Document.State.ACCEPTED, target__arch=arch)
    recorded: set[str] = set()
    found_here: set[str] = set()
    for components, origin in accepted.values_list("stack__components", "origin").distinct():
        speaks_of = "flashinfer" if "flashinfer" in components else "cutlass"
        if speaks_of == package:
            (recorded if origin == Document.Origin.RECORDED else found_here).add(components[package])
    return recorded - found_here
