"""Impossible numbers: times that undercut the hard bound of their GPU, so that a kernel did not do its work.

One alert a GPU model, backend and version. A series that some alert holds opens no other with the next
version: it was impossible before.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

from benchapp.alerts.kinds import lasting, words
from benchapp.alerts.kinds.lasting import About, Trouble
from benchapp.alerts.kinds.standing import newest, place_of, seen
from benchapp.alerts.kinds.words import seconds
from benchapp.alerts.models import Alert
from benchapp.alerts.opening import Proposal
from benchapp.catalog.models import Series, Stack, Target
from benchapp.runs.models import Document, Measurement

FLAG = "impossible"
IMPORTANCE = 3.0


@transaction.atomic
def after(document: Document) -> None:
    """What a document that was measured here says of impossible numbers."""
    assert document.target is not None
    place = place_of(document.target)
    held = lasting.held(KIND, place)
    of_document = Measurement.objects.filter(document=document)
    flagged = set(of_document.filter(flags__contains=[FLAG]).values_list("series", flat=True))
    back = set(of_document.filter(series__in=held).values_list("series", flat=True)) if held else set()
    rows = {pk: newest(found) for pk, found in seen(flagged | back).items()}
    good = {
        pk: rows[pk].version
        for pk in back
        if pk in rows and FLAG not in rows[pk].flags and rows[pk].median is not None
    }
    backends = dict(Series.objects.filter(pk__in=flagged).values_list("pk", "backend"))
    found: dict[str, Trouble] = {}
    for pk in flagged - held:
        if pk in rows and FLAG in rows[pk].flags and rows[pk].document == document.pk:
            about: About = {
                "place": place,
                "target": document.target_id,
                "backend": backends[pk],
                "library": rows[pk].library,
                "after": rows[pk].version,
                "stack": rows[pk].stack,
            }
            found.setdefault(_key(about), Trouble(about)).series.add(pk)
    if found or good:
        lasting.settle(KIND, place, good=good, found=found)


def _key(about: About) -> str:
    return lasting.key_of("impossible", about["place"], about["backend"], about["after"])


def _build(about: About, series: Collection[int]) -> Proposal:
    rows = {pk: newest(found) for pk, found in seen(series).items()}
    timed = [(each.case.label, rows[each.pk]) for each in lasting.distinct(series) if each.pk in rows]
    target = Target.objects.select_related("host").get(pk=about["target"])
    told = [f"{label} in {seconds(row.median)}" for label, row in timed]
    by = " ".join(filter(None, (about["library"], about["after"])))
    number, one = words.cases(len(timed)), len(timed) == 1
    return Proposal(
        key=_key(about),
        kind=Alert.Kind.IMPOSSIBLE,
        title=f"{number} faster than {target} allows: {about['backend']}, {by}",
        sentence=f"On {target}, {number} by {about['backend']} ({by}) "
        f"{'is' if one else 'are'} faster than the hardware allows: {words.listed(told)}. "
        f"The kernel did not do the work; {'this time ranks' if one else 'these times rank'} nowhere.",
        importance=IMPORTANCE,
        recorded=all(row.recorded for row in rows.values()),
        host=target.host,
        target=target,
        stack_after=Stack.objects.get(pk=about["stack"]),
        evidence=lasting.evidence(
            about,
            series,
            cases=[
                {"case": label, "backend": about["backend"], "time_s": row.median, "outcome": row.outcome}
                for label, row in timed[: words.SHOWN]
            ],
        ),
    )


def _mended(about: About) -> str:
    return f"No time of {about['backend']} is impossible on {about['place']} any more."


KIND = lasting.Kind(Alert.Kind.IMPOSSIBLE, _key, _build, _mended)
