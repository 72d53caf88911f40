"""Sparklines, charts and words of levels: whatever the values are, what is drawn stays in its frame."""

from __future__ import annotations

import datetime as dt
import json
import math

from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.alerts import words
from benchapp.alerts.charts import HEIGHT, WIDTH, Row, chart, sparkline
from benchapp.alerts.evidence import blocks
from benchapp.alerts.models import Change
from benchapp.alerts.points import Point
from benchapp.catalog.models import Series

START = dt.datetime(2026, 11, 20, tzinfo=dt.UTC)
positive = st.floats(min_value=1e-12, max_value=1e12)
anything = st.floats(allow_nan=True, allow_infinity=True)


def points(values):
    return [
        Point(START + dt.timedelta(days=n), n, None, 1, 1, value, doubtful=False, recorded=False)
        for n, value in enumerate(values)
    ]


def change(at, before, after, n=(3, 3), metric="time"):
    return Change(
        series=Series(metric=metric), at=START + dt.timedelta(days=at), before=before, after=after,
        worse=True, n_before=n[0], n_after=n[1],
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.lists(positive, min_size=2, max_size=80), st.data())
def test_a_sparkline_stays_in_its_frame(values, data):
    at = data.draw(st.integers(0, len(values)))
    line = sparkline(points(values), change(at, values[0], values[-1]))
    if not 0 < at < len(values):
        assert line is None
        return
    for pair in line.points.split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= WIDTH and 0 <= y <= HEIGHT
    for left, right, y in (line.before, line.after):
        assert 0 <= left <= right <= WIDTH and 0 <= y <= HEIGHT


@settings(max_examples=60, deadline=None)
@given(st.lists(positive, min_size=2, max_size=20), anything, anything)
def test_a_chart_is_json_whatever_the_levels(values, before, after):
    rows = [Row(point, "1.0", "", "run 1", n >= 1) for n, point in enumerate(points(values))]
    spec = json.loads(json.dumps(chart(rows, change(1, before, after)), allow_nan=False))
    assert [len(series["points"]) for series in spec["series"]] == [len(values)] * 3


def test_levels_are_drawn_over_the_points_that_they_rest_on():
    rows = [Row(point, "1.0", "", "run 1", n >= 4) for n, point in enumerate(points([10, 1, 1, 1, 2, 2, 9]))]
    spec = chart(rows, change(4, 1.0, 2.0, (3, 2)))
    drawn = [[n for n, p in enumerate(s["points"]) if p["y"] is not None] for s in spec["series"]]
    assert drawn == [list(range(7)), [1, 2, 3], [4, 5]]
    assert spec["y"]["unit"] == "s" and spec["lines"][0]["value"] == 3.5


@given(anything, st.sampled_from(["time", "host_time", "cpu_time", "size", "else"]))
def test_levels_and_ratios_are_short_whatever_they_are(value, metric):
    assert len(words.level(value, metric)) < 20
    assert len(words.ratio(value)) < 14


def test_levels_and_ratios_have_their_units():
    levels = [
        (1.234e-5, "time", "12.3 µs"), (83.0, "cpu_time", "1 min 23 s"), (3 * 2**20, "size", "3.00 MiB"),
        (1e300, "time", "1.0e+300 s"), (math.nan, "time", "–"), (None, "size", "–"),
    ]  # fmt: skip
    for value, metric, said in levels:
        assert words.level(value, metric).replace("\u00a0", " ") == said
    ratios = [(1.0839, "1.084×"), (23.44, "23.4×"), (1.2e7, "1.2e+07×"), (0.0, "0.000×"), (math.inf, "–")]
    for value, said in ratios:
        assert words.ratio(value) == said


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | anything | st.text(max_size=400),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=20), inner, max_size=5),
    max_leaves=20,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(max_size=20), json_like, max_size=6))
def test_evidence_of_any_make_can_be_shown(evidence):
    for block in blocks(evidence):
        for row in block.rows:
            assert len(row) == len(block.columns)


def test_numbers_and_times_beyond_all_bounds_are_shown_as_none_or_as_they_are():
    late = "9999-12-31T23:59:59-23:00"
    facts = dict(blocks({"count": 10**400, "seen_at": late, "time_s": -(10**400)})[0].facts)
    assert facts == {"count": "–", "seen at": late, "time": "–"}


def test_what_a_kind_keeps_for_itself_is_not_shown_and_times_are_read():
    found = blocks({"kept": {"series": [1]}, "since": "2026-11-20T10:00:00+00:00", "moved": 3})
    assert [block.facts for block in found] == [(("moved", "3"), ("since", "2026-11-20 10:00 UTC"))]
