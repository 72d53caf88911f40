"""Correctness lost: a case that was right is wrong with the newest version. The loudest kind.

The bench decides what is right, by cosine and largest error against a reference in higher precision; right
means outcome ok, not merely unverified. One alert a GPU model and change of stack, also where the library has
the same version.
"""

from __future__ import annotations

from collections.abc import Collection

from django.db import transaction

from benchapp.alerts.kinds import lasting, words
from benchapp.alerts.kinds.lasting import About, Trouble
from benchapp.alerts.kinds.standing import Seen, newest, place_of, seen, turn
from benchapp.alerts.models import Alert
from benchapp.alerts.opening import Proposal
from benchapp.catalog.models import Stack, Target
from benchapp.runs.models import Document, Measurement

IMPORTANCE = 10.0


def is_right(row: Seen) -> bool:
    return row.outcome == "ok" and row.ranks


def is_wrong(row: Seen) -> bool:
    return row.outcome == "incorrect"


@transaction.atomic
def after(document: Document) -> None:
    """What a document that was measured here says of correctness."""
    assert document.target is not None
    place = place_of(document.target)
    held = lasting.held(KIND, place)
    of_document = Measurement.objects.filter(document=document)
    wrong = set(
        of_document.filter(outcome="incorrect", series__latest__good_measured_at__isnull=False).values_list(
            "series", flat=True
        )
    )
    back = set(of_document.filter(series__in=held).values_list("series", flat=True)) if held else set()
    rows = seen(wrong | back)
    good = {pk: row.version for pk in back if pk in rows and is_right(row := newest(rows[pk]))}
    found: dict[str, Trouble] = {}
    for pk in wrong - held:
        turned = turn(rows[pk], is_right, is_wrong) if pk in rows else None
        if turned is not None and turned.newest.document == document.pk:
            about: About = {
                "place": place,
                "target": document.target_id,
                "library": turned.after.library,
                "before": turned.before.version,
                "after": turned.after.version,
                "stacks": [turned.before.stack, turned.after.stack],
            }
            found.setdefault(_key(about), Trouble(about)).series.add(pk)
    if found or good:
        lasting.settle(KIND, place, good=good, found=found)


def _key(about: About) -> str:
    return lasting.key_of("correctness", about["place"], *about["stacks"])


def _build(about: About, series: Collection[int]) -> Proposal:
    rows = {pk: newest(found) for pk, found in seen(series).items()}
    ordered = lasting.distinct(series)
    told = [f"{each.case.label} by {each.backend}{_figures(rows.get(each.pk))}" for each in ordered]
    before, after = (Stack.objects.get(pk=pk) for pk in about["stacks"])
    about = about | {"others": words.others(before.components, after.components)}
    target = Target.objects.select_related("host").get(pk=about["target"])
    since, number, one = words.since(about), words.cases(len(ordered)), len(ordered) == 1
    return Proposal(
        key=_key(about),
        kind=Alert.Kind.CORRECTNESS,
        title=f"{number} wrong on {target}: {since}",
        sentence=f"On {target}, {number} that {'was' if one else 'were'} right before "
        f"{'is' if one else 'are'} wrong ({since}): {words.listed(told)}.",
        importance=IMPORTANCE,
        recorded=all(row.recorded for row in rows.values()),
        host=target.host,
        target=target,
        stack_before=before,
        stack_after=after,
        evidence=lasting.evidence(
            about,
            series,
            cases=[
                {
                    "case": each.case.label,
                    "backend": each.backend,
                    "cosine": row.cosine,
                    "largest_error": row.worst_error,
                    "tolerance": row.tolerance,
                    "said": words.first_line(row.said),
                }
                for each in ordered[: words.SHOWN]
                if (row := rows.get(each.pk)) is not None
            ],
        ),
    )


def _figures(row: Seen | None) -> str:
    """ " (cosine 0.12, largest error 3.4 of 0.01 allowed)", as far as they are known."""
    if row is None:
        return ""
    told = [f"cosine {row.cosine:.4g}"] if row.cosine is not None else []
    if row.worst_error is not None and row.tolerance is not None:
        told.append(f"largest error {row.worst_error:.3g}, {row.tolerance:.3g} allowed")
    return f" ({', '.join(told)})" if told else ""


def _mended(about: About) -> str:
    return f"Every case is right again on {about['place']}."


KIND = lasting.Kind(Alert.Kind.CORRECTNESS, _key, _build, _mended)
