"""Numbers with their units, as pages show them. Every filter shows a missing value as an en dash."""

from __future__ import annotations

import datetime as dt
import math
import re

from django import template
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

register = template.Library()

NONE = "–"
#: Between a number and its unit, so that a line never breaks there.
NBSP = "\u00a0"


def _digits(value: float, significant: int = 3) -> str:
    """`value` with so many significant digits, never in scientific notation, thousands separated."""
    if value == 0:
        return "0"
    rounded = float(f"{value:.{significant - 1}e}")
    decimals = max(0, significant - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value if decimals == 0 else rounded:,.{decimals}f}"


def _usable(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


@register.filter
def si_time(value: object) -> str:
    """Seconds as ns, µs, ms or s with three significant digits."""
    seconds = _usable(value)
    if seconds is None:
        return NONE
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= size * 0.9995:
            return f"{_digits(seconds / size)}{NBSP}{unit}"
    return f"{_digits(seconds / 1e-9)}{NBSP}ns"


@register.filter
def byte_count(value: object) -> str:
    """Bytes, exact: 101,376 B."""
    number = _usable(value)
    return NONE if number is None else f"{number:,.0f}{NBSP}B"


@register.filter
def byte_size(value: object) -> str:
    """Bytes, rounded to a binary unit: 1.2 MiB."""
    number = _usable(value)
    if number is None:
        return NONE
    if abs(number) < 1023.5:
        return f"{number:,.0f}{NBSP}B"
    for unit in ("KiB", "MiB", "GiB"):
        number /= 1024
        if abs(number) < 1023.5:
            return f"{_digits(number)}{NBSP}{unit}"
    return f"{_digits(number / 1024)}{NBSP}TiB"


@register.filter
def tflops(value: object) -> str:
    """FLOP/s as TFLOP/s, or GFLOP/s below a tenth of one."""
    rate = _usable(value)
    if rate is None:
        return NONE
    if abs(rate) < 1e11:
        return f"{_digits(rate / 1e9)}{NBSP}GFLOP/s"
    return f"{_digits(rate / 1e12)}{NBSP}TFLOP/s"


@register.filter
def percent(value: object) -> str:
    """A fraction as a percentage with three significant digits: 0.645 is 64.5 %."""
    fraction = _usable(value)
    return NONE if fraction is None else f"{_digits(fraction * 100)}{NBSP}%"


@register.filter
def count(value: object) -> str:
    """A count with thousands separators."""
    number = _usable(value)
    return NONE if number is None else f"{number:,.0f}"


def age_words(at: dt.datetime, now: dt.datetime) -> str:
    """How long ago, in its largest whole unit. `static/js/frame.js` says the same words."""
    seconds = (now - at).total_seconds()
    if seconds < -5:
        return "in the future"
    if seconds < 10:
        return "just now"
    for unit, size, limit in (("s", 1, 60), ("min", 60, 3600), ("h", 3600, 86400)):
        if seconds < limit:
            return f"{int(seconds // size)} {unit} ago"
    return f"{int(seconds // 86400)} d ago"


@register.filter
def age(value: object) -> str | SafeString:
    """“2 h ago”, with the exact time in UTC as its title; kept current by frame.js."""
    if not isinstance(value, dt.datetime):
        return NONE
    utc = value.astimezone(dt.UTC)
    return format_html(
        '<time data-age datetime="{}" title="{}">{}</time>',
        utc.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{utc:%Y-%m-%d %H:%M:%S} UTC",
        age_words(utc, timezone.now()),
    )


@register.filter
def utc(value: object) -> str | SafeString:
    """Date and time in UTC to the minute."""
    if not isinstance(value, dt.datetime):
        return NONE
    at = value.astimezone(dt.UTC)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        f"{at:%Y-%m-%d %H:%M:%S} UTC",
        f"{at:%Y-%m-%d %H:%M} UTC",
    )


@register.filter
def duration(value: object) -> str:
    """A timedelta or seconds of work: 0.4 s, 42 s, 3 min 05 s, 2 h 10 min, 3 d 4 h."""
    seconds = value.total_seconds() if isinstance(value, dt.timedelta) else _usable(value)
    if seconds is None:
        return NONE
    if seconds < 10:
        return f"{max(seconds, 0):.1f}{NBSP}s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole}{NBSP}s"
    if whole < 3600:
        return f"{whole // 60}{NBSP}min{NBSP}{whole % 60:02d}{NBSP}s"
    if whole < 86400:
        return f"{whole // 3600}{NBSP}h{NBSP}{whole % 3600 // 60:02d}{NBSP}min"
    return f"{whole // 86400}{NBSP}d{NBSP}{whole % 86400 // 3600}{NBSP}h"


@register.filter
def span(start: object, end: object) -> str:
    """Time from `start` to `end`, or until now where it has not ended."""
    if not isinstance(start, dt.datetime):
        return NONE
    return duration((end if isinstance(end, dt.datetime) else timezone.now()) - start)


@register.filter
def between(value: tuple[object, object]) -> str:
    """(least, most) as a count or a span of counts: 2, or 2–4."""
    return "–".join(dict.fromkeys(count(end) for end in value))


@register.filter
def small_ratio(value: object) -> str:
    """A ratio far below one, such as a relative error: 2.5e-3."""
    ratio = _usable(value)
    if ratio is None:
        return NONE
    if ratio == 0:
        return "0"
    mantissa, exponent = f"{ratio:.1e}".split("e")
    return f"{mantissa}e{int(exponent)}"


@register.filter
def words(value: str) -> str:
    """A name of the code for people: few_samples is “few samples”."""
    return value.replace("_", " ")


def operand_types(inputs: str) -> list[str]:
    """The types of A and B: ["mxfp8", "mxfp4"] of mxfp8xmxfp4."""
    return re.split(r"(?<=\d)x", inputs)  # mxfp8 has an x of its own


@register.filter
def operands(inputs: str) -> str:
    """Input types as people write them: MXFP8 × MXFP4."""
    return " × ".join(operand_types(inputs)).upper()


#: What the last word of a figure's name says about its unit.
SUFFIXES = {"seconds": duration, "bytes": byte_size}


@register.filter
def quantity_name(name: str) -> str:
    """The name of a figure for people: cpu_seconds is “CPU time”, cached_units “cached units”."""
    *first, last = name.split("_")
    last = {"seconds": "time", "bytes": "size"}.get(last, last)
    return " ".join("CPU" if word == "cpu" else word for word in [*first, last])


@register.filter
def quantity(value: object, name: str) -> str:
    """The value of a figure, in the unit that its name ends with."""
    return SUFFIXES.get(name.rsplit("_", 1)[-1], count)(value)
