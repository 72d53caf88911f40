import datetime as dt

import pytest
from django.utils import timezone

from benchapp.web.templatetags import units


def plain(text: str) -> str:
    return text.replace(units.NBSP, " ")


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0 ns"), (6.3e-10, "0.630 ns"), (9.9996e-7, "1.00 µs"), (6.3e-7, "630 ns"), (1.584e-3, "1.58 ms"),
        (12.34, "12.3 s"), (4321.0, "4,321 s"), (None, "–"), (float("nan"), "–"), ("x", "–"), (True, "–"),
    ],
)  # fmt: skip
def test_times_are_three_digits_in_the_unit_that_fits(seconds, shown):
    assert plain(units.si_time(seconds)) == shown


def test_bytes_are_exact_where_a_limit_is_meant_and_rounded_where_a_size_is():
    assert plain(units.byte_count(101376)) == "101,376 B"
    assert plain(units.byte_size(1023)) == "1,023 B"
    assert plain(units.byte_size(123456789)) == "118 MiB"
    assert plain(units.byte_size(5 * 2**40)) == "5.00 TiB"


def test_rates_and_shares():
    assert plain(units.tflops(1.3e15)) == "1,300 TFLOP/s"
    assert plain(units.tflops(0.8e12)) == "0.800 TFLOP/s"
    assert plain(units.tflops(9.87e9)) == "9.87 GFLOP/s"
    assert plain(units.percent(0.645)) == "64.5 %"
    assert units.small_ratio(2.47e-3) == "2.5e-3"
    assert (units.between((2, 2)), units.between((1024, 4096))) == ("2", "1,024–4,096")
    assert units.count(1234567) == "1,234,567"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-60, "in the future"),
        (3, "just now"),
        (59, "59 s ago"),
        (61, "1 min ago"),
        (7300, "2 h ago"),
        (86400 * 3, "3 d ago"),
    ],
)
def test_ages(seconds, words):
    now = timezone.now()
    assert units.age_words(now - dt.timedelta(seconds=seconds), now) == words


def test_an_age_carries_the_exact_time_in_utc():
    at = dt.datetime(2026, 11, 29, 3, 10, 5, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert 'datetime="2026-11-29T01:10:05.000Z" title="2026-11-29 01:10:05 UTC"' in units.age(at)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0.42, "0.4 s"),
        (59.7, "1 min 00 s"),
        (185, "3 min 05 s"),
        (7800, "2 h 10 min"),
        (3.2 * 86400, "3 d 4 h"),
        (None, "–"),
    ],
)
def test_durations(seconds, shown):
    assert plain(units.duration(seconds)) == shown


def test_names_of_figures():
    assert units.quantity_name("cpu_seconds") == "CPU time"
    assert plain(units.quantity(412.5, "cpu_seconds")) == "6 min 52 s"
    assert units.operands("nvfp4xnvfp4") == "NVFP4 × NVFP4"
    assert units.operands("mxfp8xmxfp4") == "MXFP8 × MXFP4"
