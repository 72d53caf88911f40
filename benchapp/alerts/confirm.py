"""Confirm jobs: an alert asks for one when it opens, and what was measured decides what becomes of the alert.

An alert of versions is confirmed by an A/B of both recipes (`benchapp.alerts.confirm_plan`), one of a machine
by measuring its cases again (`benchapp.alerts.confirm_machine`). No alert has two under way.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import logging
from collections.abc import Sequence

from django.db import InterfaceError, OperationalError, transaction
from django.db.models import Exists, OuterRef, Q
from django.db.models.functions import Now

from benchapp.alerts import bisecting, closing, confirm_machine, confirm_plan, confirm_words
from benchapp.alerts.confirm_plan import PRIORITY, CannotError, NobodyError, Plan
from benchapp.alerts.confirm_rows import locked, tried_of
from benchapp.alerts.cost import cost
from benchapp.alerts.models import Alert, Change, Comparison
from benchapp.alerts.opening import CONFIRMED, CONFIRMED_CONFIDENCE, note
from benchapp.alerts.signals import alert_updated
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs import broker
from benchapp.runs.actions import Request, request_run
from benchapp.runs.models import Job, Run, State
from benchapp.runs.states import ACTIVE

logger = logging.getLogger(__name__)

TASK = "alerts.confirm"
#: An alert that stays undecided asks so often by itself, however much evidence comes.
MOST_ASKS = 3
#: A confirming that failed is tried so often in all.
MOST_TRIES = 2
#: How runs fail that would fail again: an environment that cannot be built.
HOPELESS = ("environment",)
#: Kinds that measuring can confirm.
KINDS = (Alert.Kind.STACK, Alert.Kind.BUILD, Alert.Kind.MACHINE)
#: So long after its newest evidence an alert waits for its host.
PATIENCE = dt.timedelta(days=7)
#: Alerts that one turn of the task takes up.
_MOST = 200


def ask_waiting() -> int:
    """Ask for the confirming of each alert that waits for it: the new ones, those with new evidence that an
    earlier try did not decide, and those whose host was away. Returns how many runs were asked for."""
    here = Change.objects.filter(alert=OuterRef("pk"), gone_at=None)
    again = Q(confirm_facts__again=True, updated_at__gte=Now() - PATIENCE)
    wanted = Alert.objects.filter(Exists(here), closed_at=None, kind__in=KINDS).filter(
        Q(confirm=Alert.Confirm.NONE) | again
    )
    asked = 0
    for alert in wanted.order_by("-cost", "pk")[:_MOST]:
        try:
            asked += ask_confirm(alert) is not None
        except (OperationalError, InterfaceError):
            raise
        except Exception:
            logger.exception("alert %s: its confirming could not be asked for", alert.pk)  # others go on
    return asked


@transaction.atomic
def ask_confirm(alert: Alert, user: User | None = None) -> Run | None:
    """Ask for what confirms an alert. Returns the run, which may have been under way; None where nothing can
    be measured, which `confirm_sentence` then says why, or where the same was measured before.

    A person may ask for the same again.
    """
    alert = locked(alert.pk)
    if alert.closed_at is not None or alert.kind not in KINDS:
        return None
    run = alert.confirm_run
    if alert.confirm == Alert.Confirm.ASKED and run is not None and run.state in ACTIVE:
        return run
    alert.confirm_facts.pop("again", None)
    try:
        plan = confirm_plan.plan(alert)
        request = _request(alert, plan)
    except CannotError as error:
        if isinstance(error, NobodyError):
            alert.confirm_facts["again"] = True
        _cannot(alert, str(error), user)
        return None
    asks = alert.confirm_facts.get("asks", 0)
    if user is None and (alert.confirm_facts.get("asked") == plan.digest or asks >= MOST_ASKS):
        alert.save(update_fields=["confirm_facts"])
        return None
    alert.confirm_facts = {
        "asked": plan.digest, "series": [change.series_id for change in plan.changes], "asks": asks + 1
    }  # fmt: skip
    return _ask(alert, request, user, tries=1)


def _request(alert: Alert, plan: Plan) -> Request:
    if alert.kind == Alert.Kind.MACHINE:
        return confirm_machine.request(plan)
    confirm_plan.beside(plan)
    return confirm_plan.request(alert, plan)


def _ask(alert: Alert, request: Request, user: User | None, *, tries: int) -> Run:
    source = Job.Source.FOLLOW_UP if user is None else Job.Source.PERSON
    request = dataclasses.replace(request, priority=PRIORITY if user is None else None)
    run, _ = request_run(request, user=user, source=source)
    alert.confirm, alert.confirm_run = Alert.Confirm.ASKED, run
    alert.confirm_facts |= {"tries": tries}
    alert.confirm_sentence = f"Asked for: run {run.pk} on {run.queue}."
    alert.save(update_fields=["confirm", "confirm_run", "confirm_facts", "confirm_sentence"])
    note(alert, "confirm", alert.confirm_sentence)
    if user is not None:
        audit.record(user, "ask_confirm", f"alert {alert.pk}", run=run.pk)
    return run


def _cannot(alert: Alert, sentence: str, user: User | None) -> None:
    """Keep why; the history has it once, however often it is tried."""
    told = alert.confirm_sentence == sentence and alert.confirm == Alert.Confirm.CANNOT
    alert.confirm, alert.confirm_sentence = Alert.Confirm.CANNOT, sentence
    alert.save(update_fields=["confirm", "confirm_sentence", "confirm_facts"])
    if not told:
        note(alert, "confirm", sentence)
    if user is not None:
        audit.record(user, "ask_confirm", f"alert {alert.pk}", cannot=sentence)


@transaction.atomic
def look_again(alert: Alert) -> None:
    """New evidence: what was not decided yet waits for `ask_waiting` again."""
    undecided = Q(confirm=Alert.Confirm.CANNOT) | Q(confirm=Alert.Confirm.DONE, verdict=Alert.Verdict.AMBG)
    for each in Alert.objects.select_for_update(no_key=True).filter(undecided, pk=alert.pk, closed_at=None):
        each.confirm_facts["again"] = True
        each.save(update_fields=["confirm_facts"])
        broker.ask_control(TASK)


def after(run: Run, comparisons: Sequence[Comparison]) -> None:
    """An A/B came in, in the transaction of its ingest: what it says of the alerts that asked for it."""
    for pk in Alert.objects.filter(confirm_run=run, confirm=Alert.Confirm.ASKED).values_list("pk", flat=True):
        _decide(locked(pk), comparisons)
    bisecting.after(run, comparisons)


def _decide(alert: Alert, comparisons: Sequence[Comparison]) -> None:
    tried = [told for told, _ in tried_of(alert.confirm_facts.get("series", ()), comparisons)]
    if not tried:
        _cannot(alert, "Its A/B gave no value for any of its cases on both sides.", None)
        return
    verdict, sentence = confirm_words.decide(tried, worse=alert.worse)
    settle(alert, verdict, sentence)


def settle(alert: Alert, verdict: str, sentence: str) -> None:
    """What was measured decides: a locked alert is confirmed, refuted or left open."""
    alert.verdict, alert.confirm, alert.confirm_sentence = verdict, Alert.Confirm.DONE, sentence
    if verdict in CONFIRMED:
        alert.certain, alert.confidence = True, CONFIRMED_CONFIDENCE
        alert.cost = cost(alert.ratio, alert.importance, alert.confidence, worse=alert.worse)
    alert.save(update_fields=["verdict", "confirm", "confirm_sentence", "certain", "confidence", "cost"])
    Alert.objects.filter(pk=alert.pk).update(updated_at=Now())
    note(alert, "confirm", sentence)
    taken = alert.assignee_id is not None or alert.state != Alert.State.NEW
    if verdict == Alert.Verdict.SAME and not taken:
        closing.resolve(alert.key, f"Not confirmed. {sentence}", Alert.State.INVALID)
    elif alert.closed_at is None:
        alert_updated.send(sender=Alert, alert=alert, what=sentence)


def ended(run: Run) -> None:
    """A run ended, in that transaction: one that measured a machine again is judged, one that came to nothing
    is tried once more."""
    waiting = Alert.objects.filter(confirm_run=run, confirm=Alert.Confirm.ASKED)
    for pk in waiting.order_by("pk").values_list("pk", flat=True):
        alert = locked(pk)
        if run.state != State.DONE:
            _came_to_nothing(alert, run)
        elif run.kind == Run.Kind.CONFIRM:  # `after` has heard what it compared
            _cannot(alert, f"Run {run.pk}, which was to confirm it, compared nothing.", None)
        else:
            said = confirm_machine.judge(alert, run, alert.confirm_facts.get("series", ()))
            if said is None:
                _cannot(alert, f"Run {run.pk} measured none of its cases in fresh processes.", None)
            else:
                settle(alert, *said)
    bisecting.ended(run)


def judged(run: Run) -> None:
    """A person marked a run invalid, in that transaction: what it decided of open alerts is open again."""
    decided = Alert.objects.filter(confirm_run=run, closed_at=None).exclude(verdict=Alert.Verdict.NONE)
    if not run.invalid_reason:
        return
    for pk in decided.order_by("pk").values_list("pk", flat=True):
        alert = locked(pk)
        alert.verdict = Alert.Verdict.NONE
        alert.certain = alert.changes.filter(gone_at=None, certain=True).exists()
        alert.save(update_fields=["verdict", "certain"])
        _cannot(alert, f"Run {run.pk}, which decided, was marked invalid: {run.invalid_reason}", None)


def _came_to_nothing(alert: Alert, run: Run) -> None:
    tries = alert.confirm_facts.get("tries", 1)
    again = run.state == State.FAILED and run.failure_code not in HOPELESS and tries < MOST_TRIES
    if again and alert.closed_at is None:
        note(alert, "confirm", f"Run {run.pk} failed, and is asked for once more: {run.failure}")
        with contextlib.suppress(CannotError):
            _ask(alert, _request(alert, confirm_plan.plan(alert)), None, tries=tries + 1)
            return
    how = f"failed: {run.failure}" if run.state == State.FAILED else "was cancelled."
    _cannot(alert, f"Run {run.pk}, which was to confirm it, {how}", None)
