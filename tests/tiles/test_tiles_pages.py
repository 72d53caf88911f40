"""The matrix and the evidence behind it, from stored documents."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
from typing import Any

import pytest
from django.urls import reverse
from django.utils import timezone

from benchapp.catalog.models import Release
from benchapp.people.models import Role, User
from benchapp.runs.models import Job, Run, State
from benchapp.runs.requests import SWEEP_PRIORITY, request_exploration, request_survey
from benchapp.tiles import queries
from benchapp.tiles.exports import PIECE_CHARACTERS
from benchapp.tiles.models import EvidenceLog, Tile, Verdict
from tests.querycount import at_most
from tests.tiles.surveys import (
    IN_0_6_3,
    compiled_in_full,
    findings_of,
    listing,
    never_dispatched,
    never_offered,
    on_device,
    store,
    survey,
    variant,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def surveyed():
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3), day=1))
    new = never_dispatched((128, 128, 512))
    store(survey("0.6.10", "4.4.2", [*findings_of(IN_0_6_3[2:]), *new], day=2))
    store(survey("0.6.9", "4.4.2", [*findings_of(IN_0_6_3[2:]), *new], day=3))
    Release.objects.create(package="flashinfer", version="0.7.0", cutlass="4.5.0")


def overflowing():
    return Tile.objects.get(m=128, n=256, k=128, fusion="finalize", swap_ab=False)


def test_the_page_opens_with_the_newest_surveyed_release_in_words(client, surveyed):
    page = client.get("/tiles/").content.decode()
    assert "In 0.6.10, 12 of 15 variants fit; two miss by 1,024 B; one is a candidate" in page
    page = client.get("/tiles/?version=0.6.3").content.decode()
    assert "In 0.6.3, 14 of 16 variants fit; two miss by 1,024 B." in page


def test_runs_under_way_are_named_by_what_they_do_and_many_are_counted(client, surveyed):
    asked_by: dict[str, Any] = {"user": None, "source": Job.Source.COMMAND}
    request_survey("0.7.0", "sm120", tier="full", **asked_by)
    request_exploration("0.7.0", "sm120", **asked_by)
    for version in ("0.7.1", "0.7.2", "0.7.4"):
        request_survey(version, "sm120", priority=SWEEP_PRIORITY, **asked_by)
    failed, _ = request_survey("0.5.0", "sm120", **asked_by)
    Run.objects.filter(pk=failed.pk).update(state=State.FAILED, failure="The disk became full.")
    with at_most(15):
        page = client.get("/tiles/")
    said = page.content.decode()
    assert [run.job.title for run in page.context["running"]] == [
        f"Tile survey of FlashInfer {version} on SM120" for version in ("0.7.1", "0.7.2", "0.7.4")
    ]
    assert "Tile survey of FlashInfer 0.7.1 on SM120 is queued" in said and "2 more are waiting" in said
    assert "Tile survey of FlashInfer 0.5.0 on SM120 failed: The disk became full." in said


def test_versions_stand_in_release_order_with_their_cutlass_above(client, surveyed):
    found = client.get("/tiles/").context["matrix"]
    assert [column.version for column in found.columns] == ["0.6.3", "0.6.9", "0.6.10", "0.7.0"]
    assert found.bands == (("4.2.1", 1), ("4.4.2", 2), ("4.5.0", 1))


def test_absent_not_tested_and_failed_look_different_and_say_so(client, surveyed):
    found = client.get("/tiles/").context["matrix"]
    rows = {(group.shape, row.epilogue): row for group in found.groups for row in group.rows}
    assert [cell.look for cell in rows["128×128×128", "none"].cells] == [
        "survived",
        "absent",
        "absent",
        "untested",
    ]
    assert [cell.look for cell in rows["128×256×128", "finalize"].cells] == ["failed"] * 3 + ["untested"]
    assert (
        rows["128×256×128", "finalize"].cells[0].text
        == "does not fit, short by 1,024 B, 3 stages, types tier"
    )
    assert [cell.glyph for cell in rows["128×128×512", "none"].cells] == ["·", "○", "○", ""]
    epilogues = [row.epilogue for row in found.groups[0].rows]
    assert epilogues == ["none", "none · swap", "finalize", "finalize · swap"]


def test_only_changes_leaves_out_steady_rows(client, surveyed):
    found = client.get("/tiles/?changes=on").context["matrix"]
    assert sum(len(group.rows) for group in found.groups) == 3
    assert found.hidden == 14


def test_a_page_full_of_variants_and_versions_stays_within_its_queries(client):
    tiles = [(m, n, k) for m in (64, 128, 256) for n in (64, 128, 256) for k in (64, 128)][:15]
    variants = [
        (tile, fusion, swap, 3, 98_304)
        for tile in tiles
        for fusion in ("none", "finalize")
        for swap in (0, 1)
    ]
    for minor in range(8):
        store(
            survey(
                f"0.9.{minor}",
                "4.5.0",
                findings_of([(t, f, bool(s), g, n) for t, f, s, g, n in variants]),
                listings=[listing(t, f, bool(s), ((2, at),)) for at, (t, f, s, _, _) in enumerate(variants)],
            )
        )
    store_explored("4.5.0")
    pages = {}
    for view in ("versions", "grid", "funnel"):
        with at_most(15):
            pages[view] = client.get(f"/tiles/?view={view}&version=0.9.3")
    assert sum(len(group.rows) for group in pages["versions"].context["matrix"].groups) == 60
    bands = pages["grid"].context["grid"].bands
    assert [len(p.cells) for band in bands for _, row in band.rows for p in row if p.href] == [4] * 15
    assert len(pages["funnel"].context["funnel"]) == 8
    tile = Tile.objects.earliest("pk")
    with at_most(10):
        assert client.get(f"/tiles/{tile.pk}/0.9.3/").status_code == 200


def store_explored(cutlass, family="explored_grouped_gemm"):
    """What an exploration of a CUTLASS release writes: two sizes that no release ships, one too big."""
    fitting = variant((256, 256, 128), "none", False, 2, 90_112)
    too_big = variant((256, 512, 128), "none", False, 2, 170_000)
    found = [
        dataclasses.replace(finding, family=family)
        for finding in compiled_in_full([*fitting, *too_big], 2_920)
    ]
    document = survey("", cutlass, found, day=9)
    return store(dataclasses.replace(document, stack={"cutlass": cutlass, "nvcc": "13.0.88"}))


def test_the_grid_pools_a_tile_and_says_what_holds_and_what_fails(client, surveyed):
    page = client.get("/tiles/?view=grid&version=0.6.3")
    found = page.context["grid"]
    assert found.ns == (128, 256) and [band.k for band in found.bands] == [128, 256, 512]
    places = {
        (place.m, place.n, place.k): place for band in found.bands for _, row in band.rows for place in row
    }
    big = places[128, 256, 128]
    assert "mixed" in big.classes and big.margin == "−1,024 B" and big.stages == "2–3 stages"
    assert [glyph for glyph, _ in big.glyphs] == ["●", "●", "▲", "●"] and big.kinds == ("types",)
    assert big.title == (
        "128×256×128 in 0.6.3: 3 of 4 variants fit; "
        "finalize does not fit, short by 1,024 B, 3 stages, types tier"
    )
    assert places[128, 128, 512].look == "absent" and not places[128, 128, 512].href
    assert places[256, 256, 128].look == "empty" and "nobody has looked" in places[256, 256, 128].title
    assert (
        found.telling == "128x256x128@0.6.3"
        and f'hx-get="{big.href}"'.replace("&", "&amp;") in page.content.decode()
    )


def test_switches_narrow_the_grid_to_one_variant_and_the_words_with_it(client, surveyed):
    page = client.get("/tiles/?view=grid&version=0.6.3&fusion=finalize&swap=no&k=128")
    [band] = page.context["grid"].bands
    alone = band.rows[0][1][1]
    assert alone.href == f"/tiles/{overflowing().pk}/0.6.3/" and alone.name == f"{overflowing().pk}@0.6.3"
    assert (
        "In 0.6.3, with K 128, fusion finalize, no swap, 1 of 3 variants fit; two miss"
        in page.content.decode()
    )
    rows = page.client.get("/tiles/?version=0.6.3&fusion=finalize&swap=no&k=128").context["matrix"].groups
    assert [group.shape for group in rows] == ["128×128×128", "128×256×128", "256×128×128"]


def test_a_place_of_the_grid_lists_its_variants(client, surveyed):
    whole = client.get("/tiles/at/128x256x128/0.6.3/").content.decode()
    assert "3 of 4 fit" in whole and "102,400" in whole and "<html" in whole
    assert "view=grid" in whole and "cell=128x256x128%400.6.3" in whole
    part = client.get("/tiles/at/128x256x128/0.6.3/?fusion=none", headers={"HX-Request": "true"})
    assert "2 of 2 fit" in part.content.decode() and "<html" not in part.content.decode()
    for nowhere in ("1x1x1/0.6.3", "128x256x128/9.9.9", f"{2**40}x{2**70}x1/0.6.3"):
        assert client.get(f"/tiles/at/{nowhere}/").status_code == 404


def test_one_address_holds_the_view_and_every_filter(client, surveyed):
    page = client.get("/tiles/?version=0.6.3&fusion=finalize").content.decode()
    assert 'href="/tiles/?view=grid&amp;version=0.6.3&amp;fusion=finalize"' in page
    grid = client.get("/tiles/?view=grid&version=0.6.3&fusion=finalize").content.decode()
    assert '<input type="hidden" name="view" value="grid"' in grid
    assert 'href="/tiles/?version=0.6.3&amp;fusion=finalize"' in grid
    funnel = client.get("/tiles/?view=funnel&version=0.6.3&fusion=finalize").content.decode()
    assert 'id="funnel-title"' in funnel and 'name="fusion" value="finalize"' in funnel


def test_why_not_bigger_stands_under_matrix_and_grid(client, surveyed):
    for view in ("versions", "grid"):
        page = client.get(f"/tiles/?view={view}&version=0.6.3").content.decode()
        assert "Why not bigger?" in page and "one epilogue, finalize, by 1,024\u00a0B" in page.replace(
            "1,024 B", "1,024\u00a0B"
        )
        assert "170.7 MAC" in page


def test_explored_families_have_cutlass_releases_as_columns_and_feed_the_paragraph(client, surveyed):
    store_explored("4.2.1")
    page = client.get("/tiles/?family=explored_grouped_gemm")
    found = page.context["matrix"]
    assert [column.version for column in found.columns] == ["4.2.1"] and found.bands == ()
    assert "In CUTLASS 4.2.1, 1 of 2 variants fit" in page.content.decode()
    assert "Fitting is no good news beside heavy spills (up to 2,920 B a thread)" in page.content.decode()
    shipped = client.get("/tiles/?version=0.6.3").content.decode()
    assert "CUTLASS 4.2.1 can build it: 90,112 B at 2 stages, which fits and spills 2,920 B" in shipped


def imported(finding):
    return dataclasses.replace(finding, source="imported", tier=None, log=None)


@pytest.fixture
def many_fates():
    tile, other = (128, 128, 128), (128, 64, 128)
    found = [
        *on_device(variant(tile, "none", False, 3, 90_000), "correct", "incorrect", chosen_for="m=16"),
        *on_device(variant(tile, "none", True, 3, 90_000), "correct", chosen_for="m=32"),
        *compiled_in_full(variant(tile, "finalize", False, 3, 90_000), 2_920),
        *never_offered(other),
        imported(variant(other, "none", True, 3, 90_000)[-1]),
    ]
    listings = [
        listing(tile, "none", False, ((1, 3), (2, 11))),
        listing(tile, "none", True, ((1, 4), (2, 12))),
        listing(tile, "finalize", False, ((2, 13),)),
        listing(other, "none", False, (), candidate=False),
        listing((128, 128, 512), "none", False, ((1, 5), (2, 14)), dispatched=False, instantiated=False),
    ]
    store(survey("0.6.9", "4.4.2", found, listings=listings))


def test_cells_say_chosen_spills_source_and_tactics(client, many_fates):
    page = client.get("/tiles/")
    cells = {
        (group.shape, row.epilogue): row.cells[0]
        for group in page.context["matrix"].groups
        for row in group.rows
    }
    wrong = cells["128×128×128", "none"]
    assert {"incorrect", "chosen", "by-device"} <= set(wrong.classes.split())
    assert wrong.title == (
        "128×128×128 none in 0.6.9: chosen by an autotuner, wrong result, 11,376 B to spare, "
        "3 stages, on a GPU; GEMM1 3, GEMM2 11"
    )
    assert {"survived", "by-full", "spills", "heavy"} <= set(cells["128×128×128", "finalize"].classes.split())
    assert "spills 2,920 B, full tier" in cells["128×128×128", "finalize"].text
    assert cells["128×64×128", "none"].glyph == "◌" and cells["128×64×128", "none"].look == "nocandidate"
    assert "by-imported" in cells["128×64×128", "none · swap"].classes
    assert (
        page.context["matrix"].telling == f"{Tile.objects.get(n=128, fusion='none', swap_ab=False).pk}@0.6.9"
    )
    text = page.content.decode()
    assert (
        "An autotuner chose what computes wrong results, and it is not to be used: 128×128×128 none." in text
    )
    assert (
        "Of its 7 tactics (3 for GEMM1, 4 for GEMM2), three fit; two compute wrong results and two are never"
        in text
    )


def test_exports_carry_every_field(client, many_fates):
    rows = {
        (r["n"], r["fusion"], r["swap_ab"]): r
        for r in csv.DictReader(io.StringIO(export(client, "format=csv")))
    }
    wrong, spilling = rows["128", "none", "False"], rows["128", "finalize", "False"]
    assert (wrong["source"], wrong["chosen"], wrong["gemm1_tactics"], wrong["gemm2_tactics"]) == (
        "device", "True", "3", "11",
    )  # fmt: skip
    assert (spilling["tier"], spilling["spill_store_bytes"], spilling["candidate"]) == (
        "full",
        "2920",
        "True",
    )
    assert (
        rows["64", "none", "False"]["candidate"] == "False"
        and rows["64", "none", "False"]["fate"] == "no-candidate"
    )
    assert {"predicted_stages", "predicted_bytes", "schedule", "cluster"} <= set(wrong)


def test_exports_take_the_newest_prediction(client):
    tile = (128, 128, 128)
    for day, predicted in ((1, 80_000), (2, 88_000)):
        found = variant(tile, "none", False, 3, 90_000)
        found[-1] = dataclasses.replace(found[-1], predicted_stages=3, predicted_bytes=predicted)
        store(survey("0.6.9", "4.4.2", found, day=day))
    [cell] = json.loads(export(client, "format=json"))["cells"]
    assert (cell["predicted_stages"], cell["predicted_bytes"], cell["need_bytes"]) == (3, 88_000, 90_000)


def test_imported_findings_alone_make_no_survey(client):
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3)))
    store(survey("0.6.4", "4.2.1", [imported(variant((128, 128, 128), "none", False, 3, 90_000)[-1])]))
    rows = [row for group in client.get("/tiles/").context["matrix"].groups for row in group.rows]
    assert rows[0].cells[1].classes == "survived by-imported"
    assert {row.cells[1].look for row in rows[1:]} == {"untested"}


def test_nothing_stored_reads_as_nothing_stored(client):
    page = client.get("/tiles/").content.decode()
    assert "No tile survey has been stored yet" in page


def test_a_filter_that_cannot_be_used_is_named_and_dropped(client, surveyed):
    page = client.get("/tiles/?arch=sm999&version=nonsense&cell=%00").content.decode()
    assert "sm999" in page and "cannot be used" in page
    assert client.get("/tiles/?cell=1@%00").status_code == 200
    assert "cannot be used" in client.get("/tiles/?cell=1@0.6%250a").content.decode()
    assert "variants fit" in page


def test_evidence_shows_the_ladder_the_bar_and_the_siblings(client, surveyed):
    page = client.get(f"/tiles/{overflowing().pk}/0.6.3/").content.decode()
    assert "102,400\u00a0B needed" in page and "101,376\u00a0B" in page
    assert "over by 1,024\u00a0B" in page
    assert "The tile is not the obstacle: it fits with fusion none, swapped or not" in page
    assert "not tested beyond here" in page
    assert "python -m workers.bench tiles --flashinfer 0.6.3 --arch sm120" in page
    assert "style=" not in page
    found = client.get(f"/tiles/{overflowing().pk}/0.6.3/").context["found"]
    assert [rung.state for rung in found.rungs] == ["yes", "yes", "yes", "no", "open", "open", "open"]
    assert [s.variant.epilogue for s in found.siblings] == [
        "none",
        "none · swap",
        "finalize",
        "finalize · swap",
    ]
    assert sum(segment.bytes for segment in found.budget.segments) == 102_400


def test_a_log_is_escaped_on_the_page_and_plain_on_its_own(client, surveyed):
    page = client.get(f"/tiles/{overflowing().pk}/0.6.3/").content.decode()
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    raw = client.get(f"/tiles/log/{EvidenceLog.objects.earliest('pk').pk}/")
    assert raw["Content-Type"].startswith("text/plain") and b"<script>alert" in raw.content


def test_a_fragment_is_the_same_evidence_without_the_frame(client, surveyed):
    part = client.get(f"/tiles/{overflowing().pk}/0.6.3/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part and "102,400" in part


def test_the_opened_cell_is_in_the_url(client, surveyed):
    page = client.get(f"/tiles/?cell={overflowing().pk}@0.6.3").content.decode()
    assert f'hx-get="/tiles/{overflowing().pk}/0.6.3/"' in page


@pytest.mark.parametrize(
    "path",
    [
        "/tiles/999999/0.6.3/",
        "/tiles/1/9.9.9/",
        "/tiles/1/%00/",
        "/tiles/1/0.6.3%20/",
        f"/tiles/{2**63}/0.6.3/",
        f"/tiles/{2**70}/0.6.3/",
        "/tiles/log/7/",
        f"/tiles/log/{2**63}/",
    ],
)
def test_what_is_not_there_is_404(client, surveyed, path):
    assert client.get(path).status_code == 404


def test_a_variant_that_a_release_does_not_hold_says_so(client, surveyed):
    tile = Tile.objects.get(m=128, n=128, k=128, fusion="none", swap_ab=False)
    page = client.get(f"/tiles/{tile.pk}/0.6.10/").content.decode()
    assert "This version does not hold the variant" in page


@pytest.mark.parametrize("query", ["arch=sm999", "version=9.9.9", "fusion=none%00"])
def test_a_table_of_what_is_not_known_is_refused(client, surveyed, query):
    assert "cannot be used" in client.get(f"/tiles/?{query}").content.decode()
    refused = client.get(f"/tiles/?{query}&format=csv")
    assert refused.status_code == 404 and b"cannot be used" in refused.content


def test_the_matrix_comes_as_csv_and_json(client, surveyed):
    rows = list(csv.DictReader(io.StringIO(export(client, "format=csv"))))
    assert len(rows) == 17 * 4
    [cell] = [
        r
        for r in rows
        if r["flashinfer"] == "0.6.3"
        and r["m"] == "128"
        and r["n"] == "256"
        and r["fusion"] == "finalize"
        and r["swap_ab"] == "False"
    ]
    assert cell["need_bytes"] == "102400" and cell["margin_bytes"] == "-1024" and cell["fate"] == "overflow"
    cells = json.loads(export(client, "format=json&changes=on"))["cells"]
    assert len(cells) == 3 * 4


def export(client, query):
    return client.get(f"/tiles/?{query}").getvalue().decode()


@pytest.fixture
def crowd(surveyed):
    """More variants and releases than a page shows; one of the last variants failed, in the first release."""
    fields = {"family": "moe_grouped_gemm", "inputs": "nvfp4xnvfp4", "output": "bf16", "arch": "sm120"}
    Tile.objects.bulk_create(
        Tile(**fields, m=m, n=8, k=8, cluster="1x1x1", fusion="none", swap_ab=False, schedule="auto")
        for m in range(1000, 1000 + queries.MOST_ROWS + 50)
    )
    releases = Release.objects.bulk_create(
        Release(package="flashinfer", version=f"0.{minor}.0", cutlass="4.5.0") for minor in range(10, 75)
    )
    known = {"source": "compiler", "found_at": timezone.now(), "stage": "fits"}
    last = Tile.objects.latest("pk")
    Verdict.objects.bulk_create(
        Verdict(tile=tile, release=release, **known)
        for tile in Tile.objects.filter(m__gte=1000).exclude(pk=last.pk)
        for release in (Release.objects.get(version="0.6.10"), releases[-1])
    )
    overflow = known | {"stage": "compiled", "failed_stage": "fits", "reason": "smem_overflow"}
    Verdict.objects.create(tile=last, release=releases[-1], **overflow)
    return last


def test_a_page_shows_so_many_rows_and_columns_and_says_so(client, crowd):
    with at_most(15):
        page = client.get("/tiles/?version=0.74.0")
    found, text = page.context["matrix"], page.content.decode()
    variants = Tile.objects.count()
    rows = [row for group in found.groups for row in group.rows]
    assert len(rows) == queries.MOST_ROWS and crowd.pk in [row.tile_id for row in rows]
    assert found.groups[0].shape == "128×128×128"
    assert (
        f"Shown: {queries.MOST_ROWS} of {variants} variants, first those that failed in some version" in text
    )
    assert "In 0.74.0, 249 of 250 variants fit; one does not fit." in text
    assert [column.version for column in found.columns][0::59] == ["0.15.0", "0.74.0"]
    assert "Shown: 60 of 69 versions" in text
    older = client.get("/tiles/?version=0.6.10").context["matrix"]
    assert [column.version for column in older.columns] == ["0.6.3", "0.6.9", "0.6.10"]


def test_exports_hold_every_variant_and_release_in_pieces(client, crowd):
    variants = Tile.objects.count()
    rows = list(csv.DictReader(io.StringIO(export(client, "format=csv"))))
    assert len(rows) == variants * 69
    assert len(json.loads(export(client, "format=json"))["cells"]) == variants * 69
    pieces = [len(piece) for piece in client.get("/tiles/?format=csv").streaming_content]
    assert len(pieces) > 10 and max(pieces) < 2 * PIECE_CHARACTERS


def person(role):
    return User.objects.create_user("someone", password="a long password", role=role)


def test_a_survey_is_asked_for_once(client, surveyed):
    client.force_login(person(Role.OPERATOR))
    asked = client.post(reverse("tiles:survey"), {"version": "v0.06.4", "arch": "sm120"})
    run = Run.objects.get()
    assert run.recipe.versions == {"flashinfer": "0.6.4"}
    assert asked.status_code == 302 and asked["Location"] == f"/runs/{run.pk}/"
    again = client.post(reverse("tiles:survey"), {"version": "0.6.4", "arch": "sm120"})
    assert again["Location"] == asked["Location"] and Run.objects.count() == 1


def test_a_survey_of_nonsense_is_refused_in_a_sentence(client):
    client.force_login(person(Role.OPERATOR))
    for version, arch in (("not a version", "sm120"), ("0.6.3", "sm7"), ("", "sm120")):
        refused = client.post(reverse("tiles:survey"), {"version": version, "arch": arch})
        assert refused.status_code == 422 and "errorlist" in refused.content.decode()
    assert not Run.objects.exists()


def test_a_viewer_may_not_ask_for_a_survey(client):
    client.force_login(person(Role.VIEWER))
    assert client.post(reverse("tiles:survey"), {"version": "0.6.3", "arch": "sm120"}).status_code == 403
    assert "Run survey" not in client.get("/tiles/").content.decode()
