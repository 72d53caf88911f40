"""One measurement of those that several fresh processes brought of the same case and backend. Pure."""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterable, Sequence

from workers.bench import timing
from workers.bench.document import SAMPLE_CAP, Correctness, Measurement, Readings, Statistics


def pool(taken: Sequence[Measurement]) -> Measurement:
    """The samples of all, and the medians of each process.

    One failure or wrong result among them is the outcome. Each process brings equally many samples at most,
    so that none outweighs another. Those by another timer than the first's are left out: they do not compare.
    """
    bad = next((each for each in taken if not each.samples), None)
    if len(taken) == 1 or bad is not None:
        chosen = taken[0] if bad is None else bad
        if len(taken) > 1 and not all(each.outcome == chosen.outcome for each in taken):
            said = f"in one of {len(taken)} processes: {chosen.error or chosen.outcome}"
            return dataclasses.replace(chosen, error=said)
        return chosen
    alike = [each for each in taken if each.timer == taken[0].timer and each.l2_policy == taken[0].l2_policy]
    samples = [sample for each in alike for sample in timing.thinned(each.samples, SAMPLE_CAP // len(alike))]
    hosts = [each.host_time for each in alike if each.host_time is not None]
    worst = next((each for each in alike if each.outcome != "ok"), alike[0])
    flags = dict.fromkeys(flag for each in alike for flag in each.flags if flag != "few_samples")
    return dataclasses.replace(
        worst,
        measured_at=min(each.measured_at for each in alike),
        samples=tuple(samples),
        discarded=sum(each.discarded for each in alike),
        process_medians=tuple(each.statistics.median for each in alike if each.statistics is not None),
        process_host_medians=tuple(host.median for host in hosts),
        statistics=timing.summarise(samples),
        host_time=_middle(hosts),
        kernel=next((each.kernel for each in alike if each.kernel is not None), None),
        correctness=_worst(each.correctness for each in alike),
        readings=_together([each.readings for each in alike if each.readings is not None]),
        flags=(*flags, *(("few_samples",) if timing.is_short(samples) else ())),
    )


def _middle(hosts: Sequence[Statistics]) -> Statistics | None:
    """Medians over the processes of each figure, but the least minimum; None of none.

    Order statistics keep their order, since each figure's median keeps it.
    """
    if not hosts:
        return None
    return Statistics(
        n=sum(host.n for host in hosts),
        median=statistics.median(host.median for host in hosts),
        q1=statistics.median(host.q1 for host in hosts),
        q3=statistics.median(host.q3 for host in hosts),
        min=min(host.min for host in hosts),
    )


def _worst(found: Iterable[Correctness | None]) -> Correctness | None:
    """The check that was furthest from right."""
    there = [each for each in found if each is not None]
    return max(there, key=lambda each: (each.nan_count, -each.cosine, each.max_relative_error), default=None)


def _together(readings: Sequence[Readings]) -> Readings | None:
    if not readings:
        return None

    def known(name: str) -> list[float]:
        return [value for each in readings if (value := getattr(each, name)) is not None]

    def middle(name: str) -> float | None:
        values = known(name)
        return statistics.median(values) if values else None

    return Readings(
        sm_clock_mhz_min=min(known("sm_clock_mhz_min"), default=None),
        sm_clock_mhz_median=middle("sm_clock_mhz_median"),
        sm_clock_mhz_max=max(known("sm_clock_mhz_max"), default=None),
        power_w=middle("power_w"),
        temperature_c=middle("temperature_c"),
        throttle_reasons=tuple(dict.fromkeys(name for each in readings for name in each.throttle_reasons)),
    )
