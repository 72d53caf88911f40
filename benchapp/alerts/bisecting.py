"""The search for the first version of a component that has an alert's change: each step is an A/B of the good
version and another, asked for when the one before was decided, with the environments after it built ahead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models.functions import Now

from benchapp.alerts import bisect_versions, bisect_words, confirm_plan
from benchapp.alerts.confirm_plan import CannotError, Plan, bench_of
from benchapp.alerts.confirm_rows import locked, tried_of
from benchapp.alerts.models import Alert, Bisect, BisectStep, Comparison
from benchapp.alerts.opening import measured_first, note
from benchapp.alerts.places import Place
from benchapp.alerts.signals import alert_updated, environments_wanted
from benchapp.catalog.digests import digest
from benchapp.catalog.models import Series
from benchapp.people import audit
from benchapp.people.models import User
from benchapp.runs import actions, queues
from benchapp.runs.models import Job, Run, State
from benchapp.runs.states import ACTIVE
from workers.bench.cases.parse import from_params
from workers.bench.confirm.bisect import Compare, Found, search

_RUNNING = Bisect.State.RUNNING


@transaction.atomic
def ask_bisect(alert: Alert, user: User | None = None, versions: Sequence[str] | None = None) -> Bisect:
    """Search for the first version of an alert's own component that has its change.

    `versions` are those to search in, else all known releases from the alert's good one to its bad one.
    Returns the bisect under way where there is one. Raises ValidationError with one sentence.
    """
    alert = locked(alert.pk)
    running = alert.bisects.filter(state=_RUNNING).first()
    if running is not None:
        return running
    if alert.closed_at is not None:
        raise ValidationError("The alert is closed: open it again to bisect.")
    if alert.kind not in (Alert.Kind.STACK, Alert.Kind.BUILD):
        raise ValidationError("Only what moved with a version can be bisected.")
    try:
        plan = confirm_plan.plan(alert)
        confirm_plan.beside(plan)
        component = bisect_versions.component_of(plan.old, plan.new)
        chosen = bisect_versions.between(component, plan.old[component], plan.new[component], versions)
    except CannotError as error:
        raise ValidationError(str(error)) from None
    bisect = Bisect.objects.create(
        alert=alert,
        series_id=plan.changes[0].series_id,
        component=component,
        versions=chosen,
        asked_by=user,
    )
    audit.record(user, "ask_bisect", f"alert {alert.pk}", component=component, versions=chosen)
    note(alert, "bisect", f"Bisect of {component} over {len(chosen)} versions, {chosen[0]} to {chosen[-1]}.")
    try:
        _begin(alert, bisect, plan)
    except CannotError as error:
        raise ValidationError(str(error)) from None
    return bisect


def _begin(alert: Alert, bisect: Bisect, plan: Plan) -> None:
    """The first step is both ends; where the alert's own A/B was just that, it is taken."""
    recipe = plan.new | {bisect.component: bisect.versions[-1]}
    other = recipe | {bisect.component: bisect.versions[0]}
    done = alert.confirm_run
    if done is not None and done.recipe_beside is not None:
        compared = (done.recipe.versions, done.recipe_beside.versions) == (recipe, other)
        for _, comparison in tried_of([bisect.series_id], list(done.comparisons.all()) if compared else []):
            step = _step(bisect, 0, len(bisect.versions) - 1, done)
            step.verdict, step.comparison = comparison.verdict, comparison
            step.save(update_fields=["verdict", "comparison"])
    if not bisect.steps.exists():
        _ask(bisect, Compare(0, len(bisect.versions) - 1), recipe, plan.gpus, plan.place)
    _advance(alert, bisect)


def _step(bisect: Bisect, old: int, new: int, run: Run) -> BisectStep:
    return BisectStep.objects.create(
        bisect=bisect,
        number=bisect.steps.count() + 1,
        old_version=bisect.versions[old],
        new_version=bisect.versions[new],
        run=run,
    )


def _ask(bisect: Bisect, step: Compare, recipe: dict[str, str], gpus: Sequence[str], place: Place) -> None:
    """Ask for a step's A/B; every version is put into `recipe` as its component. Raises CannotError."""
    series = Series.objects.select_related("case").get(pk=bisect.series_id)
    case = from_params(series.case.kind, series.case.params, "case")
    old, new = bisect.versions[step.old], bisect.versions[step.new]
    request = confirm_plan.a_b(
        bisect.alert,
        [case],
        bench=bench_of(case),
        old=recipe | {bisect.component: old},
        new=recipe | {bisect.component: new},
        place=place,
        gpus=gpus,
        backends=[series.backend] if series.backend else [],
    )
    run, _ = actions.request_run(request, user=bisect.asked_by, source=Job.Source.FOLLOW_UP)
    _step(bisect, step.old, step.new, run)
    if step.ahead:
        wanted = [recipe | {bisect.component: bisect.versions[index]} for index in step.ahead]
        environments_wanted.send(sender=Bisect, recipes=wanted, queue=place.queue)


def after(run: Run, comparisons: Sequence[Comparison]) -> None:
    """A step's A/B came in, in the transaction of its ingest. One without values is skipped."""
    for alert, bisect, step in _waiting(run):
        for _, comparison in tried_of([bisect.series_id], comparisons):
            step.verdict, step.comparison = comparison.verdict, comparison
            step.save(update_fields=["verdict", "comparison"])
        _advance(alert, bisect, told=run)


def ended(run: Run) -> None:
    """A step's run came to nothing, in that transaction: a version beside it is tried."""
    if run.state == State.DONE:
        return  # what it measured is told of by `after`
    for alert, bisect, _ in _waiting(run):
        if run.state == State.CANCELLED:
            _end(alert, bisect, Bisect.State.CANCELLED, f"Run {run.pk}, one of its steps, was cancelled.")
        else:
            _advance(alert, bisect)


def _waiting(run: Run) -> list[tuple[Alert, Bisect, BisectStep]]:
    """The undecided steps of running bisects that wait for a run, under lock."""
    found = []
    steps = BisectStep.objects.filter(run=run, verdict="", bisect__state=_RUNNING)
    for step in steps.select_related("bisect").order_by("pk"):
        alert = locked(step.bisect.alert_id)
        bisect = Bisect.objects.select_for_update(no_key=True).get(pk=step.bisect_id)
        if bisect.state == _RUNNING:
            found.append((alert, bisect, step))
    return found


@transaction.atomic
def cancel_bisect(bisect: Bisect, user: User) -> bool:
    """End a search, and the A/B that it waits for. False where it had ended already."""
    alert = locked(bisect.alert_id)
    bisect = Bisect.objects.select_for_update(no_key=True).get(pk=bisect.pk)
    if bisect.state != _RUNNING:
        return False
    _call_off(alert, bisect, f"Cancelled by {user.get_username()}.", user)
    return True


def stop(alert: Alert) -> None:
    """End the search of a locked alert that was closed, and the A/B that it waits for."""
    bisect = alert.bisects.select_for_update(no_key=True).filter(state=_RUNNING).first()
    if bisect is not None:
        _call_off(alert, bisect, "Called off: its alert was closed.", None)


def _call_off(alert: Alert, bisect: Bisect, sentence: str, user: User | None) -> None:
    _end(alert, bisect, Bisect.State.CANCELLED, sentence)
    audit.record(user, "cancel_bisect", f"alert {alert.pk}", bisect=bisect.pk)
    for step in bisect.steps.filter(run__state__in=ACTIVE, verdict="").select_related("run"):
        assert step.run is not None  # by the filter
        actions.cancel(step.run, user)


def go_on() -> int:
    """Take up each running bisect that waits for nothing, since the end of its step was missed; how many."""
    stuck = Bisect.objects.filter(state=_RUNNING).exclude(steps__run__state__in=ACTIVE)
    found = list(stuck.values_list("pk", flat=True))
    for pk in found:
        with transaction.atomic():
            alert = locked(Bisect.objects.values_list("alert", flat=True).get(pk=pk))
            bisect = Bisect.objects.select_for_update(no_key=True).get(pk=pk)
            if bisect.state == _RUNNING:
                _advance(alert, bisect)
    return len(found)


def _advance(alert: Alert, bisect: Bisect, told: Run | None = None) -> None:
    """Ask for the next step, or say what was found; nothing while a step is under way. The run `told` has
    been heard."""
    steps = list(bisect.steps.select_related("run__recipe", "comparison"))
    if any(not step.verdict and step.run and step.run.state in ACTIVE and step.run != told for step in steps):
        return
    bad = str(Alert.Verdict.SLOW if alert.worse else Alert.Verdict.FAST)
    place = {version: index for index, version in enumerate(bisect.versions)}
    against_good = [step for step in steps if place[step.old_version] == 0]
    verdicts = {place[step.new_version]: step.verdict for step in against_good if step.verdict}
    skipped = [place[step.new_version] for step in against_good if not step.verdict]
    found = search(len(bisect.versions), verdicts, skipped, bad)
    if isinstance(found, Found) and found.last_good > 0:
        last = [step for step in steps if place[step.old_version] > 0]
        if not last:
            found = Compare(found.last_good, found.first_bad)
    if isinstance(found, Compare):
        template = next(step.run for step in steps if step.run is not None)
        try:
            same = Place(template.queue, queues.describe(template.queue))
            _ask(bisect, found, template.recipe.versions, template.gpus, same)
        except CannotError as error:
            _end(alert, bisect, Bisect.State.FAILED, str(error))
        return
    state, sentence, first_bad = bisect_words.outcome(bisect.component, bisect.versions, found, steps)
    bisect.first_bad = first_bad
    _end(alert, bisect, state, sentence)


def _end(alert: Alert, bisect: Bisect, state: Bisect.State, sentence: str) -> None:
    bisect.state, bisect.sentence = state, sentence
    bisect.save(update_fields=["state", "sentence", "first_bad"])
    Bisect.objects.filter(pk=bisect.pk).update(ended_at=Now())
    if bisect.first_bad:
        alert.suspects = measured_first([_suspect(bisect)], alert.suspects)
        alert.save(update_fields=["suspects"])
    note(alert, "bisect", sentence)
    if alert.closed_at is None and state != Bisect.State.CANCELLED:
        alert_updated.send(sender=Alert, alert=alert, what=sentence)


def _suspect(bisect: Bisect) -> dict[str, Any]:
    """What a bisect found, as an alert's suspect: no guess any more."""
    before = bisect.versions[bisect.versions.index(bisect.first_bad) - 1]
    return {
        "component": bisect.component, "before": before, "after": bisect.first_bad, "share": 1.0,
        "why": f"bisect: {bisect.sentence}", "found": True,
    }  # fmt: skip


def recipes_ahead() -> set[str]:
    """Digests of the recipes that running bisects may still want, so that nobody calls off their builds."""
    wanted = set()
    for bisect in Bisect.objects.filter(state=_RUNNING):
        step = bisect.steps.filter(run__isnull=False).select_related("run__recipe").first()
        if step is not None and step.run is not None:
            recipe = step.run.recipe.versions
            wanted |= {digest(recipe | {bisect.component: version}) for version in bisect.versions}
    return wanted
