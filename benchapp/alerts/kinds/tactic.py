"""Chosen tile changed with regret: with another version a backend runs another kernel for a case, and
something else that was measured beside it is faster.

The kernels are those that CUPTI names, so a library's own choice is seen whether or not it tells; `regret`
has the rule. One alert a GPU model and pair of versions of a library; it closes once none regrets more.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from django.db import transaction

from benchapp.alerts.kinds import lasting, regret, words
from benchapp.alerts.kinds.lasting import About, Trouble
from benchapp.alerts.kinds.regret import Regret, Time
from benchapp.alerts.kinds.standing import Seen, by_version, first_at, newest, place_of, seen
from benchapp.alerts.kinds.words import percent, seconds
from benchapp.alerts.models import Alert
from benchapp.alerts.opening import Proposal
from benchapp.catalog.models import Series, Stack, Target
from benchapp.runs.models import Document, Measurement
from benchapp.runs.ranking import DOUBTFUL

#: From here on one document decides; a smaller regret is shown as uncertain.
CERTAIN = 0.05

#: (case, configuration) → backend → time
_Times = dict[tuple[int, int], dict[str, Time]]


def times_of(document: int, cases: Collection[int] | None = None) -> _Times:
    """What a document holds of correct times that nothing disturbed; of these cases, else of all."""
    rows = Measurement.objects.filter(
        document=document,
        outcome="ok",
        series__metric="time",
        median__gt=0,
        q1__isnull=False,
        q3__isnull=False,
    ).exclude(flags__overlap=["impossible", "imported", "borrowed", *DOUBTFUL])
    if cases is not None:
        rows = rows.filter(series__case__in=cases)
    found: _Times = defaultdict(dict)
    columns = ("series__case", "series__configuration", "series__backend", "median", "q1", "q3", "kernel")
    for case, configuration, backend, *time in rows.values_list(*columns):
        found[case, configuration][backend] = Time(*time)
    return found


@transaction.atomic
def after(document: Document) -> None:
    """What a document that was measured here says of choices."""
    assert document.target is not None
    place = place_of(document.target)
    held = lasting.held(KIND, place)
    times = times_of(document.pk)
    # alone those that regret now, or did: a document may hold many thousands, each with its history
    series = {
        pk: ((case, configuration), backend)
        for pk, case, configuration, backend in Series.objects.filter(
            target=document.target, metric="time", case__in={case for case, _ in times}
        ).values_list("pk", "case_id", "configuration_id", "backend")
        if backend in (of := times.get((case, configuration), {}))
        and len(of) > 1
        and (pk in held or regret.of(backend, of) is not None)
    }
    cases = {case for (case, _), _ in series.values()}
    rows = seen(series)
    current = {
        pk: newest(rows[pk]) for pk in series if pk in rows and newest(rows[pk]).document == document.pk
    }
    good = {
        pk: row.version
        for pk, row in current.items()
        if pk in held and regret.of(series[pk][1], times[series[pk][0]]) is None
    }
    earlier: dict[int, _Times] = {}
    found: dict[str, Trouble] = {}
    for pk, row in current.items():
        before = _before(rows[pk]) if pk not in held else None
        if before is None:
            continue
        if before.document not in earlier:
            earlier[before.document] = times_of(before.document, cases)
        key, backend = series[pk]
        if regret.came_with(earlier[before.document].get(key, {}), times[key], backend) is not None:
            about: About = {
                "place": place,
                "target": document.target_id,
                "library": row.library,
                "before": before.version,
                "after": row.version,
                "stacks": [before.stack, row.stack],
            }
            found.setdefault(_key(about), Trouble(about)).series.add(pk)
    if found or good:
        lasting.settle(KIND, place, good=good, found=found)


def _before(rows: Iterable[Seen]) -> Seen | None:
    """The newest of the version before the newest, unless it is a backfill or does not rank."""
    versions = list(by_version(rows).values())
    if len(versions) < 2 or first_at(versions[1]) >= first_at(versions[0]):
        return None
    return versions[1][0] if versions[1][0].ranks else None


def _key(about: About) -> str:
    return lasting.key_of("tactic", *(about[name] for name in ("place", "library", "before", "after")))


@dataclasses.dataclass(frozen=True, slots=True)
class _Choice:
    """A series with its kernel in the newest version, the one before, and what choosing it costs."""

    series: Series
    now: Time
    was: Time | None
    found: Regret

    @property
    def told(self) -> str:
        return (
            f"{self.series.case.label} by {self.series.backend}: {seconds(self.found.chosen_s)} against "
            f"{seconds(self.found.best_s)} by {self.found.best}, a regret of {percent(self.found.share)}"
        )

    @property
    def evidence(self) -> dict[str, Any]:
        return {
            "case": self.series.case.label,
            "backend": self.series.backend,
            "kernel": self.now.kernel,
            "kernel_before": self.was.kernel if self.was else "",
            "time_s": self.found.chosen_s,
            "best_backend": self.found.best,
            "best_time_s": self.found.best_s,
            "regret_share": self.found.share,
        }


def _choices(series: Collection[int], rows: Mapping[int, list[Seen]]) -> list[_Choice]:
    """Those that still regret, the most first: each as the newest document of its newest version has it."""
    of = {each.pk: each for each in Series.objects.filter(pk__in=series).select_related("case")}
    heads = {pk: [found[0] for found in by_version(rows[pk]).values()][:2] for pk in of if pk in rows}
    cases = {each.case_id for each in of.values()}
    times = {doc: times_of(doc, cases) for doc in {row.document for found in heads.values() for row in found}}
    choices = []
    for pk, found in heads.items():
        key, backend = (of[pk].case_id, of[pk].configuration_id), of[pk].backend
        sides = [times[row.document].get(key, {}) for row in found]
        cost = regret.of(backend, sides[0]) if backend in sides[0] else None
        if cost is not None:
            was = sides[1].get(backend) if len(sides) > 1 else None
            choices.append(_Choice(of[pk], sides[0][backend], was, cost))
    choices.sort(key=lambda each: each.found.share)
    # of several GPUs the one that regrets most speaks for a case
    single = {(each.series.case_id, each.series.backend): each for each in choices}
    return sorted(single.values(), key=lambda each: -each.found.share)


def _build(about: About, series: Collection[int]) -> Proposal:
    rows = seen(series)
    choices = _choices(series, rows)
    worst = choices[0].found.share if choices else 0.0
    before, after = (Stack.objects.get(pk=pk) for pk in about["stacks"])
    about = about | {"others": words.others(before.components, after.components)}
    target = Target.objects.select_related("host").get(pk=about["target"])
    since, number = words.since(about), words.cases(len(choices))
    return Proposal(
        key=_key(about),
        kind=Alert.Kind.TACTIC,
        title=f"Another kernel chosen with regret in {number} on {target}: {since}",
        sentence=f"On {target}, {number} run{'s' * (len(choices) == 1)} another kernel "
        f"than before ({since}), and something faster was measured beside it: "
        f"{words.listed([each.told for each in choices])}.",
        certain=worst >= CERTAIN,
        ratio=1 + worst if choices else None,
        recorded=all(newest(of_series).recorded for of_series in rows.values()),
        host=target.host,
        target=target,
        stack_before=before,
        stack_after=after,
        evidence=lasting.evidence(about, series, cases=[each.evidence for each in choices[: words.SHOWN]]),
    )


def _mended(about: About) -> str:
    return f"Nothing faster is measured beside the kernels chosen on {about['place']} any more."


KIND = lasting.Kind(Alert.Kind.TACTIC, _key, _build, _mended)
