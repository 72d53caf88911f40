"""When a schedule is due: a cron expression in a named time zone, or an interval. Pure.

Where a clock is put forward, a time that it skips is due when it goes on; where it is put back, a time that
comes twice is due the first time. Expressions whose minutes or hours begin with `*` go by time passed, as
Debian's cron has it. Every moment here has a zone, and those given back are UTC.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import difflib
import functools
import itertools
import zoneinfo
from collections.abc import Iterator

from cronsim import CronSim, CronSimError

#: No schedule is due more often.
LEAST_S = 300
MOST_S = 366 * 86400
#: Missed times are counted this far.
MOST_COUNTED = 100_000
_LONGEST_CRON = 100
_UNITS = (("week", 7 * 86400), ("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1))


class BadTimes(ValueError):
    """`field` is cron, interval_s or timezone; the text says what was expected there."""

    def __init__(self, field: str, sentence: str) -> None:
        super().__init__(f"{field}: {sentence}")
        self.field, self.sentence = field, sentence


@dataclasses.dataclass(frozen=True, slots=True)
class Times:
    """Due times, made by `times_of`. Of `cron` and `interval_s` one is set; intervals count from `anchor`."""

    cron: str
    interval_s: int | None
    zone: zoneinfo.ZoneInfo
    anchor: dt.datetime

    def after(self, moment: dt.datetime) -> Iterator[dt.datetime]:
        """The due times after `moment`, each later than the one before."""
        if self.interval_s is not None:
            interval = dt.timedelta(seconds=self.interval_s)
            passed = (moment - self.anchor) // interval
            for count in itertools.count(max(passed + 1, 1)):
                yield self.anchor.astimezone(dt.UTC) + count * interval
        last = moment
        for local in CronSim(self.cron, moment.astimezone(self.zone)):
            due = local.astimezone(dt.UTC)
            # skipped times fall together, and in a doubled hour the first one may have passed
            if due > last:
                last = due
                yield due

    def next_due(self, moment: dt.datetime) -> dt.datetime | None:
        """The first due time after `moment`; None where none comes within 50 years."""
        return next(self.after(moment), None)

    def upcoming(self, moment: dt.datetime, count: int = 3) -> list[dt.datetime]:
        return list(itertools.islice(self.after(moment), count))

    def between(self, after: dt.datetime, until: dt.datetime) -> list[dt.datetime]:
        """The due times after `after` up to and with `until`, at most MOST_COUNTED of them."""
        due = itertools.takewhile(lambda moment: moment <= until, self.after(after))
        return list(itertools.islice(due, MOST_COUNTED))

    def in_words(self) -> str:
        """ "At 03:00 every day (Europe/Berlin)", "Every 6 hours"."""
        if self.interval_s is not None:
            return f"Every {length(self.interval_s)}"
        return f"{cron_in_words(self.cron)} ({self.zone.key})"


def cron_in_words(cron: str) -> str:
    """Of a valid expression: "At 03:00 every day"."""
    return CronSim(cron, dt.datetime(2026, 1, 1)).explain()


def times_of(cron: str, interval_s: int | None, timezone: str, anchor: dt.datetime) -> Times:
    """Checked due times. Raises BadTimes, naming the field and what was expected there."""
    cron = " ".join(cron.split())
    if bool(cron) == (interval_s is not None):
        raise BadTimes("cron", "expected either a cron expression or an interval.")
    zone = _zone(timezone)
    if interval_s is not None and not LEAST_S <= interval_s <= MOST_S:
        raise BadTimes("interval_s", f"expected {LEAST_S} to {MOST_S} seconds; {interval_s} is outside.")
    times = Times(cron, interval_s, zone, anchor)
    if cron:
        _check_cron(cron)
        if times.next_due(anchor) is None:
            raise BadTimes("cron", f"expected times that come; {cron!r} never does.")
    return times


def _zone(name: str) -> zoneinfo.ZoneInfo:
    names = _zone_names()
    if name not in names:
        ends = {known.rpartition("/")[2].lower(): known for known in sorted(names)}
        near = difflib.get_close_matches(name[:60].lower().replace(" ", "_"), ends, 1)
        hint = f"; did you mean {ends[near[0]]}?" if near else "."
        raise BadTimes(
            "timezone", f"expected a name such as UTC or Europe/Berlin; {name[:60]!r} is none{hint}"
        )
    return zoneinfo.ZoneInfo(name)


@functools.cache
def _zone_names() -> frozenset[str]:
    return frozenset(zoneinfo.available_timezones())


def _check_cron(cron: str) -> None:
    expected = "expected minute, hour, day of month, month and day of week, such as 0 3 * * *"
    if len(cron) > _LONGEST_CRON or len(cron.split()) != 5:
        raise BadTimes("cron", f"{expected}; {cron[:60]!r} has not these five.")
    try:
        parsed = CronSim(cron, dt.datetime(2026, 1, 1))
    except CronSimError as error:
        part = str(error).removeprefix("Bad ").replace("-", " ")
        raise BadTimes("cron", f"{expected}; the {part} of {cron!r} is not one.") from None
    minutes = sorted(parsed.minutes)
    gaps = [later - earlier for earlier, later in itertools.pairwise(minutes)]
    if any((hour + 1) % 24 in parsed.hours for hour in parsed.hours):
        gaps.append(60 - minutes[-1] + minutes[0])
    if gaps and min(gaps) * 60 < LEAST_S:
        raise BadTimes(
            "cron",
            f"expected times at least {LEAST_S // 60} minutes apart; some of {cron!r} are {min(gaps)}.",
        )


def length(seconds: int) -> str:
    """ "6 hours", "1 day and 30 minutes"."""
    parts = []
    for unit, size in _UNITS:
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count} {unit}{'s' if count > 1 else ''}")
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
