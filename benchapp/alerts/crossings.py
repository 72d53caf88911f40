"""What the series of a group went through: which of them had the chance to move, and what each crossed."""

from __future__ import annotations

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise

from benchapp.alerts import suspects, telling
from benchapp.alerts.grouping import Group
from benchapp.alerts.kinds.reference import BASE, is_reference, reference_series
from benchapp.alerts.models import Alert, Change, Watch
from benchapp.catalog.models import Series, Stack

#: Series of an alert whose other crossings its suspects are judged by.
MOST_CROSSED = 500


def crossed(group: Group) -> tuple[int, list[suspects.Crossing], str]:
    """(how many series had the chance to move, what all of them crossed, what reference cases did)."""
    targets = {move.target_id for move in group.moves}
    watches = Watch.objects.filter(
        series__target__in=targets, series__metric__in={m.metric for m in group.moves}
    )
    references = {
        each.pk: each
        for each in Series.objects.filter(reference_series(), target__in=targets).select_related("case")
        if is_reference(each.case, each.backend)
    }
    if group.kind == Alert.Kind.MACHINE:
        seen = watches.filter(points__gt=1)
        moved = sum(move.reference for move in group.moves)
        of = seen.filter(pk__in=references).count()
        told = telling.reference_words(moved, of, explained=True) if group.with_upgrade else ""
        return seen.count(), [], told
    pairs = {(move.stack_before_id, move.stack_after_id) for move in group.moves if move.differs}
    through = watches.filter(stacks__overlap=[after for _, after in pairs]).values_list("pk", "stacks")
    chances = {pk for pk, stacks in through.iterator() if pairs & set(pairwise(stacks))}
    beside = [each for pk, each in references.items() if pk in chances]
    touched = any(each.component in BASE for each in group.upgraded.differs)
    told = (
        ""
        if touched
        else telling.reference_words(_moved_beside(group, beside, pairs), len(beside), explained=False)
    )
    series = [move.series_id for move in group.moves[:MOST_CROSSED]]
    return len(chances), _history(series, pairs), told


def _moved_beside(group: Group, references: Collection[Series], pairs: Collection[tuple[int, int]]) -> int:
    """How many reference cases moved with these stack changes, or on a GPU at the time when the group's did,
    whichever alert holds that."""
    times: dict[int, list[dt.datetime]] = defaultdict(list)
    for move in group.moves:
        times[move.target_id] += [move.window.start, move.window.end]
    target_of = {each.pk: each.target_id for each in references}
    moved = set()
    for pk, old, new, before_at, at in Change.objects.filter(series__in=target_of, gone_at=None).values_list(
        "series", "stack_before", "stack_after", "before_at", "at"
    ):
        here = times[target_of[pk]]
        meets = bool(here) and min(before_at, at) <= max(here) and max(before_at, at) >= min(here)
        if meets or (old, new) in pairs:
            moved.add(pk)
    return len(moved)


def _history(series_ids: Sequence[int], asked: Collection[tuple[int, int]]) -> list[suspects.Crossing]:
    """Every pair of successive stacks that these series were measured with, and whether they moved there."""
    moved: Mapping[int, set[tuple[int, int]]] = defaultdict(set)
    for series_id, *pair in Change.objects.filter(series__in=series_ids, gone_at=None).values_list(
        "series", "stack_before", "stack_after"
    ):
        moved[series_id].add((pair[0], pair[1]))
    counted = Counter(
        (pair, pair in moved[series_id])
        for series_id, stacks in Watch.objects.filter(pk__in=series_ids).values_list("pk", "stacks")
        for pair in pairwise(stacks)
    )
    ids = {stack_id for (pair, _) in counted for stack_id in pair}
    components = dict(Stack.objects.filter(pk__in=ids).values_list("pk", "components"))
    return [
        suspects.Crossing(
            frozenset(each.component for each in suspects.differences(components[old], components[new])),
            did_move,
            (old, new) in asked,
        )
        for ((old, new), did_move), count in counted.items()
        for _ in range(count)
    ]
