"""One variant over many releases: spans, and what is left out of them; pure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from benchapp.catalog.models import Release
from benchapp.tiles.models import Tile, Verdict
from benchapp.tiles.timeline import MOST_RUNS, previous, timeline

TILE = Tile(pk=1, m=128, n=256, k=128, fusion="finalize", swap_ab=False)
#: of one release: not surveyed, surveyed without the tile, or held and needing so many bytes
FOUND = st.sampled_from(["untested", "absent", 74_752, 102_400])


def told(found, at):
    releases = [Release(pk=number, version=f"0.6.{number}") for number in range(len(found))]
    verdicts = {
        number: Verdict(
            stage="fits" if need <= 101_376 else "compiled",
            failed_stage="" if need <= 101_376 else "fits",
            reason="" if need <= 101_376 else "smem_overflow",
            need_bytes=need,
            limit_bytes=101_376,
        )
        for number, need in enumerate(found)
        if isinstance(need, int)
    }
    surveyed = {f"0.6.{number}" for number, kind in enumerate(found) if kind != "untested"}
    return releases, timeline(TILE, releases, releases[at], verdicts, surveyed), surveyed


@given(st.lists(FOUND, min_size=1, max_size=60), st.data())
def test_every_release_is_a_step_and_spans_hold_all_surveyed_ones(found, data):
    at = data.draw(st.integers(0, len(found) - 1))
    releases, shown, surveyed = told(found, at)
    assert [step.version for step in shown.steps] == [release.version for release in releases]
    assert [step.current for step in shown.steps].count(True) == 1
    assert shown.untested == found.count("untested")
    assert len(shown.spans) <= MOST_RUNS
    if not shown.more_spans:
        assert sum(span.count for span in shown.spans) == len(surveyed)
    if found[at] != "untested":
        assert [span.current for span in shown.spans].count(True) == 1


@given(st.lists(FOUND, min_size=1, max_size=20), st.data())
def test_earlier_and_later_are_the_nearest_that_hold_the_variant(found, data):
    at = data.draw(st.integers(0, len(found) - 1))
    releases, shown, surveyed = told(found, at)
    held = [number for number, kind in enumerate(found) if isinstance(kind, int)]
    before, after = [number for number in held if number < at], [number for number in held if number > at]
    assert shown.earlier == (f"0.6.{before[-1]}" if before else "")
    assert shown.later == (f"0.6.{after[0]}" if after else "")
    known = [release.version for release in releases[:at] if release.version in surveyed]
    found_before = previous(releases, releases[at], surveyed)
    assert (found_before.version if found_before else None) == (known[-1] if known else None)


def test_an_unchanged_run_is_one_span_and_untested_releases_do_not_break_it():
    _, shown, _ = told([102_400, "untested", 102_400, "absent", 74_752], 4)
    assert [(span.first, span.last, span.count, span.glyph) for span in shown.spans] == [
        ("0.6.0", "0.6.2", 2, "▲"),
        ("0.6.3", "0.6.3", 1, "·"),
        ("0.6.4", "0.6.4", 1, "●"),
    ]
