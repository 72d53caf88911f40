"""Changes without an alert, and alerts whose changes moved → `grouping` → alerts opened, joined or closed.

One at a time (an advisory lock): where a change belongs depends on which alerts are open. The looks before it
run side by side.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Collection, Iterable, Sequence

from django.db import InterfaceError, OperationalError, connection, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from benchapp.alerts import grouping, importance, suspects, telling
from benchapp.alerts.actions import raise_event
from benchapp.alerts.closing import resolve
from benchapp.alerts.cost import cost
from benchapp.alerts.crossings import crossed
from benchapp.alerts.grouping import Group, Moved, OpenMachine, Window
from benchapp.alerts.kinds.reference import is_reference
from benchapp.alerts.models import Alert, Change, Event
from benchapp.alerts.opening import Proposal, note, open_or_join
from benchapp.catalog.locks import lock
from benchapp.catalog.models import Stack, Target

logger = logging.getLogger(__name__)

#: Alerts that changes make; others may have changes too, and belong to `kinds`.
OWN = ("stack:", "machine:", "build:")
#: States in which a person closes what was real.
CLOSED_BY_PEOPLE = (Alert.State.FIXED, Alert.State.WONT_FIX, Alert.State.MACHINE)
#: So long after that, more of the same is no news.
RECENT = dt.timedelta(days=90)
#: Changes that one gathering takes up; what is left comes with the next.
MOST = 5000


@transaction.atomic
def gather(touched: Collection[int] = ()) -> list[Alert]:
    """Bring alerts in line with what stands in changes. `touched`: alerts whose changes moved or went.

    Returns the alerts that were opened or hold something new.
    """
    lock("alerts:gather")
    pending = list(_live().filter(alert=None).exclude(series__watch__muted=True).order_by("pk")[:MOST])
    # not of `touched` alone: a detector may have died between its looks and this
    gone = own().filter(Exists(_of_alert()), ~Exists(_of_alert().filter(gone_at=None)))
    touched = {*touched, *gone.values_list("pk", flat=True)}
    if not pending and not touched:
        return []
    new = _moved(pending)
    opened = own().filter(_beside(new) | Q(pk__in=touched))
    moves = [*new, *_moved(_live().filter(alert__in=opened))]
    seen = {move.alert_id for move in moves} - {None} | touched
    groups = grouping.sort_out(moves, _machines(moves))
    alerts = [alert for group in groups if (alert := _write_safely(group)) is not None]
    for alert in own().filter(pk__in=seen):
        _close_if_empty(alert)
    return alerts


def own() -> QuerySet[Alert]:
    starts = Q()
    for prefix in OWN:
        starts |= Q(key__startswith=prefix)
    return Alert.objects.filter(starts, closed_at=None)


def _of_alert() -> QuerySet[Change]:
    return Change.objects.filter(alert=OuterRef("pk"))


def _live() -> QuerySet[Change]:
    return Change.objects.filter(gone_at=None).select_related("series__case")


def _beside(new: Sequence[Moved]) -> Q:
    """Alerts that new changes may join, or draw changes from: of the same stacks, or of the same target and
    time."""
    upgrades = [move for move in new if move.differs]
    same = _of_alert().filter(
        stack_before__in={move.stack_before_id for move in upgrades},
        stack_after__in={move.stack_after_id for move in upgrades},
    )
    found = Q(Exists(same)) | Q(key__in={grouping.stack_key(move) for move in upgrades})
    others = [move for move in new if not move.differs]
    if others:
        near = _of_alert().filter(
            series__target__in={move.target_id for move in others},
            at__range=(min(m.window.start for m in others), max(m.window.end for m in others)),
        )
        found |= Q(Exists(near))
    return found


def _moved(changes: Iterable[Change]) -> list[Moved]:
    listed = list(changes)
    measured_here = _measured_here({change.series_id for change in listed})
    # an upgrade moves thousands, all of a few stacks and targets
    targets = Target.objects.select_related("host").in_bulk({change.series.target_id for change in listed})
    pairs = {(change.stack_before_id, change.stack_after_id) for change in listed}
    stacks = Stack.objects.in_bulk({pk for pair in pairs for pk in pair})
    differs = {
        (old, new): suspects.differences(stacks[old].components, stacks[new].components) for old, new in pairs
    }
    return [
        _move(
            change,
            targets[change.series.target_id],
            differs[change.stack_before_id, change.stack_after_id],
            measured_here,
        )
        for change in listed
    ]


def _move(
    change: Change, target: Target, differs: tuple[suspects.Differs, ...], measured_here: set[int]
) -> Moved:
    series = change.series
    case = series.case
    return Moved(
        change_id=change.pk,
        alert_id=change.alert_id,
        series_id=series.pk,
        label=case.label,
        backend=series.backend,
        metric=series.metric,
        target_id=target.pk,
        target_kind=target.kind,
        model=str(target),
        host_id=target.host_id,
        host=target.host.name if target.host else "",
        at=change.at,
        before_at=change.before_at,
        stack_before_id=change.stack_before_id,
        stack_after_id=change.stack_after_id,
        differs=differs,
        before=change.before,
        after=change.after,
        ratio=change.ratio,
        low=change.low,
        high=change.high,
        confidence=change.confidence,
        certain=change.certain,
        worse=change.worse,
        n_before=change.n_before,
        n_after=change.n_after,
        weight=importance.weight(case.kind, case.params, change.before if series.metric == "time" else None),
        reference=is_reference(case, series.backend),
        recorded=series.pk not in measured_here,
    )


def _measured_here(series_ids: Collection[int]) -> set[int]:
    """Series of which something was measured or taken in that did not come with Tilewatch."""
    with connection.cursor() as cursor:
        cursor.execute(
            """
            SELECT asked.id FROM unnest(%s::bigint[]) AS asked (id) WHERE EXISTS (
                SELECT FROM runs_measurement m JOIN runs_document d ON d.id = m.document_id
                WHERE m.series_id = asked.id AND d.origin <> 'recorded'
            )
            """,
            [sorted(series_ids)],
        )
        return {row[0] for row in cursor.fetchall()}


def _machines(moves: Sequence[Moved]) -> list[OpenMachine]:
    """Alerts of the machines that something moved on: open ones, then those that people closed of late."""
    places = Q(pk__in=[])
    for place in {grouping.place_of(move) for move in moves}:
        places |= Q(key__startswith=f"machine:{place}:")
    late = Q(state__in=CLOSED_BY_PEOPLE, closed_at__gt=Now() - RECENT)
    found = []
    for alert in Alert.objects.filter(places, Q(closed_at=None) | late).order_by(
        F("closed_at").desc(nulls_first=True), "pk"
    ):
        place = ":".join(alert.key.split(":")[1:3])
        start, end = (dt.datetime.fromisoformat(alert.evidence[name]) for name in ("from", "to"))
        found.append(OpenMachine(alert.key, place, Window(start, end)))
    return found


def _write_safely(group: Group) -> Alert | None:
    """The group's alert; None where that failed, which is no other group's trouble. Its changes stay without
    an alert, and the next gathering tries again."""
    try:
        with transaction.atomic():
            return _write(group)
    except (OperationalError, InterfaceError):
        raise
    except Exception as error:
        logger.exception("alert %s", group.key)
        raise_event(
            "detection_failed",
            Event.Severity.ERROR,
            subject=group.key,
            sentence=f"Changes could not be made into an alert ({type(error).__name__}); others went on.",
            dedupe_key=f"detection_failed:{type(error).__name__}:{dt.datetime.now(dt.UTC):%Y-%m-%d}",
        )
        return None


def _write(group: Group) -> Alert:
    """Open the group's alert or join it, with all that it holds already."""
    ids = {move.change_id for move in group.moves}
    held = _live().filter(alert__key=group.key, alert__closed_at=None).exclude(pk__in=ids)
    group = grouping.joined(group, _moved(held))
    first = Change.objects.select_related(
        "stack_before", "stack_after", "series__target", "series__target__host"
    ).get(pk=group.upgraded.change_id)
    of, crossings, reference = crossed(group)
    ranked = (
        []
        if group.kind == Alert.Kind.MACHINE
        else suspects.rank(group.upgraded.differs, [m.backend for m in group.moves], crossings)
    )
    differs = [suspects.Differs(one["component"], one["before"], one["after"]) for one in ranked]
    one_target = len({move.target_id for move in group.moves}) == 1
    machine = group.kind == Alert.Kind.MACHINE and not group.with_upgrade
    certain = [move for move in group.moves if move.certain]
    proposal = Proposal(
        key=group.key,
        kind=group.kind,
        title=telling.title(group, of, differs),
        sentence=telling.sentence(group, of, differs, reference),
        worse=group.worse,
        certain=bool(certain),
        ratio=group.moves[0].ratio,
        importance=importance.together(move.weight for move in group.moves),
        confidence=max(move.confidence for move in certain or group.moves),
        recorded=all(move.recorded for move in group.moves),
        host=first.series.target.host if one_target or group.kind == Alert.Kind.MACHINE else None,
        target=first.series.target if one_target else None,
        stack_before=None if machine else first.stack_before,
        stack_after=None if machine else first.stack_after,
        suspects=ranked,
        evidence=telling.evidence(group, of, reference),
    )
    alert = _closed_before(proposal) or open_or_join(proposal)[0]
    if not one_target and alert.target_id is not None:
        alert.target = None
        alert.host = alert.host if group.kind == Alert.Kind.MACHINE else None
        alert.save(update_fields=["target", "host"])
    others = [move.change_id for move in group.moves if move.alert_id != alert.pk]
    Change.objects.filter(pk__in=others).update(alert=alert)
    return alert


def _closed_before(proposal: Proposal) -> Alert | None:
    """The alert of the same thing that a person has closed, where this is no more than that one was: what is
    found late of a change that was dealt with is no news."""
    alerts = Alert.objects.filter(key=proposal.key)
    if alerts.filter(closed_at=None).exists():
        return None
    alert = (
        alerts.filter(state__in=CLOSED_BY_PEOPLE, closed_at__gt=Now() - RECENT).order_by("-closed_at").first()
    )
    says = cost(proposal.ratio, proposal.importance, proposal.confidence, worse=proposal.worse)
    if alert is None or says > alert.cost:
        return None
    note(alert, "late", f"Found after it was closed: {proposal.sentence}")
    return alert


def _close_if_empty(alert: Alert) -> None:
    """An alert none of whose changes is found any longer closes itself, unless a person is at it."""
    if alert.changes.filter(gone_at=None).exists():
        return
    found = alert.changes.exists()
    sentence = "No longer found with more data." if found else "All that it held is another alert's now."
    if alert.state == Alert.State.NEW and alert.assignee_id is None:
        resolve(alert.key, sentence, Alert.State.INVALID)
    elif not alert.entries.filter(action="gone").exists():
        note(alert, "gone", sentence)
