"""AIPerf's records, one JSON line a request (profile_export.jsonl), into what the document holds. Pure."""

from __future__ import annotations

import dataclasses
import json
import math
from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from workers.bench.document import BenchError, Percentiles, Serving

_SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0, "s": 1.0}
_MEANT = {
    "TimeoutError": "timeout",
    "ServerTimeoutError": "timeout",
    "SocketTimeoutError": "timeout",
    "ConnectionTimeoutError": "timeout",
    "ClientConnectorError": "connection",
    "ClientConnectorDNSError": "connection",
    "ClientConnectorCertificateError": "connection",
    "ClientConnectorSSLError": "connection",
    "ServerDisconnectedError": "connection",
    "ClientOSError": "connection",
    "ConnectionResetError": "connection",
    "ClientPayloadError": "cut",
    "InvalidInferenceResultError": "garbage",
    "RequestCancellationError": "cancelled",
}
#: Tokens in one piece of a stream, on average, above which there is no saying how long one takes.
MOST_IN_A_PIECE = 64
#: of a window or a latency, as documents take them; longer ones are faults of a clock
LONGEST_S = 1e7
#: What each kind means, for people.
KINDS = {
    "timeout": "took longer than a request may",
    "connection": "no connection, or one that broke before the answer",
    "cut": "the stream ended before the server told how many tokens it made",
    "garbage": "no token in what came",
    "short": "fewer tokens than asked for",
    "long": "more tokens than asked for",
    "not_streamed": "tokens in one piece or a few: there is no time between them",
    "cancelled": "broken off at the end of the case's time",
    "other": "another error",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Record:
    """One request, times in seconds. `fault` is "" of one that ended well; the others have no times."""

    started_ns: int
    ended_ns: int
    fault: str = ""
    #: what AIPerf says of a fault
    said: str = ""
    ttft: float = 0.0
    latency: float = 0.0
    #: between pieces of the stream
    itl: Sequence[float] = ()
    input_tokens: int = 0
    output_tokens: int = 0

    @property
    def tpot(self) -> float:
        """Per output token after the first."""
        return (self.latency - self.ttft) / (self.output_tokens - 1)


def records(lines: Iterable[str], output: int) -> list[Record]:
    """Of the requests that count, not of the warm-up, in the order in which they were sent.

    `output` tokens were asked for. A line that is no record is passed over: AIPerf may have been ended
    while it wrote. Raises BenchError where times come in a unit unknown here.
    """
    found = []
    for line in lines:
        try:
            told = json.loads(line)
        except (ValueError, RecursionError):
            continue
        record = _record(told, output) if isinstance(told, Mapping) else None
        if record is not None:
            found.append(record)
    found.sort(key=lambda record: record.started_ns)
    return found


def _record(told: Mapping[str, Any], output: int) -> Record | None:
    about, metrics = told.get("metadata"), told.get("metrics")
    if not isinstance(about, Mapping) or not isinstance(metrics, Mapping):
        return None
    if about.get("benchmark_phase") != "profiling":
        return None
    started, ended = about.get("request_start_ns"), about.get("request_end_ns")
    if type(started) is not int or type(ended) is not int:
        return None
    error = told.get("error")
    if error or about.get("was_cancelled"):
        return Record(started, ended, *_fault(error if isinstance(error, Mapping) else {}))
    ttft, latency = _seconds(metrics, "time_to_first_token"), _seconds(metrics, "request_latency")
    itl = _seconds_each(metrics, "inter_chunk_latency")
    made, taken = _count(metrics, "usage_completion_tokens"), _count(metrics, "usage_prompt_tokens")
    if ttft is None or latency is None:
        fault = "garbage"
    elif made is None or taken is None:
        fault = "cut"
    elif made != output:
        fault = "short" if made < output else "long"
    elif not itl or latency <= ttft or made > MOST_IN_A_PIECE * (len(itl) + 1):
        fault = "not_streamed"
    else:
        return Record(started, ended, "", "", ttft, latency, itl, taken, made)
    return Record(started, ended, fault, KINDS[fault])


def _fault(error: Mapping[str, Any]) -> tuple[str, str]:
    """(kind, what AIPerf says) of a request that it calls failed."""
    code, kind = error.get("code"), str(error.get("type", ""))
    said = " ".join(str(error.get("message") or kind or "cancelled").split())[:300]
    if type(code) is int and 300 <= code <= 599:
        return f"http_{code}", said
    if not error:
        return "cancelled", said
    return _MEANT.get(kind, "other"), said


def _metric(metrics: Mapping[str, Any], name: str) -> tuple[Any, str]:
    found = metrics.get(name)
    return (found.get("value"), str(found.get("unit"))) if isinstance(found, Mapping) else (None, "")


def _seconds(metrics: Mapping[str, Any], name: str) -> float | None:
    value, unit = _metric(metrics, name)
    if type(value) not in (int, float):
        return None
    seconds = float(value) * _scale(name, unit)
    return seconds if 0 < seconds <= LONGEST_S else None


def _seconds_each(metrics: Mapping[str, Any], name: str) -> array[float]:
    values, unit = _metric(metrics, name)
    if not isinstance(values, list) or not values:
        return array("d")
    scale = _scale(name, unit)
    numbers = array("d", (float(v) * scale for v in values if type(v) in (int, float)))
    return numbers if all(0 <= v <= LONGEST_S for v in numbers) else array("d")


def _scale(name: str, unit: str) -> float:
    if unit not in _SECONDS:
        raise BenchError(
            "aiperf_export", f"AIPerf's export tells {name} in {unit[:20]!r}: expected {', '.join(_SECONDS)}."
        )
    return _SECONDS[unit]


def _count(metrics: Mapping[str, Any], name: str) -> int | None:
    value, _ = _metric(metrics, name)
    if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value < 2**40:
        return None
    return int(value)


def percentiles(values: Iterable[float]) -> Percentiles | None:
    """Interpolated linearly between values; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        # never outside of its two neighbours, however it is rounded
        between = ordered[low] + (ordered[high] - ordered[low]) * (place - low)
        return min(max(between, ordered[low]), ordered[high])

    mean = math.fsum(ordered) / len(ordered)
    return Percentiles(len(ordered), mean, at(0.5), at(0.9), at(0.95), at(0.99))


def serving(
    found: Sequence[Record], *, stack_by: Literal["told", "stated"], gpus: int | None
) -> Serving | None:
    """What the document holds of a case's requests; None where none was sent. Raises BenchError where clocks
    tell of no window.

    The window runs from the first request to the end of the last, of those that went wrong too.
    """
    if not found:
        return None
    good = [record for record in found if not record.fault]
    window = (max(record.ended_ns for record in found) - min(record.started_ns for record in found)) / 1e9
    if window > LONGEST_S or (good and window <= 0):
        raise BenchError(
            "aiperf_export",
            f"AIPerf's export tells of a window of {window:,.0f} s: expected more than 0, and at most"
            f" {LONGEST_S:,.0f}.",
        )
    return Serving(
        sent=len(found),
        completed=len(good),
        window_s=max(window, 1e-9),
        input_tokens=sum(record.input_tokens for record in good),
        output_tokens=sum(record.output_tokens for record in good),
        counted_by="server",
        stack_by=stack_by,
        errors=dict(sorted(Counter(record.fault for record in found if record.fault).items())),
        ttft=percentiles(record.ttft for record in good),
        tpot=percentiles(record.tpot for record in good),
        itl=percentiles(pause for record in good for pause in record.itl),
        latency=percentiles(record.latency for record in good),
        gpus=gpus,
    )


Ending = Literal["timeout", "init_failed", "crashed"]


def without_any(found: Sequence[Record]) -> tuple[Ending, str]:
    """(outcome, sentence) of a case none of whose requests ended well."""
    kinds = Counter(record.fault for record in found)
    outcome: Ending = "crashed"
    if kinds.keys() <= {"timeout", "cancelled"}:
        outcome = "timeout"
    elif kinds.keys() <= {"connection"}:
        outcome = "init_failed"
    counted = ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())
    first = next((record.said for record in found if record.said), "")
    return outcome, f"None of {len(found):,} requests ended well: {counted}." + (
        f" The first: {first.rstrip('.')}." if first else ""
    )


def pieces(found: Sequence[Record]) -> float | None:
    """Tokens in one piece of the stream, on average over the requests that ended well."""
    good = [record for record in found if not record.fault]
    if not good:
        return None
    return sum(record.output_tokens for record in good) / sum(len(record.itl) + 1 for record in good)
