"""From evidence to verdicts, and evidence that stays."""

from __future__ import annotations

import dataclasses
import datetime as dt
import itertools

import pytest
from django.core.management import call_command
from django.db import DatabaseError, transaction
from hypothesis import given
from hypothesis import strategies as st

from benchapp.ingest.actions import ingest
from benchapp.runs.actions import receive
from benchapp.runs.models import Document
from benchapp.tiles.models import Evidence, Stage, Verdict
from benchapp.tiles.verdict import LADDER, STRENGTH, climb, deciding
from tests.tiles.surveys import IN_0_6_3, survey, variant


@dataclasses.dataclass(unsafe_hash=True)
class Found:
    stage: str
    passed: bool
    source: str = "compiler"
    tier: str = "types"
    reason: str = ""
    found_at: dt.datetime = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)


findings = st.lists(
    st.builds(
        Found,
        stage=st.sampled_from([stage.value for stage in Stage]),
        passed=st.booleans(),
        source=st.just("compiler"),
        tier=st.sampled_from(["types", "body", "full"]),
        found_at=st.datetimes(timezones=st.just(dt.UTC)),
    ),
    max_size=12,
)


@given(findings)
def test_a_verdict_never_claims_a_stage_at_or_above_the_one_that_stopped_it(found: list[Found]):
    highest, stopped = climb(found)
    if stopped is not None:
        assert not stopped.passed
        if highest is not None:
            assert LADDER.index(Stage(highest.stage)) < LADDER.index(Stage(stopped.stage))
    if highest is not None:
        assert highest.passed


@given(findings)
def test_the_order_in_which_findings_arrive_decides_nothing_but_ties(found: list[Found]):
    distinct = list({(item.stage, item.tier, item.found_at): item for item in found}.values())
    assert deciding(distinct) == deciding(list(reversed(distinct)))


def test_a_device_outweighs_every_compiler_and_a_deep_tier_a_shallow_one():
    order = [
        ("imported", ""),
        ("generator", ""),
        ("compiler", "types"),
        ("compiler", "body"),
        ("compiler", "full"),
        ("device", ""),
    ]
    assert sorted(STRENGTH.keys() - {("heuristic", "")}, key=STRENGTH.__getitem__) == order
    assert STRENGTH["heuristic", ""] == STRENGTH["generator", ""]
    for (weak, strong), passed in itertools.product(itertools.pairwise(order), (True, False)):
        late = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
        found = [
            Found("fits", passed, *strong),
            Found("fits", not passed, *weak, found_at=late),
        ]
        assert deciding(found)[Stage.FITS].passed is passed


def test_somebody_elses_file_never_hides_what_was_found_here():
    later = dt.datetime(2026, 12, 1, tzinfo=dt.UTC)
    never_offered = Found("candidate", False, source="heuristic", tier="", reason="no_candidate")
    generated = Found("candidate", True, source="imported", tier="", found_at=later)
    compiled_here = Found("compiled", True, tier="full")
    compiled_elsewhere = Found("compiled", True, source="imported", tier="full", found_at=later)
    chosen = deciding([generated, never_offered, compiled_elsewhere, compiled_here])
    assert chosen == {Stage.CANDIDATE: never_offered, Stage.COMPILED: compiled_here}
    elsewhere = Found("initialised", False, source="imported", tier="", reason="init_failed")
    assert climb([compiled_here, elsewhere]) == (compiled_here, elsewhere)


def test_nothing_found_is_no_verdict():
    assert climb([]) == (None, None)


def test_a_failure_below_hides_a_success_above():
    highest, stopped = climb([Found("compiled", True), Found("fits", False), Found("ran", True)])
    assert (highest.stage, stopped.stage) == ("compiled", "fits")


@pytest.fixture
def stored(db: None) -> Document:
    document = survey("0.6.3", "4.2.1", itertools.chain.from_iterable(variant(*row) for row in IN_0_6_3))
    row, _ = receive(document.dumps().encode(), origin=Document.Origin.FILE)
    return ingest(row.pk)


def test_verdicts_can_all_be_derived_again_from_the_evidence(stored: Document, capsys):
    def told() -> list[tuple[object, ...]]:
        return sorted(Verdict.objects.values_list("tile_id", "stage", "failed_stage", "reason", "need_bytes"))

    before = told()
    assert len(before) == 16
    assert sum(reason == "smem_overflow" for _, _, _, reason, _ in before) == 2
    Verdict.objects.all().delete()
    call_command("derive_verdicts")
    assert told() == before
    assert "16 verdicts derived" in capsys.readouterr().out


def test_evidence_can_be_added_but_neither_changed_nor_deleted(stored: Document):
    for forbidden in (
        lambda: Evidence.objects.update(passed=True),
        lambda: Evidence.objects.filter(pk=Evidence.objects.first().pk)._raw_delete("default"),
    ):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            forbidden()
