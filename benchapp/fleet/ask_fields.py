"""The fields of an ask: each is checked by its form alone, so that none can become a command or a path."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import ValidationError

from benchapp.runs import requests
from workers.bench.cases.base import Case
from workers.bench.cases.parse import from_text
from workers.bench.document import GPU_TIMERS, BenchError
from workers.bench.suites import SUITES
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
TIMERS = ("auto", *GPU_TIMERS)
#: The word for whatever release is newest when the work is asked for.
NEWEST = "newest"
MOST_RUNS = 200
MOST_GPUS = 16
MOST_BACKENDS = 20
#: Least and most of each whole number.
BOUNDS = {"time_limit_s": (10, 2 * 24 * 3600), "case_timeout_s": (10, 3600), "processes": (1, 10)}
#: A version of each library, as refusals give an example.
EXAMPLES = {"torch": requests.CPU_TORCH, "flashinfer": "0.6.3", "sgl-kernel": "0.3.21"}
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
_BACKEND = re.compile(r"[a-z0-9_.-]{1,60}")
_ON_GPUS = "gpu:UUID, model:NAME, gpuarch:sm90 or gang:UUID+UUID"
_FORMS = f"cpu, cpu:INSTALLATION, {_ON_GPUS}"


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
        library = self._library(gemm)
        example = EXAMPLES[library if gemm else "flashinfer"]
        versions = self._each(
            "versions", lambda text: _version(text, example), f"a version such as {example}"
        )
        targets = self._each("targets", lambda text: _target(text, what), "where to run")
        if library != "torch" and any(target.partition(":")[0] == "cpu" for target in targets):
            self._faults["targets"] = (
                f"{requests.LIBRARIES[library]} runs on GPUs alone: expected {_ON_GPUS}."
            )
        suite, cases = self._cases(gemm)
        if len(versions) * len(targets) > MOST_RUNS:
            self._faults.setdefault(
                "targets",
                f"{len(versions)} versions on {len(targets)} targets: expected at most {MOST_RUNS} runs.",
            )
        read = {
            "what": what,
            "versions": versions,
            "targets": targets,
            "library": library,
            "suite": suite,
            "cases": cases,
            "time_limit_s": self._number("time_limit_s"),
            "foreign": self._one_of("foreign", FOREIGN),
        } | self._options(gemm, targets)
        if self._faults:
            raise ValidationError(self._faults)
        return read

    def _library(self, gemm: bool) -> str:
        if not gemm:
            if self._word("library") not in ("", "torch"):
                self._faults["library"] = "Expected none: only a benchmark has a library to choose."
            return "torch"
        return self._one_of("library", tuple(requests.LIBRARIES))

    def _cases(self, gemm: bool) -> tuple[str, tuple[str, ...]]:
        suite, cases = self._word("suite"), self._each("cases", _case, None)
        if suite and (not gemm or suite not in SUITES):
            wanted = ", ".join(SUITES) if gemm else "none: only benchmarks have suites"
            self._fault("suite", suite, f"expected {wanted}")
        elif suite and (outside := set(cases) - {str(case) for case in SUITES[suite]}):
            self._fault("cases", min(outside), f"expected cases of the suite {suite}, or no suite")
        if cases and not gemm:
            self._faults["cases"] = "Expected none: only a benchmark has cases to choose."
        elif gemm and not (cases or suite):
            self._faults.setdefault("suite", f"Expected a suite ({', '.join(SUITES)}) or cases.")
        return suite, cases

    def _options(self, gemm: bool, targets: tuple[str, ...]) -> dict[str, Any]:
        """How a benchmark measures."""
        backends = self._each("backends", _backend, None)
        read = {
            "processes": self._number("processes"),
            "case_timeout_s": self._number("case_timeout_s"),
            "timer": self._one_of("timer", TIMERS),
            "backends": backends,
        }
        if len(backends) > MOST_BACKENDS:
            self._faults["backends"] = f"{len(backends)} backends: expected at most {MOST_BACKENDS}."
        if read["timer"] != "auto" and any(target.partition(":")[0] == "cpu" for target in targets):
            self._faults["timer"] = "CPUs have no timer to choose: expected auto, or GPUs alone."
        if not gemm:
            for name, value in read.items():
                if value not in (None, "auto", ()):
                    self._faults[name] = (
                        f"Expected none: only a benchmark has {name.replace('_', ' ')} to choose."
                    )
        return read

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

    def _one_of(self, field: str, known: tuple[str, ...]) -> str:
        """The first where nothing is said."""
        word = self._word(field) or known[0]
        if word not in known:
            self._fault(field, word, f"expected {', '.join(known[:-1])} or {known[-1]}")
            return known[0]
        return word

    def _number(self, field: str) -> int | None:
        value = self._data.get(field)
        if value in (None, ""):
            return None
        least, most = BOUNDS[field]
        digits = isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value.strip())
        number = int(str(value)) if digits else value
        if type(number) is not int or not least <= number <= most:
            what = "seconds" if field.endswith("_s") else field
            self._faults[field] = f"Expected whole {what} from {least:,} to {most:,}."
            return None
        return number


def _version(text: str, example: str) -> str:
    if text.lower() == NEWEST:
        return NEWEST
    try:
        return requests.clean_version(text, candidates=True)
    except ValidationError as error:
        raise ValidationError([said.replace("0.6.3", example) for said in error.messages]) from None


def _case(text: str) -> str:
    try:
        return str(case_of(text))
    except BenchError as error:
        raise ValidationError(error.sentence) from None


def _backend(text: str) -> str:
    if not _BACKEND.fullmatch(text):
        raise ValidationError(
            f"{text[:60]!r} is no backend: expected a name such as torch.mm or flashinfer.mm_fp4.cutlass."
        )
    return text


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
