"""Environments that queued runs need, asked of the build workers of the hosts that could do the runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q, QuerySet
from django.db.models.functions import Now

from benchapp.alerts import bisecting
from benchapp.catalog.digests import digest, environment_name, recipe_words
from benchapp.catalog.models import Recipe
from benchapp.fleet.asks import candidate_params
from benchapp.fleet.models import Installation
from benchapp.fleet.reports import SILENT_S
from benchapp.runs import broker, queues, work
from benchapp.runs.actions import Request, end, request_run
from benchapp.runs.models import Job, Run, State
from benchapp.runs.states import ACTIVE

TASK = "fleet.ask_for_builds"
#: A build that ended so left no environment.
FAILED = (State.FAILED, State.CANCELLED)
#: Why a build was called off that nobody cancelled.
NOT_NEEDED = "not_needed"
#: Of environments that a bisect may want: after all that a run waits for now, schedules' included.
AHEAD_PRIORITY = 4


def live() -> QuerySet[Installation]:
    """Installations that were heard of lately and whose workers get work."""
    return Installation.objects.filter(
        seen_at__gte=Now() - dt.timedelta(seconds=SILENT_S), protocol=work.PROTOCOL
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Builds:
    """When builds of each recipe ended on each build queue: the newest good one, the newest that came to
    nothing."""

    built: dict[tuple[str, int], dt.datetime]
    failed: dict[tuple[str, int], dt.datetime]

    def ready(self, installation: Installation, recipe: int, environment: str) -> bool:
        """A build that ended since the last report is not in it."""
        ended = self.built.get((queues.build_of(installation.key), recipe))
        return environment in installation.environments or (
            ended is not None and ended > installation.seen_at
        )

    def came_to_nothing(self, installation: Installation, recipe: int, since: dt.datetime) -> bool:
        ended = self.failed.get((queues.build_of(installation.key), recipe))
        return ended is not None and ended >= since


def _builds(recipes: Iterable[int]) -> _Builds:
    rows = (
        Run.objects.filter(kind=Run.Kind.BUILD, recipe__in=set(recipes))
        .order_by()
        .values_list("queue", "recipe")
        .annotate(
            built=Max("finished_at", filter=Q(state=State.DONE)),
            failed=Max(
                "finished_at",
                filter=Q(state__in=FAILED) & ~Q(failure_code=NOT_NEEDED),
            ),
        )
    )
    found = _Builds({}, {})
    for queue, recipe, built, failed in rows:
        if built:
            found.built[queue, recipe] = built
        if failed:
            found.failed[queue, recipe] = failed
    return found


def ask_for_builds() -> int:
    """Ask for each environment that a queued run needs and a live host that could do the run lacks.

    One that came to nothing is asked for again only for runs that were asked for since; those before it that
    nobody else can do fail. Returns how many are new. Those that no run waits for any more are called off.
    """
    _call_off()
    waiting = [*_waiting("recipe", "environment"), *_waiting("recipe_beside", "environment_beside")]
    if not waiting:
        return 0
    builds = _builds(recipe for _, recipe, *_ in waiting)
    wanted: dict[tuple[Installation, int], int] = {}
    hopeless: set[tuple[str, int]] = set()
    for installation in live():
        build_queue = queues.build_of(installation.key)
        for queue, recipe, environment, priority, newest in waiting:
            if (
                queue not in installation.queues
                or build_queue not in installation.queues
                or builds.ready(installation, recipe, environment)
            ):
                continue
            if builds.came_to_nothing(installation, recipe, newest):
                hopeless.add((build_queue, recipe))
            else:
                wanted[installation, recipe] = max(priority, wanted.get((installation, recipe), priority))
    for build_queue, recipe in sorted(hopeless):
        # a run may have been committed while the build that failed was being told of
        came_to_nothing = Run.objects.filter(kind=Run.Kind.BUILD, queue=build_queue, recipe=recipe)
        after_build(
            came_to_nothing.filter(state__in=FAILED).exclude(failure_code=NOT_NEEDED).latest("finished_at")
        )
    recipes = Recipe.objects.in_bulk({recipe for _, recipe in wanted})
    asked = 0
    for (installation, recipe), priority in wanted.items():
        asked += _ask(installation, recipes[recipe].versions, priority)
    return asked


def _waiting(recipe: str, environment: str) -> QuerySet[Run, tuple[Any, ...]]:
    """(queue, recipe, environment, priority, newest) of queued runs, by the fields of one environment."""
    return (
        Run.objects.filter(state=State.QUEUED)
        .exclude(**{environment: ""})
        .order_by()
        .values_list("queue", recipe, environment)
        .annotate(priority=Max("priority"), newest=Max("created_at"))
        .order_by("-priority", recipe, "queue")
    )


def _ask(installation: Installation, versions: dict[str, str], priority: int) -> bool:
    request = Request(
        kind=Run.Kind.BUILD,
        title=f"Environment of {recipe_words(versions)} on {installation.host}",
        queue=queues.build_of(installation.key),
        versions=versions,
        params=dict(candidate_params(versions)),
        priority=priority,
    )
    return request_run(request, user=None, source=Job.Source.FOLLOW_UP)[1]


def ask_ahead(recipes: Iterable[dict[str, str]], queue: str) -> int:
    """Ask the live hosts that serve a queue for environments that a bisect may want there; how many are new.

    One that came to nothing before is not asked for: the bisect's own run will tell.
    """
    named = {digest(versions): versions for versions in recipes}
    known = dict(Recipe.objects.filter(digest__in=named).values_list("digest", "pk"))
    builds = _builds(known.values())
    asked = 0
    for installation in live().filter(queues__contains=[queue]):
        build_queue = queues.build_of(installation.key)
        for name, versions in named.items():
            recipe = known.get(name, 0)
            if (
                build_queue in installation.queues
                and not builds.ready(installation, recipe, environment_name(versions))
                and (build_queue, recipe) not in builds.failed
            ):
                asked += _ask(installation, versions, AHEAD_PRIORITY)
    return asked


def _needs(recipe: Any) -> Q:
    """Runs that need the environment of a recipe."""
    return Q(Q(recipe=recipe) & ~Q(environment="")) | Q(recipe_beside=recipe)


@transaction.atomic
def _call_off() -> None:
    """Cancel queued builds whose runs have all ended: a job of many versions may have been cancelled."""
    needed = Run.objects.filter(_needs(OuterRef("recipe")), state__in=ACTIVE)
    idle = Run.objects.filter(kind=Run.Kind.BUILD, state=State.QUEUED).exclude(Exists(needed))
    if ahead := bisecting.recipes_ahead():
        idle = idle.exclude(recipe__digest__in=ahead)
    for build in idle.select_for_update(skip_locked=True, of=("self",)).order_by("pk"):
        end(build, State.CANCELLED, NOT_NEEDED, "No run waits for this environment any more.")


@transaction.atomic
def after_build(build: Run) -> int:
    """An environment's build has ended: wake what waited for it, or fail what nobody else can do now.

    Returns how many runs failed.
    """
    waiting = Run.objects.filter(_needs(build.recipe_id), state=State.QUEUED)
    if build.failure_code == NOT_NEEDED:
        return 0  # a run that came at that very moment gets a build of its own
    if build.state == State.DONE:
        broker.wake(waiting.values_list("queue", flat=True).distinct())
        return 0
    hosts = list(live())
    place = next((each for each in hosts if queues.build_of(each.key) == build.queue), None)
    if place is None:
        place = Installation.objects.filter(key=build.queue.partition(".")[2]).first()
    where = place.host if place else queues.describe(build.queue)
    builds = _builds([build.recipe_id])
    by_queue: dict[str, list[Installation]] = defaultdict(list)
    for host in hosts:
        for queue in host.queues:
            by_queue[queue].append(host)
    served = set(place.queues) if place else set()
    lost = waiting.filter(queue__in=served).select_for_update(of=("self",)).order_by("pk")
    failed = 0
    for run in lost:
        others = [
            host
            for host in by_queue[run.queue]
            if host != place and not builds.came_to_nothing(host, build.recipe_id, run.created_at)
        ]
        environment = run.environment if run.recipe_id == build.recipe_id else run.environment_beside
        if others or (place and builds.ready(place, build.recipe_id, environment)):
            continue
        end(run, State.FAILED, "environment", _why(build, where))
        failed += 1
    return failed


def _why(build: Run, where: str) -> str:
    if build.state == State.CANCELLED:
        return f"The build of the environment of {build.recipe} on {where} was cancelled (run {build.pk})."
    return f"The environment of {build.recipe} could not be built on {where}: {build.failure}"
