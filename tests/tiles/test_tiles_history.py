"""Variants over versions: funnel, diff, lists that must agree, tactic ids, sizes, what is worth trying."""

from __future__ import annotations

import csv
import dataclasses
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.catalog.models import Release
from benchapp.tiles import consistency, diff, funnel, tactics
from benchapp.tiles.entries import Entry, entries
from benchapp.tiles.fates import LADDER
from benchapp.tiles.keys import Key
from benchapp.tiles.models import Listing
from benchapp.tiles.queries import Selection
from benchapp.tiles.tactics import runs_of_versions
from tests.querycount import at_most
from tests.tiles.listed import FROM_0_6_8, NEVER_DISPATCHED, UNTIL_0_6_7, listed_survey
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey, variant
from workers.bench.document import Document, Target

SM120 = Selection("sm120", "moe_grouped_gemm", "nvfp4xnvfp4", "bf16")


@pytest.fixture
def surveyed(db):
    """0.5.3 without lists, 0.6.3 and 0.6.8 with them; 0.7.0 known and not surveyed."""
    store(survey("0.5.3", "4.2.1", [f for f in findings_of(IN_0_6_3) if f.stage != "candidate"], day=1))
    store(listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7, day=2))
    store(listed_survey("0.6.8", "4.4.2", FROM_0_6_8, NEVER_DISPATCHED, day=3))
    Release.objects.create(package="flashinfer", version="0.7.0", cutlass="4.5.0")


def export(client, address):
    return client.get(address).getvalue().decode()


def releases():
    return [Release.objects.get(version=version) for version in ("0.5.3", "0.6.3", "0.6.8", "0.7.0")]


def test_the_funnel_counts_each_stage_and_never_reads_untested_as_zero(surveyed):
    every = releases()
    with at_most(3):
        old, middle, new, unknown = funnel.steps(SM120, every)
    assert [(rung.passed, rung.failed) for rung in middle.rungs[:4]] == [(16, 0), (16, 0), (16, 0), (14, 2)]
    assert [(rung.passed, rung.failed) for rung in new.rungs[:4]] == [(24, 0), (16, 8), (16, 0), (14, 2)]
    assert not any(rung.known for rung in new.rungs[4:])
    assert not old.rungs[0].known and old.rungs[1].known
    assert unknown.state == "untested"
    assert funnel.sentence(old) == (
        "In 0.5.3, 16 variants: 16 dispatched, 16 compiled, 14 fit; not tested beyond that; "
        "candidate: not read from its sources."
    )
    assert funnel.sentence(unknown) == "Nothing is known of 0.7.0 here: no survey has looked."
    assert funnel.turns([old, middle, new, unknown]) == ["0.6.8 (variants 16 → 24)"]


ENDINGS = st.dictionaries(
    st.tuples(st.sampled_from(["", *LADDER]), st.sampled_from(["", *LADDER]), st.just("")).filter(
        lambda e: any(e) and (not e[1] or not e[0] or LADDER.index(e[0]) < LADDER.index(e[1]))
    ),
    st.integers(1, 50),
)


@given(ENDINGS)
def test_what_enters_a_stage_leaves_it(endings):
    found = funnel.rungs(endings, frozenset(LADDER))
    alive = sum(endings.values())
    for rung in found:
        # who comes this far passes, fails, or was not tested and stays so
        assert rung.passed + rung.failed + rung.untested == alive
        alive -= rung.failed


def test_the_chart_stacks_to_the_number_of_variants(surveyed):
    chart = funnel.context(SM120, releases(), "0.6.8")["funnel_chart"]
    columns = zip(*([point["y"] for point in series["points"]] for series in chart["series"]), strict=True)
    assert [sum(column) for column in columns] == [16, 16, 24, 0]
    assert [series["label"] for series in chart["series"]] == [
        "● fits",
        "▲ does not fit",
        "○ candidate, never dispatched",
    ]
    assert chart["bands"] == [["4.2.1", 2], ["4.4.2", 1], ["4.5.0", 1]]
    assert chart["untested"] == [3]


def test_a_diff_names_what_appeared_and_what_ids_moved(client, surveyed):
    page = client.get("/tiles/diff/?from=0.6.3&to=0.6.8").content.decode()
    assert "From 0.6.3 to 0.6.8, eight appeared; 16 in both have the same fate, with other figures" in page
    assert "tactic ids 2, 10 → 3, 15" in page
    with at_most(8):
        default = client.get("/tiles/diff/").content.decode()
    assert "From 0.6.3 to 0.6.8" in default
    rows = list(csv.DictReader(io.StringIO(export(client, "/tiles/diff/?format=csv"))))
    assert sum(row["change"] == "appeared" for row in rows) == 8
    assert len(json.loads(client.get("/tiles/diff/?format=json").content)["rows"]) == len(rows) == 24


def test_a_diff_tells_falls_rises_and_losses():
    def held(**needs):
        rows = {}
        for name, need in needs.items():
            m = int(name.removeprefix("m"))
            found = variant((m, 128, 128), "none", False, 3, need)
            rows[m] = found
        return rows

    sides = []
    for needs in ({"m64": 1000, "m128": 1000, "m256": 200_000}, {"m128": 200_000, "m256": 90_000}):
        side = {}
        for m, found in held(**needs).items():
            key = _key(m)
            last = found[-1]
            side[key] = _entry(key, "fits" if last.passed else "compiled", last)
        sides.append(side)
    deltas = diff.compare(*sides)
    assert [(delta.key.m, delta.change.value) for delta in deltas] == [
        (64, "vanished"),
        (128, "fell"),
        (256, "rose"),
    ]
    assert [delta.key.m for delta in diff.losses(deltas)] == [64, 128]
    assert deltas[1].moved == "need +199,000 B, margin −199,000 B"


def _key(m):
    return Key(m, 128, 128, "1x1x1", "auto", "none", False)


def _entry(key, stage, finding):
    failed = "" if finding.passed else finding.stage
    known = {"need_bytes": finding.need_bytes, "limit_bytes": finding.limit_bytes}
    return Entry(
        key,
        dataclasses.replace(
            key.variant, stage=stage, failed_stage=failed, reason=finding.reason or "", stages=3, **known
        ),
    )


@pytest.mark.parametrize("query", ["from=9.9.9", "to=0.7.0", "to=%00", "arch=sm999"])
def test_a_diff_of_what_is_not_known_says_so_and_exports_nothing(client, surveyed, query):
    assert "cannot be used" in client.get(f"/tiles/diff/?{query}").content.decode()
    refused = client.get(f"/tiles/diff/?{query}&format=csv")
    assert refused.status_code == 404 and b"cannot be used" in refused.content


def test_one_surveyed_release_has_no_difference(client, db):
    assert "nothing to compare" in client.get("/tiles/diff/").content.decode()
    store(listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7))
    assert "Only 0.6.3 has been surveyed here" in client.get("/tiles/diff/").content.decode()


def test_a_long_diff_is_cut_and_says_by_how_much(client, db):
    many = [((m, 128, 128), "none", False, 3, 90_000) for m in range(64, 64 + 130)]
    store(survey("0.6.3", "4.2.1", findings_of(many[:1])))
    store(survey("0.6.4", "4.2.1", findings_of(many)))
    page = client.get("/tiles/diff/").content.decode()
    assert "and 29 more; CSV and JSON have all" in page and page.count("<tr>") < 110
    assert export(client, "/tiles/diff/?format=csv").count("\n") == 130


def panel(version):
    return consistency.context(SM120, releases(), version)["consistency"]


def test_lists_that_disagree_are_named_with_their_tactic_ids(surveyed):
    every = releases()
    with at_most(2):
        found = consistency.context(SM120, every, "0.6.8")["consistency"]
    assert found.said == (
        "In 0.6.8 eight of 24 variants are not in all three lists. 14 of 36 tactic ids can never run: "
        "12 are never dispatched and 2 overflow shared memory."
    )
    [apart] = found.disagreements
    assert apart.kind is consistency.NEVER_DISPATCHED and found.counts == (24, 16, 16)
    assert sorted(number for entry in apart.found for number in entry.tactics) == [
        4, 5, 10, 11, 16, 17, 22, 23, 28, 29, 34, 35,
    ]  # fmt: skip


def test_lists_that_agree_older_surveys_and_unknown_releases_are_told_apart(surveyed):
    assert panel("0.6.3").said.startswith(
        "The three lists of 0.6.3 agree on all 16 variants. 2 of 24 tactic ids"
    )
    assert panel("0.5.3").state == "unread" and "older than the reading of lists" in panel("0.5.3").said
    assert panel("0.7.0").state == "unknown"
    assert consistency.context(SM120, releases(), "")["consistency"] is None


def test_one_variant_is_told_in_the_singular(surveyed):
    Listing.objects.exclude(pk=Listing.objects.filter(release__version="0.6.3").first().pk).delete()
    assert panel("0.6.3").said.startswith("The three lists of 0.6.3 agree on its only variant.")


def test_instantiations_that_nothing_can_choose_are_named(surveyed):
    store(listed_survey("0.6.9", "4.4.2", UNTIL_0_6_7, extra=[(64, 128, 128)]))
    release = Release.objects.get(version="0.6.9")
    [apart] = consistency.context(SM120, [release], "0.6.9")["consistency"].disagreements
    assert apart.kind is consistency.NEVER_CANDIDATES and apart.count == 4 and apart.kind.glyph == "◌"


def test_a_table_without_rows_still_names_its_columns(client, surveyed):
    same = export(client, "/tiles/diff/?from=0.6.3&to=0.6.3&format=csv")
    assert same.startswith("change,m,n,k,") and same.count("\n") == 1
    unread = export(client, "/tiles/tactics/?arch=sm120&format=csv").splitlines()[0]
    Listing.objects.all().delete()
    assert export(client, "/tiles/tactics/?version=0.6.3&format=csv") == f"{unread}\n"


def test_an_id_is_decoded_for_its_version(client, surveyed):
    with at_most(8):
        page = client.get("/tiles/tactics/?version=0.6.3&id=15").content.decode()
    assert "Tactic 15 of 0.6.3 is GEMM2 256×128×128 finalize: does not fit, short by 1,024 B" in page
    assert "FlashInfer 0.6.3 has 24 tactic ids here, 0 to 23: 8 of GEMM1, 16 of GEMM2" in page
    assert page.count('aria-current="true"') == 1
    assert "2 of 24 tactic ids can never run" in page
    assert "GEMM2 128×256×128 none</td>" in page, "the same number in 0.6.8"
    rows = list(csv.DictReader(io.StringIO(export(client, "/tiles/tactics/?version=0.6.3&format=csv"))))
    assert [int(row["id"]) for row in rows] == list(range(24)) and rows[15]["fate"] == "overflow"


def test_an_id_out_of_range_says_the_range(client, surveyed):
    page = client.get("/tiles/tactics/?version=0.6.3&id=24").content.decode()
    assert "0.6.3 has no tactic 24: its ids go from 0 to 23." in page
    assert "cannot be used" in client.get("/tiles/tactics/?id=seven").content.decode()


def test_a_tile_is_found_in_every_version(client, surveyed):
    page = client.get("/tiles/tactics/?tile=256x128x128").content.decode()
    assert "GEMM1 3, GEMM2 11" in page and "GEMM1 2, GEMM2 14" in page
    listed = client.get("/tiles/tactics/?tile=128x128x512").content.decode()
    assert "not in the tactic list" in listed


def test_never_dispatched_ids_say_so(surveyed):
    release = Release.objects.get(version="0.6.8")
    decoded = tactics.decode(entries(SM120, [release])[release.pk].values())
    assert [tactic.id for tactic in decoded] == list(range(36))
    assert decoded[4].entry.said == "candidate, never dispatched, never instantiated"


def test_without_lists_the_decoder_says_what_to_do(client, db):
    assert "No survey has read the tactic list" in client.get("/tiles/tactics/").content.decode()
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3)))
    assert "--flashinfer 0.6.3" in client.get("/tiles/tactics/").content.decode()


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("abc"))))
def test_runs_of_versions_keep_every_telling_version_once(told):
    versions = [str(number) for number in range(len(told))]
    known = {version: what for version, (is_known, what) in zip(versions, told, strict=True) if is_known}
    runs = runs_of_versions(versions, known)
    spans = [(span.split(" – ")[0], span.split(" – ")[-1]) for span, _ in runs]
    covered = [v for first, last in spans for v in versions[int(first) : int(last) + 1]]
    assert covered == [version for version in versions if version in known]


def test_sizes_are_those_of_the_newest_survey_of_each_release(client, db):
    costs = {"units": 5, "instantiations": 40, "wheel_bytes": 8 << 20}
    store(
        listed_survey(
            "0.6.10", "4.4.2", UNTIL_0_6_7, day=3, costs=costs | {"wheel_unpacked_bytes": 100 << 20}
        )
    )
    store(listed_survey("0.6.9", "4.4.2", UNTIL_0_6_7, day=2, costs=costs | {"units": 11}))
    store(listed_survey("0.6.9", "4.4.2", UNTIL_0_6_7, day=1, costs=costs | {"units": 7}))
    with at_most(6):
        page = client.get("/tiles/sizes/?arch=sm120", headers={"HX-Request": "true"})
    text = page.content.decode()
    assert "<html" not in text and text.index(">0.6.10<") < text.index(">0.6.9<")
    assert [(size.version, size.units) for size in page.context["sizes"]] == [("0.6.9", 11), ("0.6.10", 5)]
    assert "not recorded" in text and "8.00\u00a0MiB" in text and "100\u00a0MiB" in text
    assert "<html" in client.get("/tiles/sizes/").content.decode()


def explored(tile, need, *, spills=None, family="explored_grouped_gemm", cutlass="4.4.2"):
    found = [dataclasses.replace(f, family=family) for f in variant(tile, "none", False, 2, need)[2:]]
    found[0] = dataclasses.replace(
        found[0], spill_store_bytes=spills, tier="full" if spills is not None else "types"
    )
    return found


def explore(findings, cutlass="4.4.2"):
    base = survey("0", cutlass, findings)
    return Document(
        kind="tiles",
        command=("explore",),
        started_at=base.started_at,
        finished_at=base.finished_at,
        target=Target(kind="arch", arch="sm120"),
        stack={"cutlass": cutlass, "nvcc": "13.0.88"},
        evidence=tuple(findings),
        logs=base.logs,
    )


def test_worth_trying_is_what_fits_and_nobody_ships(client, surveyed):
    store(
        explore(
            [
                *explored((256, 256, 128), 90_000, spills=2_920),
                *explored((128, 64, 64), 50_000),
                *explored((128, 128, 128), 50_000),
                *explored((512, 128, 128), 200_000),
            ]
        )
    )
    rescue = [
        dataclasses.replace(f, family="moe_grouped_gemm_rescue", stages=2 if f.stages else None)
        for f in variant((256, 128, 128), "finalize", False, 2, 74_752)[2:]
    ]
    store(survey("0.6.8", "4.4.2", rescue, day=9))
    with at_most(14):
        page = client.get("/tiles/untried/?arch=sm120&inputs=nvfp4xnvfp4&version=0.6.8")
    rows = [(row.m, row.n, row.k, row.spill_store_bytes, row.heavy) for row in page.context["untried"]]
    assert rows == [(256, 256, 128, (2_920, 2_920), True), (128, 64, 64, None, False)]
    assert [find.name for find in page.context["rescued"]] == ["256×128×128 finalize"]
    text = page.content.decode()
    assert "~ 2,920\u00a0B, heavy" in text and "not measured" in text
    assert "To fit is not to be fast" in text and "This is the CUTLASS that FlashInfer 0.6.8 bundles" in text


def test_nothing_explored_reads_as_nothing_explored(client, surveyed):
    assert "No tiles have been explored" in client.get("/tiles/untried/").content.decode()


def test_of_equally_full_selections_nvfp4_is_the_first(client, db):
    found = findings_of(IN_0_6_3)
    store(survey("0.6.3", "4.2.1", [*found, *(dataclasses.replace(f, inputs="mxfp8xmxfp4") for f in found)]))
    for path in ("", "diff/", "tactics/"):
        assert client.get(f"/tiles/{path}").context["selection"].inputs == "nvfp4xnvfp4"


def test_tactics_of_one_gemm_alone_name_no_gemm(client, db):
    document = listed_survey("0.7.4", "4.5.0", UNTIL_0_6_7[:1])
    dense = [
        dataclasses.replace(row, family="mm_fp4", tactics=((1, number),))
        for number, row in enumerate(document.listings)
    ]
    found = [dataclasses.replace(f, family="mm_fp4") for f in document.evidence]
    store(dataclasses.replace(document, listings=tuple(dense), evidence=tuple(found)))
    page = client.get("/tiles/tactics/?family=mm_fp4&id=1").content.decode()
    assert "FlashInfer 0.7.4 has 4 tactic ids here, 0 to 3." in page and "GEMM1" not in page
    assert "Tactic 1 of 0.7.4 is 128×128×256" in page


def test_what_no_release_ships_has_no_lists_in_its_funnel(surveyed):
    store(explore([*explored((256, 256, 128), 90_000), *explored((512, 128, 128), 200_000)]))
    ours = dataclasses.replace(SM120, family="explored_grouped_gemm")
    context = funnel.context(ours, [Release.objects.get(package="cutlass")], "4.4.2")
    assert context["funnel_stages"][0] == "compiled"
    assert context["funnel_said"] == "In 4.4.2, 2 variants: 2 compiled, 1 fit; not tested beyond that."
    assert context["funnel_package"] == "CUTLASS" and context["funnel_chart"]["bands"] == []
