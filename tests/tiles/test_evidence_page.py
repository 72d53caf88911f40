"""One tile's evidence from stored documents: what decides, what disagrees, what is near, what changed."""

from __future__ import annotations

import dataclasses

import pytest

from benchapp.catalog.models import Release
from benchapp.tiles import neighbours
from benchapp.tiles.evidence import LOG_SHOWN, MOST_CHOSEN, MOST_OF_KIND
from benchapp.tiles.models import Tile, Verdict
from tests.querycount import at_most
from tests.tiles.surveys import FAMILY, IN_0_6_3, LIMIT, findings_of, store, survey, variant
from workers.bench.document import Listing

pytestmark = pytest.mark.django_db

BIG = ((128, 256, 128), "finalize", False)
MOST_QUERIES = 12


def of_big(**changes):
    """One finding about the tile that overflows, as its `fits` finding with other fields."""
    found = variant(*BIG, 3, 102_400)[-1]
    empty = {
        "reason": None,
        "tier": None,
        "stages": None,
        "need_bytes": None,
        "limit_bytes": None,
        "log": None,
    }
    return dataclasses.replace(found, **{"parts": {}, **empty, **changes})


def compiled(tier, **figures):
    return of_big(stage="compiled", passed=True, source="compiler", tier=tier, threads=384, **figures)


def listing(tactics, **changes):
    tile, fusion, swap = BIG
    listed = Listing(FAMILY, "nvfp4xnvfp4", tile, (1, 1, 1), fusion, swap, "auto", True, True, True, tactics)
    return dataclasses.replace(listed, **changes)


def big():
    tile, fusion, swap = BIG
    named = dict(zip("mnk", tile, strict=True), fusion=fusion, swap_ab=swap, schedule="auto")
    return Tile.objects.get(family=FAMILY, arch="sm120", **named)


def evidence(client, version="0.6.3", tile=None):
    return client.get(f"/tiles/{(tile or big()).pk}/{version}/")


def rung(response, stage):
    return next(rung for rung in response.context["found"].rungs if rung.stage == stage)


@pytest.fixture
def surveyed():
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3), day=1))


def test_candidate_shows_the_tactic_ids_and_where_to_decode_them(client):
    document = survey("0.6.3", "4.2.1", findings_of(IN_0_6_3))
    store(dataclasses.replace(document, listings=(listing(((1, 3), (2, 11), (2, 15))),)))
    page = evidence(client)
    assert rung(page, "candidate").note == "GEMM1 3 · GEMM2 11, 15"
    assert "/tiles/tactics/?arch=sm120&amp;family=moe_grouped_gemm" in page.content.decode()


def test_sources_that_list_a_tile_answer_where_no_finding_does(client, surveyed):
    [finding] = [of_big(stage="compiled", passed=True, source="compiler", tier="types")]
    document = survey("0.7.0", "4.5.0", [finding], day=2)
    store(dataclasses.replace(document, listings=(listing((), candidate=False, dispatched=False),)))
    page = evidence(client, "0.7.0")
    assert (rung(page, "candidate").glyph, rung(page, "dispatched").glyph) == ("◌", "○")
    assert rung(page, "dispatched").note == "instantiated, but not in the dispatch table"
    assert rung(page, "fits").note == "not tested beyond here"


def test_a_deep_tier_outweighs_a_shallow_one_and_every_tier_is_shown(client, surveyed):
    full = compiled(
        "full", registers=168, spill_store_bytes=3028, spill_load_bytes=2440, stack_bytes=3072,
        object_bytes=1_234_567, cpu_seconds=151.2,
    )  # fmt: skip
    store(survey("0.6.3", "4.2.1", [full], day=2))
    store(survey("0.6.3", "4.2.1", [compiled("types")], day=3))
    page = evidence(client)
    assert rung(page, "compiled").decider.finding.tier == "full"
    assert rung(page, "compiled").why.startswith("The full tier outweighs the types tier")
    assert [other.standing for other in rung(page, "compiled").others] == ["outweighed by the full tier"] * 2
    tiers = page.context["found"].tiers
    assert [tier.finding is not None for tier in tiers.columns] == [True, False, True]
    text = page.content.decode()
    for said in (
        "not compiled yet",
        "3,028\u00a0B",
        "3,072\u00a0B",
        "1,234,567\u00a0B",
        "2\u00a0min\u00a031\u00a0s",
        "168",
    ):
        assert said in text
    assert "That is not good news" in text and "spills are the signal" in text


def test_spills_that_nobody_measured_are_said_to_be_unknown(client, surveyed):
    assert "Spills not measured yet (types tier)" in evidence(client).content.decode()


def test_an_imported_finding_says_where_it_comes_from_and_what_disagrees_stays_visible(client, surveyed):
    fitting = Tile.objects.get(m=128, n=256, fusion="none", swap_ab=False)
    common = dict.fromkeys(("source",), "imported") | {"fusion": "none", "stage": "initialised"}
    told = "<b>Failed to initialize</b> cutlass TMA WS grouped gemm"
    failed = of_big(**common, passed=False, reason="init_failed", detail=told)
    log = survey("0.6.3", "4.2.1", [failed], day=2)
    store(dataclasses.replace(log, producer="server-log importer"))
    worked = survey("0.6.3", "4.2.1", [of_big(**common, passed=True)], day=3)
    store(dataclasses.replace(worked, producer="autotuner importer"))
    page = evidence(client, tile=fitting)
    found = rung(page, "initialised")
    assert found.state == "yes" and found.decider.source.startswith("autotuner importer")
    [conflict] = found.conflicts
    assert conflict.said == "initialize() fails on the GPU"
    assert conflict.standing == "superseded by a newer one"
    text = page.content.decode()
    assert "Disagrees: initialize() fails on the GPU. " in text and "server-log importer" in text
    assert "&lt;b&gt;Failed to initialize" in text and "<b>Failed" not in text
    assert "Of equally strong findings the newest counts." in text


def test_a_gpu_outweighs_an_import(client, surveyed):
    store(
        survey(
            "0.6.3", "4.2.1", [of_big(stage="ran", passed=False, source="device", reason="crashed")], day=2
        )
    )
    store(survey("0.6.3", "4.2.1", [of_big(stage="ran", passed=True, source="imported")], day=3))
    found = rung(evidence(client), "ran")
    assert found.state == "no" and found.note == "crashes on the GPU"
    assert found.conflicts[0].standing == "outweighed by a GPU of our own"


def test_a_compile_error_shows_its_first_assertion(client):
    detail = 'static assertion failed with "Specialization requires Stages set to value 2 or more."'
    candidate, dispatched, *_ = variant(*BIG, 3, 102_400)
    error = of_big(
        stage="compiled", passed=False, source="compiler", tier="types", reason="compile_error", detail=detail
    )
    store(survey("0.6.3", "4.2.1", [candidate, dispatched, error]))
    page = evidence(client).content.decode()
    assert "Specialization requires Stages set to value 2 or more.</q>" in page
    assert "fewer than two pipeline stages fit into shared memory" in page
    assert "budget-head" not in page


def test_chosen_but_wrong_is_said_first(client, surveyed):
    findings = [
        of_big(stage="ran", passed=True, source="imported", chosen_for=f"M={m} N=4096 K=6144")
        for m in range(MOST_CHOSEN + 3)
    ]
    wrong = of_big(stage="correct", passed=False, source="imported", reason="incorrect")
    store(survey("0.6.3", "4.2.1", [*findings, wrong], day=2))
    page = evidence(client)
    assert "★ chosen, and wrong" in page.content.decode()
    assert len(page.context["found"].chosen.shapes) == MOST_CHOSEN and page.context["found"].chosen.more


def test_hundreds_of_findings_are_counted_and_the_deciding_one_is_among_those_shown(client, surveyed):
    many = [of_big(stage="initialised", passed=False, source="imported", reason="init_failed")] * 600
    store(survey("0.6.3", "4.2.1", many, day=2))
    store(survey("0.6.3", "4.2.1", [of_big(stage="initialised", passed=True, source="imported")], day=3))
    with at_most(MOST_QUERIES):
        page = evidence(client)
    found = rung(page, "initialised")
    assert found.state == "yes"
    assert len(found.conflicts) + len(found.others) == MOST_OF_KIND and found.left_out == 600 - MOST_OF_KIND
    assert f"{600 - MOST_OF_KIND:,} older" in page.content.decode()
    assert len(page.content) < 60_000


def test_the_prediction_is_marked_on_the_bar_and_called_wrong(client):
    [*low, fits] = variant(*BIG, 3, 102_400)
    fits = dataclasses.replace(fits, predicted_stages=3, predicted_bytes=101_376)
    store(survey("0.6.3", "4.2.1", [*low, fits]))
    page = evidence(client)
    assert page.context["found"].budget.predicted.bytes == 101_376
    text = page.content.decode()
    assert "The predictor is wrong here." in text and "1,024 B of padding it leaves out" in text
    assert 'class="predicted"' in text and "style=" not in text


def test_neighbours_are_the_tiles_variants_and_one_step_along_each_extent(client):
    rows = [((m, n, 128), "none", False, 3, 90_000) for m in (64, 128, 256) for n in (32, 64, 128, 256)]
    store(survey("0.6.3", "4.2.1", findings_of([*IN_0_6_3, *rows])))
    tile = Tile.objects.get(m=128, n=128, k=128, fusion="none", swap_ab=False)
    near = evidence(client, tile=tile).context["found"].near
    assert [(one.label, one.variant.shape) for one in near.next] == [
        ("M", "64×128×128"),
        ("M", "256×128×128"),
        ("N", "128×64×128"),
        ("N", "128×256×128"),
        ("K", "128×128×256"),
    ]
    assert [one.label for one in near.siblings if one.current] == ["none"]


def test_siblings_are_the_closest_and_their_number_is_limited(client):
    findings = [
        finding
        for number in range(40)
        for finding in variant(*BIG, 3, 102_400, schedule=f"schedule_{number:02}")
    ]
    store(survey("0.6.3", "4.2.1", [*findings_of(IN_0_6_3), *findings]))
    found = evidence(client).context["found"]
    assert len(found.siblings) == neighbours.MOST_SIBLINGS
    assert found.near.more_siblings == 44 - neighbours.MOST_SIBLINGS
    assert sum(one.current for one in found.siblings) == 1
    assert "32 more, further from this one" in evidence(client).content.decode()


def test_one_stage_less_stands_beside_what_the_release_ships(client, surveyed):
    [*_, fits] = variant(*BIG, 2, 74_752)
    rescue = dataclasses.replace(fits, family="moe_grouped_gemm_rescue", schedule="stages_2")
    store(survey("0.6.3", "4.2.1", [rescue], day=2))
    [shown] = evidence(client).context["found"].near.rescues
    assert shown.label == "one stage less" and shown.variant.need_bytes == 74_752
    back = evidence(client, tile=Tile.objects.get(family="moe_grouped_gemm_rescue")).context["found"]
    assert [one.label for one in back.near.rescues] == ["as the release ships it"]


def test_what_changed_since_the_surveyed_version_before(client):
    first = survey("0.6.2", "4.2.1", findings_of([(*BIG, 2, 74_752)]), day=1)
    store(dataclasses.replace(first, listings=(listing(((2, 14),)),)))
    Release.objects.create(package="flashinfer", version="0.6.2.post1", cutlass="4.2.1")
    second = survey("0.6.3", "4.2.1", findings_of([(*BIG, 3, 102_400)]), day=2)
    store(dataclasses.replace(second, listings=(listing(((2, 15),)),)))
    found = evidence(client).context["found"]
    assert found.since.version == "0.6.2"
    changed = {change.what: (change.before, change.after) for change in found.since.changes}
    assert changed == {
        "fate": ("fits", "does not fit"),
        "stages": ("2", "3"),
        "need": ("74,752 B", "102,400 B"),
        "operand a": ("55,296 B", "82,944 B"),
        "GEMM2 tactic ids": ("14", "15"),
    }
    assert [span.text for span in found.history.spans] == [
        "fits, 26,624 B to spare, 2 stages",
        "does not fit, short by 1,024 B, 3 stages",
    ]
    assert found.history.untested == 1 and found.history.earlier == "0.6.2"


def test_looking_deeper_is_no_change_of_the_release(client):
    for day, version in ((1, "0.6.2"), (2, "0.6.3")):
        store(survey(version, "4.2.1", findings_of([(*BIG, 3, 98_304)]), day=day))
    store(survey("0.6.3", "4.2.1", [of_big(stage="initialised", passed=True, source="device")], day=3))
    found = evidence(client).context["found"]
    assert found.since.changes == () and [span.count for span in found.history.spans] == [2]
    assert "Nothing changed" in evidence(client).content.decode()
    store(
        survey(
            "0.6.3", "4.2.1", [of_big(stage="ran", passed=False, source="device", reason="crashed")], day=4
        )
    )
    [change] = evidence(client).context["found"].since.changes
    assert change.before == "fits, not tested for ran"


def test_the_strip_shows_every_version_with_its_own_look(client, surveyed):
    store(survey("0.6.4", "4.2.1", findings_of(IN_0_6_3[:4]), day=2))
    Release.objects.create(package="flashinfer", version="0.6.5", cutlass="4.2.1")
    steps = evidence(client).context["found"].history.steps
    assert [(step.version, step.look, step.held) for step in steps] == [
        ("0.6.3", "failed", True),
        ("0.6.4", "absent", False),
        ("0.6.5", "untested", False),
    ]


def test_what_others_brought_in_makes_no_version_surveyed(client, surveyed):
    imported = dataclasses.replace(variant((64, 64, 64), "none", False, 2, 9)[0], source="imported")
    store(survey("0.6.4", "4.2.1", [imported], day=2))
    page = evidence(client, "0.6.4")
    assert "No survey has looked at this variant in this version." in page.content.decode()
    assert page.context["found"].history.steps[1].look == "untested"


def test_a_version_that_was_surveyed_without_the_tile_still_shows_what_is_near(client, surveyed):
    store(
        survey(
            "0.6.4", "4.2.1", findings_of([*IN_0_6_3[:4], ((128, 256, 128), "none", True, 3, 98_304)]), day=2
        )
    )
    with at_most(MOST_QUERIES):
        page = evidence(client, "0.6.4")
    text = page.content.decode()
    assert "This version does not hold the variant" in text
    assert f'href="/tiles/{big().pk}/0.6.3/">0.6.3</a> before' in text
    assert [one.label for one in page.context["found"].siblings] == ["none · swap"]
    assert page.context["found"].since.changes[0].after == "not in this version"


def test_the_same_tile_on_other_architectures(client, surveyed):
    roomy = [
        variant(tile, fusion, swap, stages, need, limit=232_448)
        for tile, fusion, swap, stages, need in IN_0_6_3
    ]
    store(survey("0.6.3", "4.2.1", [finding for one in roomy for finding in one], arch="sm100", day=2))
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3[:2]), arch="sm90", day=3))
    other = {one.arch: one for one in evidence(client).context["found"].elsewhere}
    assert set(other) == {"sm100", "sm90"}
    assert other["sm100"].neighbour.variant.limit_bytes == 232_448 and other["sm100"].neighbour.glyph == "●"
    assert other["sm90"].neighbour is None and other["sm90"].said == "not among its tiles"


def test_a_tile_of_a_cutlass_release_is_looked_up_among_those(client):
    document = survey("0.6.3", "4.2.1", [])
    explored = dataclasses.replace(variant(*BIG, 3, 102_400)[-1], family="explored_grouped_gemm")
    stack = {"cutlass": "4.2.1", "nvcc": "13.0.88"}
    store(dataclasses.replace(document, stack=stack, evidence=(explored,)))
    tile = Tile.objects.get(family="explored_grouped_gemm")
    assert "in CUTLASS 4.2.1</h1>" in evidence(client, "4.2.1", tile).content.decode()
    assert evidence(client, "0.6.3", tile).status_code == 404


def test_a_huge_log_is_shown_by_its_head(client):
    document = survey("0.6.3", "4.2.1", findings_of(IN_0_6_3))
    store(dataclasses.replace(document, logs={"unit.log": "x" * 1_000_000}))
    page = evidence(client)
    assert f"The first {LOG_SHOWN:,} of 1,000,000 characters." in page.content.decode()
    assert len(page.content) < LOG_SHOWN + 60_000
    beside = client.get(f"/tiles/{big().pk}/0.6.3/", headers={"HX-Request": "true"}).content.decode()
    assert "xxx" not in beside and "The log as plain text" in beside


def test_however_many_variants_and_versions_there_are_the_queries_stay_few(client):
    tiles = [(m, n, 128) for m in (64, 128, 256) for n in (64, 128, 256)]
    findings = findings_of(
        [(tile, f, s, 3, 98_304) for tile in tiles for f in ("none", "finalize") for s in (False, True)]
    )
    for minor in range(2):
        for arch in ("sm120", "sm121"):
            store(survey(f"0.9.{minor}", "4.5.0", findings, arch=arch, day=minor + 1))
    releases = Release.objects.bulk_create(
        Release(package="flashinfer", version=f"0.{minor}.0", cutlass="4.5.0") for minor in range(10, 53)
    )
    known = {"source": "compiler", "stage": "fits", "need_bytes": 98_304, "limit_bytes": LIMIT}
    at = Verdict.objects.first().found_at
    Verdict.objects.bulk_create(
        Verdict(tile=tile, release=release, found_at=at, **known)
        for tile in Tile.objects.all()
        for release in releases
    )
    with at_most(MOST_QUERIES):
        page = evidence(client, "0.9.1")
    assert len(page.context["found"].history.steps) == 45


@pytest.mark.parametrize("path", ["/tiles/999999/0.6.3/", "/tiles/{pk}/9.9.9/"])
def test_what_is_unknown_says_so_in_words(client, surveyed, path):
    response = client.get(path.format(pk=big().pk))
    assert response.status_code == 404
    assert "Nothing is known about tile" in response.content.decode()
