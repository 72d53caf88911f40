"""The newest good measurement of series, worked out anew where a run was taken out of ranking or put back."""

from __future__ import annotations

from django.db import connection

from benchapp.runs.models import Latest
from benchapp.runs.ranking import NEVER_RANKS, RANKED_OUTCOMES


def find_good_again(run_id: int) -> int:
    """For each series that a run measured, the newest measurement that may rank; None where none may.

    Returns how many series. Call it in the transaction that changed whether the run may rank.
    """
    with connection.cursor() as cursor:
        cursor.execute("SELECT DISTINCT series_id FROM runs_measurement WHERE run_id = %s", [run_id])
        series = [row[0] for row in cursor.fetchall()]
    # Held before looking: what is stored meanwhile is then either seen below, or comes after and wins.
    locked = Latest.objects.select_for_update().filter(series__in=series).order_by("series")
    series = list(locked.values_list("series", flat=True))
    with connection.cursor() as cursor:
        cursor.execute(
            """
            UPDATE runs_latest SET
                good_measurement_id = good.id, good_measured_at = good.measured_at, good_median = good.median
            FROM unnest(%s::bigint[]) AS touched (series_id)
            LEFT JOIN LATERAL (
                SELECT measurement.id, measurement.measured_at, measurement.median
                FROM runs_measurement AS measurement
                LEFT JOIN runs_run ON runs_run.id = measurement.run_id
                WHERE measurement.series_id = touched.series_id
                    AND measurement.outcome = ANY(%s) AND NOT measurement.flags && %s::varchar[]
                    AND coalesce(runs_run.invalid_reason, '') = ''
                ORDER BY measurement.measured_at DESC, measurement.id DESC
                LIMIT 1
            ) AS good ON true
            WHERE runs_latest.series_id = touched.series_id
            """,
            [series, list(RANKED_OUTCOMES), list(NEVER_RANKS)],
        )
    return len(series)
