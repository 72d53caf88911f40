"""The fields of an ask: each is checked by its form alone, so that none can become a command or a path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import ValidationError

from benchapp.runs import requests
from workers.bench.cases.base import Case
from workers.bench.cases.parse import from_text
from workers.bench.document import BenchError
from workers.bench.gemm.suites import SUITES
from workers.bench.tiles.arches import ARCHES
from workers.bench.tiles.explorer.space import ARCHES as EXPLORED_ARCHES

WHAT = {
    "survey": "Tile survey",
    "full": "Full compile of the tiles that fit",
    "explore": "Exploration of tiles that no release ships",
    "rescue": "Stage rescues of tiles that overflow",
    "gemm": "GEMM benchmark",
}
#: Done by the explorer, which knows fewer architectures.
EXPLORED = ("explore", "rescue")
FOREIGN = ("refuse", "flag")
#: The word for whatever release is newest when the work is asked for.
NEWEST = "newest"
MOST_RUNS = 200
MOST_GPUS = 16
TIME_LIMITS_S = (10, 2 * 24 * 3600)
#: Longest word of an ask: a gang of many GPUs.
LONGEST = 1200
_UUID = r"(?:GPU|MIG)-[0-9A-Za-z-]{1,60}"
_TARGETS = {
    "cpu": re.compile(r"[0-9A-Za-z_-]{1,16}"),
    "gpu": re.compile(_UUID),
    "model": re.compile(r"[a-z0-9-]{1,60}"),
    "gpuarch": re.compile(r"[a-z0-9_]{1,20}"),
    "gang": re.compile(rf"{_UUID}(?:[+ ]{_UUID})+"),
}
_FORMS = "cpu, cpu:INSTALLATION, gpu:UUID, model:NAME, gpuarch:sm90 or gang:UUID+UUID"


def read(data: object) -> dict[str, Any]:
    """The fields of `asks.Ask`. Raises ValidationError, {field: sentence}."""
    if not isinstance(data, Mapping):
        raise ValidationError({"what": "Expected an object that says what to ask for."})
    return _Reader(data).fields()


def case_of(text: str) -> Case:
    """The case of "MxNxK:dtype" or "kind:name=value,…". Raises BenchError."""
    return from_text(text)


class _Reader:
    """Reads the fields of one ask and gathers what is wrong with them."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._faults: dict[str, str] = {}

    def fields(self) -> dict[str, Any]:
        what = self._word("what")
        if what not in WHAT:
            self._fault("what", what, f"expected {', '.join(WHAT)}")
            raise ValidationError(self._faults)
        gemm = what == "gemm"
        versions = self._each("versions", _version if not gemm else _torch, "a version such as 0.6.3")
        targets = self._each("targets", lambda text: _target(text, what), "where to run")
        suite, cases = self._word("suite"), self._each("cases", _shape, None)
        if suite and (not gemm or suite not in SUITES):
            wanted = ", ".join(SUITES) if gemm else "none: only benchmarks have suites"
            self._fault("suite", suite, f"expected {wanted}")
        elif suite and (outside := set(cases) - {str(case) for case in SUITES[suite]}):
            self._fault("cases", min(outside), f"expected cases of the suite {suite}, or no suite")
        if cases and not gemm:
            self._faults["cases"] = "Expected none: only a benchmark has cases to choose."
        elif gemm and not (cases or suite):
            self._faults.setdefault("suite", f"Expected a suite ({', '.join(SUITES)}) or cases.")
        if len(versions) * len(targets) > MOST_RUNS:
            self._faults.setdefault(
                "targets",
                f"{len(versions)} versions on {len(targets)} targets: expected at most {MOST_RUNS} runs.",
            )
        foreign = self._word("foreign") or "refuse"
        if foreign not in FOREIGN:
            self._fault("foreign", foreign, f"expected {' or '.join(FOREIGN)}")
        time_limit_s = self._time_limit()
        if self._faults:
            raise ValidationError(self._faults)
        return {
            "what": what,
            "versions": versions,
            "targets": targets,
            "suite": suite,
            "cases": cases,
            "time_limit_s": time_limit_s,
            "foreign": foreign,
        }

    def _fault(self, field: str, value: object, expected: str) -> None:
        self._faults.setdefault(field, f"{str(value)[:60]!r} cannot be asked for: {expected}.")

    def _word(self, field: str) -> str:
        value = self._data.get(field)
        if value is not None and not isinstance(value, str):
            self._fault(field, type(value).__name__, "expected one word")
            return ""
        return (value or "").strip()

    def _each(self, field: str, clean_one: Callable[[str], str], needed: str | None) -> tuple[str, ...]:
        """Each value of a list, cleaned, without repeats; `needed` says what was expected of an empty one."""
        value = self._data.get(field) or ()
        values = (value,) if isinstance(value, str) else value
        if not isinstance(values, list | tuple) or len(values) > MOST_RUNS:
            self._fault(field, type(value).__name__, f"expected a list of at most {MOST_RUNS}")
            return ()
        cleaned: dict[str, None] = {}
        for item in values:
            try:
                if not isinstance(item, str) or len(item) > LONGEST:
                    raise ValidationError("Expected short words.")
                cleaned[clean_one(item.strip())] = None
            except ValidationError as error:
                self._faults.setdefault(field, " ".join(error.messages))
        if needed and not cleaned:
            self._faults.setdefault(field, f"Expected {needed}.")
        return tuple(cleaned)

    def _time_limit(self) -> int | None:
        value = self._data.get("time_limit_s")
        if value in (None, ""):
            return None
        least, most = TIME_LIMITS_S
        digits = isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip())
        number = int(str(value)) if digits else value
        if type(number) is not int or not least <= number <= most:
            self._faults["time_limit_s"] = f"Expected whole seconds from {least:,} to {most:,}."
            return None
        return number


def _version(text: str) -> str:
    return NEWEST if text.lower() == NEWEST else requests.clean_version(text, candidates=True)


def _torch(text: str) -> str:
    try:
        return _version(text)
    except ValidationError as error:
        raise ValidationError(
            [said.replace("0.6.3", requests.CPU_TORCH) for said in error.messages]
        ) from None


def _shape(text: str) -> str:
    try:
        return str(case_of(text))
    except BenchError as error:
        raise ValidationError(error.sentence) from None


def _target(text: str, what: str) -> str:
    kind, _, which = text.partition(":")
    if what != "gemm":
        known = EXPLORED_ARCHES if what in EXPLORED else tuple(ARCHES)
        if kind != "arch" or which not in known:
            expected = ", ".join(f"arch:{arch}" for arch in known)
            raise ValidationError(f"{text[:60]!r} is no target here: expected {expected}.")
        return text
    if text == "cpu":
        return text
    if kind not in _TARGETS or not _TARGETS[kind].fullmatch(which):
        raise ValidationError(f"{text[:60]!r} is no target of a benchmark: expected {_FORMS}.")
    if kind != "gang":
        return text
    gang = sorted(set(re.split(r"[+ ]", which)))
    if not 2 <= len(gang) <= MOST_GPUS:
        raise ValidationError(f"{text[:60]!r} is no gang: expected 2 to {MOST_GPUS} different GPUs.")
    return f"gang:{'+'.join(gang)}"
