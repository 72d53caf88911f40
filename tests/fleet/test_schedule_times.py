import datetime as dt
import itertools
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.fleet.schedule_times import LEAST_S, MOST_COUNTED, BadTimes, times_of

NEW_YEAR = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Australia/Sydney", "Asia/Kolkata", "Pacific/Apia"]
MOMENTS = st.datetimes(
    dt.datetime(2024, 1, 1), dt.datetime(2030, 1, 1), timezones=st.just(dt.UTC), allow_imaginary=False
)
MINUTES = st.integers(0, 59).map(str)
HOURS = st.one_of(
    st.just("*"),
    st.integers(1, 12).map(lambda step: f"*/{step}"),
    st.lists(st.integers(0, 23), min_size=1, max_size=3, unique=True).map(
        lambda hours: ",".join(map(str, hours))
    ),
)
DAYS = st.sampled_from(["*", "1", "1,15", "L", "*/3"])
WEEKDAYS = st.sampled_from(["*", "1-5", "SUN", "1#1"])
CRONS = st.tuples(MINUTES, HOURS, DAYS, st.sampled_from(["*", "3", "10,11"]), WEEKDAYS).map(" ".join)


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).astimezone(dt.UTC)


def cron(text: str, zone: str = "UTC"):
    return times_of(text, None, zone, NEW_YEAR)


@given(CRONS, st.sampled_from(ZONES), MOMENTS)
@settings(max_examples=150, deadline=None)
def test_due_times_come_later_and_later(expression, zone, moment):
    upcoming = cron(expression, zone).upcoming(moment, 5)
    assert len(upcoming) == 5
    assert all(earlier < later for earlier, later in itertools.pairwise([moment, *upcoming]))
    assert {due.tzinfo for due in upcoming} == {dt.UTC}


@given(CRONS, st.sampled_from(ZONES), MOMENTS)
@settings(max_examples=100, deadline=None)
def test_the_clock_on_the_wall_says_what_was_asked_for_except_where_it_was_skipped(expression, zone, moment):
    minute = int(expression.split()[0])
    for due in cron(expression, zone).upcoming(moment, 3):
        wall = due.astimezone(ZoneInfo(zone))
        went_forward = (due - dt.timedelta(minutes=1)).astimezone(
            ZoneInfo(zone)
        ).utcoffset() < wall.utcoffset()
        assert wall.minute == minute or went_forward


@given(CRONS, st.sampled_from(ZONES), MOMENTS, st.integers(1, 4))
@settings(max_examples=100, deadline=None)
def test_asking_from_one_due_time_on_gives_the_same_as_asking_for_all(expression, zone, moment, skipped):
    times = cron(expression, zone)
    upcoming = times.upcoming(moment, 8)
    assert times.upcoming(upcoming[skipped - 1], 8 - skipped) == upcoming[skipped:]


@given(st.integers(LEAST_S, 10**6), MOMENTS)
def test_an_interval_keeps_its_beat_whenever_it_is_asked(seconds, moment):
    due = times_of("", seconds, "UTC", NEW_YEAR).next_due(moment)
    assert due > moment
    assert (due - NEW_YEAR).total_seconds() % seconds == 0
    assert due - moment <= dt.timedelta(seconds=seconds) or due == NEW_YEAR + dt.timedelta(seconds=seconds)


def test_a_time_that_the_clock_skips_is_due_when_it_goes_on():
    due = cron("30 2 * * *", "Europe/Berlin").upcoming(at("2026-03-28T00:00+01:00"))
    assert due == [at("2026-03-28T02:30+01:00"), at("2026-03-29T03:00+02:00"), at("2026-03-30T02:30+02:00")]


def test_two_skipped_times_fall_together():
    due = cron("0,30 2 * * *", "Europe/Berlin").upcoming(at("2026-03-29T00:00+01:00"), 2)
    assert due == [at("2026-03-29T03:00+02:00"), at("2026-03-30T02:00+02:00")]


def test_a_time_that_comes_twice_is_due_once():
    times = cron("30 2 * * *", "Europe/Berlin")
    assert times.upcoming(at("2026-10-25T00:00+02:00"), 2) == [
        at("2026-10-25T02:30+02:00"),
        at("2026-10-26T02:30+01:00"),
    ]
    # asked within the doubled hour's second pass
    assert times.next_due(at("2026-10-25T02:10+01:00")) == at("2026-10-26T02:30+01:00")


def test_every_hour_goes_by_time_passed():
    through = cron("0 * * * *", "Europe/Berlin")
    for start in ("2026-03-28T23:30+01:00", "2026-10-24T23:30+02:00"):
        due = through.upcoming(at(start), 6)
        assert {later - earlier for earlier, later in itertools.pairwise(due)} == {dt.timedelta(hours=1)}


def test_what_was_due_between_two_moments_ends_with_the_second():
    times = cron("0 3 * * *")
    due = times.between(at("2026-01-01T03:00Z"), at("2026-01-04T03:00Z"))
    assert due == [at(f"2026-01-0{day}T03:00Z") for day in (2, 3, 4)]


def test_what_was_missed_in_years_is_counted_only_so_far():
    times = times_of("", LEAST_S, "UTC", NEW_YEAR)
    assert len(times.between(NEW_YEAR, NEW_YEAR.replace(year=2036))) == MOST_COUNTED


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 3 * * *", "At 03:00 every day (Europe/Berlin)"),
        ("15 6 * * 1", "At 06:15 on Monday (Europe/Berlin)"),
    ],
)
def test_cron_in_words(text, words):
    assert cron(text, "Europe/Berlin").in_words() == words


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(21_600, "Every 6 hours"), (90_000, "Every 1 day and 1 hour"), (604_800, "Every 1 week")],
)
def test_interval_in_words(seconds, words):
    assert times_of("", seconds, "UTC", NEW_YEAR).in_words() == words


@pytest.mark.parametrize(
    ("expression", "seconds", "zone", "field", "said"),
    [
        ("0 25 * * *", None, "UTC", "cron", "the hour of '0 25 * * *' is not one"),
        ("0 0 31 4 *", None, "UTC", "cron", "the day of month"),
        ("* * * *", None, "UTC", "cron", "has not these five"),
        ("0 0 3 * * *", None, "UTC", "cron", "has not these five"),
        ("@daily", None, "UTC", "cron", "expected minute, hour"),
        ("*/4 * * * *", None, "UTC", "cron", "at least 5 minutes apart"),
        ("0,58 * * * *", None, "UTC", "cron", "are 2."),
        ("", 299, "UTC", "interval_s", "expected 300 to 31622400 seconds"),
        ("", 10**10, "UTC", "interval_s", "is outside"),
        ("", None, "UTC", "cron", "either a cron expression or an interval"),
        ("0 3 * * *", 3600, "UTC", "cron", "either a cron expression or an interval"),
        ("0 3 * * *", None, "Berlin", "timezone", "did you mean Europe/Berlin"),
        ("0 3 * * *", None, "../../etc/localtime", "timezone", "expected a name such as UTC"),
        ("0 3 * * *", None, "", "timezone", "expected a name such as UTC"),
    ],
)
def test_faults_name_the_field_and_what_was_expected(expression, seconds, zone, field, said):
    with pytest.raises(BadTimes) as caught:
        times_of(expression, seconds, zone, NEW_YEAR)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: expected")
    assert said in caught.value.sentence


@given(st.text("0123456789*/,-L#W mMoOnN", max_size=30))
@settings(max_examples=300, deadline=None)
def test_whatever_is_typed_is_either_understood_or_refused(text):
    try:
        times = cron(text)
    except BadTimes as refused:
        assert refused.field == "cron"
    else:
        first, second = times.upcoming(NEW_YEAR, 2)
        assert second - first >= dt.timedelta(seconds=LEAST_S)
