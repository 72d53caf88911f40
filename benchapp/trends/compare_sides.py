"""What can stand on a side: a GPU or all of a model, with a version of a component or a whole stack."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence

from django.db import connection
from django.db.models import Max

from benchapp.catalog.models import Stack, Target
from benchapp.catalog.places import names
from benchapp.catalog.versions import newest_order
from benchapp.runs.models import Document
from benchapp.trends.components import FIRST, component_order

#: Whole stacks offered, newest first.
MAX_STACKS = 40
#: Characters of a stack's digest in an address.
DIGEST = 12


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """Documents of one stack on one target."""

    target: Target
    stack: Stack
    newest: dt.datetime
    #: the newest of them
    document: int


@dataclasses.dataclass(frozen=True, slots=True)
class Side:
    """One side of a comparison; `documents` are all that it may take measurements from."""

    #: the GPU, or all of a model, in words
    place: str
    #: "vllm 0.19.0", or the name of a whole stack
    name: str
    stacks: tuple[Stack, ...]
    documents: tuple[int, ...]
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    #: a run or document that it is narrowed to, in words
    only: str = ""

    @property
    def window(self) -> str:
        if self.since and self.until:
            return f"{self.since:%Y-%m-%d} to {self.until - dt.timedelta(days=1):%Y-%m-%d}"
        if self.since:
            return f"from {self.since:%Y-%m-%d} on"
        return f"until {self.until - dt.timedelta(days=1):%Y-%m-%d}" if self.until else ""

    def __str__(self) -> str:
        narrowed = ", ".join(part for part in (self.only, self.window) if part)
        return f"{self.name} on {self.place}" + (f" ({narrowed})" if narrowed else "")


def held() -> list[Held]:
    """What measurements there are, newest first. Tile surveys measure nothing."""
    rows = list(
        Document.objects.filter(
            state=Document.State.ACCEPTED, target__isnull=False, stack__isnull=False, kind="gemm"
        )
        .order_by()
        .values_list("target_id", "stack_id")
        .annotate(Max("received_at"), Max("pk"))
    )
    targets = Target.objects.select_related("host").in_bulk({row[0] for row in rows})
    stacks = Stack.objects.in_bulk({row[1] for row in rows})
    found = [Held(targets[target], stacks[stack], at, pk) for target, stack, at, pk in rows]
    return sorted(found, key=lambda each: (each.newest, each.stack.pk), reverse=True)


def places(every: Sequence[Held]) -> dict[str, str]:
    """Targets, and models with several GPUs, by their value in an address; GPUs first."""
    targets = {each.target.pk: each.target for each in every}
    of_model: dict[str, list[Target]] = defaultdict(list)
    for target in targets.values():
        if target.kind == Target.Kind.GPU and target.model:
            of_model[target.model].append(target)
    named = names(targets.values())
    shown = {}
    for model, those in sorted(of_model.items()):
        if len(those) > 1:
            shown[f"model:{model}"] = f"any {model}"
    for target in sorted(targets.values(), key=lambda t: (t.kind != Target.Kind.GPU, str(t), t.pk)):
        shown[str(target.pk)] = named[target.pk]
    return shown


def at(place: str, every: Sequence[Held]) -> list[Held]:
    """What is held at a place."""
    model = place.removeprefix("model:") if place.startswith("model:") else None
    return [
        each
        for each in every
        if (str(each.target.pk) == place if model is None else each.target.model == model)
    ]


def versions(here: Sequence[Held]) -> dict[str, list[str]]:
    """The versions of each component, newest first."""
    found: dict[str, set[str]] = defaultdict(set)
    for each in here:
        for component, version in each.stack.components.items():
            found[component].add(str(version))
    return {
        name: sorted(found[name], key=newest_order, reverse=True)
        for name in sorted(found, key=component_order)
    }


def choices(here: Sequence[Held], elsewhere: Sequence[Held] = ()) -> list[tuple[str, list[tuple[str, str]]]]:
    """What a side may be, in groups: versions of the components that vary on either side, else of those
    that people ask about; and whole stacks."""
    own, both = versions(here), versions([*here, *elsewhere])
    varying = (
        [name for name in own if len(both[name]) > 1] or [name for name in own if name in FIRST] or list(own)
    )
    groups = [
        (name, [(f"{name} {version}", f"{name} {version}") for version in own[name]]) for name in varying
    ]
    stacks = {each.stack.digest[:DIGEST]: stack_name(each.stack, varying) for each in here}
    if len(stacks) > 1:
        groups.append(("whole stack", list(stacks.items())[:MAX_STACKS]))
    return groups


def stack_name(stack: Stack, told: Collection[str]) -> str:
    """A whole stack in a few words: what varies of it, and its digest."""
    said = [f"{name} {version}" for name, version in stack.components.items() if name in told]
    return f"{', '.join(said[:4])} ({stack.digest[:6]})" if said else stack.digest[:DIGEST]


def without_borrowed(here: Sequence[Held]) -> list[Held]:
    """Those that were measured themselves, as a measurement of their newest document tells; all where none
    was. Borrowed numbers are another version's, and no page should open on them."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT wanted.id FROM unnest(%s::int8[]) AS wanted (id)
            JOIN LATERAL (
                SELECT flags FROM runs_measurement WHERE document_id = wanted.id LIMIT 1
            ) AS first ON true
            WHERE 'borrowed' = ANY(first.flags)
            """,
            [[each.document for each in here]],
        )
        borrowed = {row[0] for row in cursor.fetchall()}
    return [each for each in here if each.document not in borrowed] or list(here)


def suggested(here: Sequence[Held]) -> tuple[str, str]:
    """The pair to open on: the two newest versions of the first component that varies, older first."""
    for name, found in versions(here).items():
        if len(found) > 1:
            return f"{name} {found[1]}", f"{name} {found[0]}"
    only = choices(here)
    first = only[0][1][0][0] if only else ""
    return first, first


def stacks_of(choice: str, here: Sequence[Held]) -> list[Stack]:
    """The stacks that a choice means: "vllm 0.19.0" all with that version, a digest one."""
    component, _, version = choice.partition(" ")
    found = {
        each.stack.pk: each.stack
        for each in here
        if (
            str(each.stack.components.get(component)) == version
            if version
            else each.stack.digest.startswith(choice)
        )
    }
    return list(found.values())


def differing(before: Sequence[Stack], after: Sequence[Stack]) -> list[tuple[str, str, str, bool]]:
    """(component, versions before, versions after, whether they differ), those that differ first."""
    old, new = _merged([s.components for s in before]), _merged([s.components for s in after])
    rows = [
        (name, old.get(name, ""), new.get(name, ""), old.get(name) != new.get(name))
        for name in {**old, **new}
    ]
    return sorted(rows, key=lambda row: (not row[3], component_order(row[0])))


def _merged(stacks: Sequence[Mapping[str, object]]) -> dict[str, str]:
    found: dict[str, set[str]] = defaultdict(set)
    for components in stacks:
        for name, version in components.items():
            found[name].add(str(version))
    return {name: ", ".join(sorted(each, key=newest_order)) for name, each in found.items()}
