"""Coverage lost: cases that were right and are measured no more, by GPU model and pair of versions.

Lost is a case that ranked with the version before and is unsupported, fails, crashes, runs out of time or
memory with the newest. So is one whose backend is gone: the document measured its case by other backends of
the library, and no choice of backends was asked for. Within one version two such outcomes in a row count.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from typing import Any

from django.db import transaction

from benchapp.alerts.kinds import lasting, words
from benchapp.alerts.kinds.lasting import About, Trouble
from benchapp.alerts.kinds.standing import (
    Seen,
    Turn,
    by_version,
    first_at,
    library_of,
    newest,
    place_of,
    seen,
    turn,
)
from benchapp.alerts.models import Alert
from benchapp.alerts.opening import Proposal
from benchapp.catalog.models import Series, Stack, Target
from benchapp.runs.models import Document, Measurement

LOST = frozenset({"unsupported", "build_failed", "init_failed", "launch_failed", "crashed", "timeout", "oom"})
#: Of one version, before it is told: a single crash or timeout may be an accident.
IN_A_ROW = 2
GONE = "backend gone"
_EXAMPLES = 8


def is_lost(row: Seen) -> bool:
    return row.outcome in LOST


def ranks(row: Seen) -> bool:
    return row.ranks


@transaction.atomic
def after(document: Document) -> None:
    """What a document that was measured here says of coverage."""
    assert document.target is not None and document.stack is not None
    place = place_of(document.target)
    held = lasting.held(KIND, place)
    of_document = Measurement.objects.filter(document=document)
    failing = set(
        of_document.filter(outcome__in=LOST, series__latest__good_measured_at__isnull=False).values_list(
            "series", flat=True
        )
    )
    back = set(of_document.filter(series__in=held).values_list("series", flat=True)) if held else set()
    rows = seen(failing | back)
    good = {pk: row.version for pk in back if pk in rows and (row := newest(rows[pk])).ranks}
    turns = [turned for pk in failing - held if pk in rows and (turned := turn(rows[pk], ranks, is_lost))]
    found: dict[str, Trouble] = {}
    for each in [*(t for t in turns if _is_news(t, document)), *_gone(document, held)]:
        about = _about(each, document.target)
        found.setdefault(_key(about), Trouble(about)).series.add(each.newest.series)
    if found or good:
        lasting.settle(KIND, place, good=good, found=found)


def _is_news(found: Turn, document: Document) -> bool:
    """Whether the document is of the newest version of its series, so that it is no history."""
    same_version = found.before.version == found.after.version
    return found.newest.document == document.pk and (not same_version or found.in_a_row >= IN_A_ROW)


def _about(found: Turn, target: Target) -> About:
    before, after = found.before, found.after
    return {
        "place": place_of(target),
        "target": target.pk,
        "library": after.library,
        "before": before.version,
        "after": after.version,
        "stacks": [before.stack, after.stack],
    }


def _gone(document: Document, held: set[int]) -> list[Turn]:
    """Series whose backend ranked with the version before, and is missing from this document's cases."""
    assert document.stack is not None
    if _chose_backends(document.facts):
        return []
    measured = Series.objects.filter(
        pk__in=Measurement.objects.filter(document=document).values("series"), metric="time"
    )
    there = list(measured.values_list("pk", "case_id", "backend", "configuration_id"))
    backends = {backend for *_, backend, _ in there}
    components = document.stack.components
    missing = (
        Series.objects.filter(
            target=document.target,
            metric="time",
            case__in={case for _, case, *_ in there},
            configuration__in={configuration for *_, configuration in there},
            latest__good_measured_at__isnull=False,
        )
        .exclude(backend__in=backends)
        .exclude(pk__in=held)
    )
    wanted = {pk: (case, backend) for pk, case, backend in missing.values_list("pk", "case_id", "backend")}
    if not wanted:
        return []
    cases = {case for case, _ in wanted.values()}
    beside = {pk: (case, backend) for pk, case, backend, _ in there if case in cases}
    rows = seen({*wanted, *beside})
    of_case: dict[tuple[int, str], list[Seen]] = defaultdict(list)
    for pk, (case, backend) in beside.items():
        of_case[case, library_of(backend, components)[0]] += rows.get(pk, [])
    chose = _documents_of_chosen_backends(rows)
    found = []
    for pk, (case, backend) in wanted.items():
        others = of_case[case, library_of(backend, components)[0]]
        others = sorted(others, key=lambda row: row.at, reverse=True)
        if not others or not rows.get(pk):
            continue
        versions = by_version(others)
        version, *older = versions
        last = newest(rows[pk])
        if (
            newest(others).stack == document.stack_id
            and older
            and last.version == older[0]
            and last.ranks
            and last.document not in chose
            and first_at(r for r in rows[pk] if r.version == last.version) < first_at(versions[version])
        ):
            found.append(Turn(last, versions[version][0], last, 1))
    return found


def _chose_backends(facts: dict[str, Any]) -> bool:
    return any(str(word).startswith("--backend") for word in facts.get("command", ()))


def _documents_of_chosen_backends(rows: dict[int, list[Seen]]) -> set[int]:
    documents = {row.document for of_series in rows.values() for row in of_series}
    told = Document.objects.filter(pk__in=documents).values_list("pk", "facts")
    return {pk for pk, facts in told if _chose_backends(facts)}


def _key(about: About) -> str:
    return lasting.key_of("coverage", *(about[name] for name in ("place", "library", "before", "after")))


def _build(about: About, series: Collection[int]) -> Proposal:
    rows = seen(series)
    cases = lasting.distinct(series)
    groups: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for each in cases:
        last = newest(rows[each.pk]) if each.pk in rows else None
        outcome = last.outcome if last and is_lost(last) else GONE
        said = words.first_line(last.said) if last and is_lost(last) else ""
        groups[each.backend, outcome, said].append(each.case.label)
    ordered = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    told = [
        f"{len(labels):,} by {backend or 'the bench'}: {words.outcome_words(outcome)}"
        + (f" (“{said}”)" if said else "")
        for (backend, outcome, said), labels in ordered
    ]
    before, after = (Stack.objects.get(pk=pk) for pk in about["stacks"])
    about = about | {"others": words.others(before.components, after.components)}
    target = Target.objects.select_related("host").get(pk=about["target"])
    since, number = words.since(about), words.cases(len(cases))
    return Proposal(
        key=_key(about),
        kind=Alert.Kind.COVERAGE,
        title=f"{number} lost on {target}: {since}",
        sentence=f"On {target}, {number} that had a result before {'has' if len(cases) == 1 else 'have'} "
        f"none any more ({since}): {words.listed(told)}.",
        recorded=all(row.recorded for pk in series for row in rows.get(pk, ())[:1]),
        host=target.host,
        target=target,
        stack_before=before,
        stack_after=after,
        evidence=lasting.evidence(
            about,
            series,
            groups=[
                {
                    "backend": b,
                    "outcome": words.outcome_words(o),
                    "said": s,
                    "cases": len(labels),
                    "examples": sorted(labels)[:_EXAMPLES],
                }
                for (b, o, s), labels in ordered[: words.SHOWN]
            ],
        ),
    )


def _mended(about: About) -> str:
    return f"Every case has a result again on {about['place']}."


KIND = lasting.Kind(Alert.Kind.COVERAGE, _key, _build, _mended)
