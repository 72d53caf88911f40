"""The surveys committed with the source say what is known of the releases by other ways too."""

from __future__ import annotations

import gzip
import re
from functools import cache
from pathlib import Path

import pytest

from benchapp.catalog.versions import version_order
from benchapp.ingest import schema

RECORDED = Path(__file__).resolve().parents[2] / "benchapp" / "recorded"
SURVEYS = sorted(RECORDED.glob("tiles-*-sm120.json.gz"))
VERSIONS = sorted((path.name.split("-")[1] for path in SURVEYS), key=version_order)


@cache
def survey(version: str) -> schema.Document:
    return schema.parse(gzip.decompress((RECORDED / f"tiles-{version}-sm120.json.gz").read_bytes()))


def tactics(version: str, inputs: str = "nvfp4xnvfp4") -> dict[tuple[int, int], schema.Listing]:
    """(GEMM, id) → what it asks for."""
    return {
        tactic: item
        for item in survey(version).listings
        if (item.family, item.inputs) == ("moe_grouped_gemm", inputs)
        for tactic in item.tactics
    }


def overflowing(version: str) -> set[tuple[object, ...]]:
    return {
        (finding.tile, finding.fusion, finding.swap_ab, finding.need_bytes)
        for finding in survey(version).evidence
        if finding.stage == "fits" and not finding.passed
    }


def test_every_release_with_a_wheel_is_there():
    assert len(VERSIONS) == 43
    assert (VERSIONS[0], VERSIONS[-1]) == ("0.5.0", "0.7.4")


@pytest.mark.parametrize("path", sorted(RECORDED.glob("*.json.gz")), ids=lambda path: path.name)
def test_a_recorded_document_is_whole_and_names_no_machine(path: Path):
    body = gzip.decompress(path.read_bytes())
    document = schema.parse(body)
    kind = path.name.partition("-")[0]
    if kind in ("gemm", "moe"):
        assert document.kind == kind and document.measurements
    else:
        assert document.kind == "tiles" and document.evidence
    assert not re.search(rb'"/(?!/)|/home/|/root/|/tmp/', body)


#: Last release of each way to count, and its tactics: GEMM1, GEMM2.
COUNTS = (
    ("0.5.2", (4, 4)),
    ("0.6.7.post3", (8, 16)),
    ("0.6.10.post1", (12, 24)),
    ("0.7.0.post1", (20, 40)),
    ("0.7.4", (16, 32)),
)


@pytest.mark.parametrize("version", VERSIONS)
def test_tactics_are_counted_as_the_release_counts_them(version: str):
    expected = next(counts for last, counts in COUNTS if version_order(version) <= version_order(last))
    found = [gemm for gemm, _ in tactics(version)]
    assert (found.count(1), found.count(2)) == expected


@pytest.mark.parametrize("version", VERSIONS[:3])
def test_before_0_5_3_operands_are_always_swapped_and_all_fits(version: str):
    fitting = {
        (finding.tile, finding.fusion, finding.swap_ab)
        for finding in survey(version).evidence
        if (finding.family, finding.stage, finding.passed) == ("moe_grouped_gemm", "fits", True)
    }
    tiles = ((128, 128, 128), (128, 128, 256), (128, 256, 128), (256, 128, 128))
    assert fitting == {(tile, "none", True) for tile in tiles}
    assert overflowing(version) == set()


@pytest.mark.parametrize("version", VERSIONS[3:])
def test_only_finalize_without_swap_on_the_two_big_tiles_overflows(version: str):
    assert overflowing(version) == {
        (tile, "finalize", False, 102_400) for tile in ((128, 256, 128), (256, 128, 128))
    }


def test_publicly_reported_ids_decode():
    for version, gemm, number, tile, fusion, swap in (
        ("0.5.3", 2, 15, (256, 128, 128), "finalize", False),
        ("0.6.17", 1, 17, (128, 32, 128), "none", True),
    ):
        asked = tactics(version)[gemm, number]
        assert (asked.tile, asked.fusion, asked.swap_ab) == (tile, fusion, swap)


def test_0_5_2_has_no_id_15():
    assert {number for _, number in tactics("0.5.2")} == set(range(4))


def test_14_of_the_60_tactics_of_0_6_18_cannot_run():
    asked = tactics("0.6.18")
    never = {number for (_, number), item in asked.items() if not item.dispatched}
    short = {
        number
        for (_, number), item in asked.items()
        if (item.tile, item.fusion, item.swap_ab, 102_400) in overflowing("0.6.18")
    }
    assert (len(asked), len(never), len(short), never & short) == (60, 12, 2, set())
