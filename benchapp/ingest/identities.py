"""A document's target, stack, cases and series, found or made in the catalog."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from benchapp.catalog.digests import case_digest, case_label, case_sweep, digest
from benchapp.catalog.models import Configuration, Host, Release, Stack, Target
from benchapp.ingest import bulk, schema
from benchapp.tiles.families import spoken_of


def target_of(document: schema.Document) -> Target:
    """The target row. Raises Fault where a GPU's UUID is known as another product.

    What the device says of itself is kept as the newest document has it, whatever comes in later.
    """
    said = document.target
    if said.kind == "gpu":
        key = f"gpu:{said.uuid}"
    elif said.kind in ("cpu", "endpoint"):
        key = f"{said.kind}:{digest({'host': said.host, 'model': said.model})}"
    else:
        key = f"arch:{said.arch}"
    host = Host.objects.get_or_create(name=said.host)[0] if said.host else None
    described = {
        "kind": said.kind,
        "arch": said.arch,
        "model": said.model or "",
        "uuid": said.uuid or "",
        "host": host,
        "properties": dict(said.properties),
        "described_at": document.finished_at,
    }
    target, created = Target.objects.get_or_create(key=key, defaults=described)
    # what only a host has reported of a GPU yet, a document may correct
    described_before = not created and target.described_at is not None
    if (
        described_before
        and said.kind == "gpu"
        and (target.model, target.arch) != (said.model or "", said.arch)
    ):
        raise schema.Fault(f"target: {said.uuid} is known as {target.model} ({target.arch})")
    if target.described_at is None or target.described_at < document.finished_at:
        for name, value in described.items():
            setattr(target, name, value)
        target.save()
    return target


def stack_of(document: schema.Document) -> Stack:
    return stack(document.stack)


def stack(versions: Mapping[str, str]) -> Stack:
    components = dict(versions)
    return Stack.objects.get_or_create(digest=digest(components), defaults={"components": components})[0]


def configuration_of(document: schema.Document) -> Configuration:
    settings = dict(document.target.configuration)
    return Configuration.objects.get_or_create(digest=digest(settings), defaults={"settings": settings})[0]


def release_of(document: schema.Document) -> Release:
    """The release that a document's evidence speaks of."""
    package = spoken_of(document.stack)
    release, _ = Release.objects.get_or_create(package=package, version=document.stack[package])
    cutlass = document.stack.get("cutlass", "")
    if cutlass and release.cutlass != cutlass:
        release.cutlass = cutlass
        release.save(update_fields=["cutlass"])
    return release


def cases_of(items: Sequence[schema.Measurement | schema.Comparison]) -> list[int]:
    """The case id of each item, in their order."""
    digests = [case_digest(item.kind, item.params) for item in items]
    case_ids = bulk.find("catalog_case", {"digest": "text"}, [(key,) for key in dict.fromkeys(digests)])
    unknown = {
        key: (
            key,
            item.kind,
            json.dumps(item.params),
            case_label(item.kind, item.params),
            *case_sweep(item.kind, item.params),
        )
        for key, item in zip(digests, items, strict=True)
        if (key,) not in case_ids
    }
    case_ids |= bulk.upsert(
        "catalog_case",
        {
            "digest": "text",
            "kind": "text",
            "params": "jsonb",
            "label": "text",
            "shape": "text",
            "dtype": "text",
            "size": "int8",
        },
        ["digest"],
        list(unknown.values()),
    )
    return [case_ids[key,] for key in digests]


def series_of(items: Sequence[schema.Measurement], target: Target, configuration: Configuration) -> list[int]:
    """The series id of each measurement, in their order."""
    keys = [
        (case, target.pk, configuration.pk, item.backend or "", item.metric)
        for case, item in zip(cases_of(items), items, strict=True)
    ]
    series_ids = bulk.upsert(
        "catalog_series",
        {
            "case_id": "bigint",
            "target_id": "bigint",
            "configuration_id": "bigint",
            "backend": "text",
            "metric": "text",
        },
        ["case_id", "target_id", "configuration_id", "backend", "metric"],
        list(dict.fromkeys(keys)),
    )
    return [series_ids[key] for key in keys]
