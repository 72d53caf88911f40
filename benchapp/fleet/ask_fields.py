"""The fields of an ask: each is checked by its form alone, so that none can become a command or a path."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Any

from django.core.exceptions import ValidationError

from benchapp.fleet import model_asks
from benchapp.fleet.ask_kinds import LIBRARIES_OF, MEASURED, OPTIONS_OF, SUITES_OF, WHAT
from benchapp.fleet.targets import ON_GPUS, clean_target, gpus_of
from benchapp.runs import requests
from workers.bench.cases.base import Case
from workers.bench.cases.model import MAX_CONTEXT, MAX_RANKS
from workers.bench.cases.parse import from_text
from workers.bench.document import GPU_TIMERS, BenchError

FOREIGN = ("refuse", "flag")
TIMERS = ("auto", *GPU_TIMERS)
#: The word for whatever release is newest when the work is asked for.
NEWEST = "newest"
MOST_RUNS = 200
MOST_BACKENDS = 20
#: Least and most of each whole number.
BOUNDS = {
    "time_limit_s": (10, 2 * 24 * 3600),
    "case_timeout_s": (10, 3600),
    "processes": (1, 10),
    "batches": (1, 65_536),
    "contexts": (1, MAX_CONTEXT),
    "tp": (1, MAX_RANKS),
    "ep": (1, MAX_RANKS),
    "layers": (1, 1000),
}
#: A version of each library, as refusals give an example.
EXAMPLES = {"torch": requests.CPU_TORCH, "flashinfer": "0.6.3", "sgl-kernel": "0.3.21"}
#: Longest word of an ask: a gang of many GPUs.
LONGEST = 1200
_BACKEND = re.compile(r"[a-z0-9_.+-]{1,60}")


def read(data: object) -> dict[str, Any]:
    """The fields of `asks.Ask`. Raises ValidationError, {field: sentence}."""
    if not isinstance(data, Mapping):
        raise ValidationError({"what": "Expected an object that says what to ask for."})
    return _Reader(data).fields()


def case_of(text: str) -> Case:
    """The case of "MxNxK:dtype" or "kind:name=value,…". Raises BenchError."""
    return from_text(text)


def chosen(
    suite: str, cases: tuple[str, ...], choice: model_asks.Choice, what: str = "moe"
) -> tuple[Case, ...]:
    """The cases of an ask: those of the choice, then those named; all of the suite where neither is there.
    Raises ValidationError, {field: sentence}."""
    found = [*(choice.cases() if choice.models else ()), *(case_of(text) for text in cases)]
    return tuple(dict.fromkeys(found)) or SUITES_OF.get(what, {}).get(suite, ())


def size_of(data: Mapping[str, Any]) -> int:
    """GPUs that the cases of whole models take together, as far as they can be read; else 1."""
    return _Reader(data).size()


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
        library = self._library(what)
        example = EXAMPLES[library if what in MEASURED else "flashinfer"]
        versions = self._each(
            "versions", lambda text: _version(text, example), f"a version such as {example}"
        )
        targets = self._each("targets", lambda text: clean_target(text, what), "where to run")
        if library != "torch" and any(target.partition(":")[0] == "cpu" for target in targets):
            self._faults["targets"] = f"{requests.LIBRARIES[library]} runs on GPUs alone: expected {ON_GPUS}."
        measured = self._cases(what, targets)
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
            "time_limit_s": self._number("time_limit_s"),
            "foreign": self._one_of("foreign", FOREIGN),
        }
        read |= measured | self._options(what, targets)
        if self._faults:
            raise ValidationError(self._faults)
        return read

    def _library(self, what: str) -> str:
        if what in MEASURED:
            return self._one_of("library", LIBRARIES_OF[what])
        if self._word("library") not in ("", "torch"):
            self._faults["library"] = "Expected none: only a benchmark has a library to choose."
        return "torch"

    def _cases(self, what: str, targets: tuple[str, ...]) -> dict[str, Any]:
        """What is measured: a suite or some of its cases, or cases by themselves, or a choice of models."""
        suite, cases = self._word("suite"), self._each("cases", lambda text: _case(text, what), None)
        suites = SUITES_OF.get(what, {})
        if suite and suite not in suites:
            wanted = ", ".join(suites) if suites else "none: only benchmarks have suites"
            self._fault("suite", suite, f"expected {wanted}")
        elif suite and (outside := set(cases) - {str(case) for case in suites[suite]}):
            self._fault("cases", min(outside), f"expected cases of the suite {suite}, or no suite")
        choice = self._choice(what, suite)
        if cases and what not in MEASURED:
            self._faults["cases"] = "Expected none: only a benchmark has cases to choose."
        elif what in MEASURED and not (cases or suite or choice.models):
            instead = "cases, or models" if what == "moe" else "cases"
            self._faults.setdefault("suite", f"Expected a suite ({', '.join(suites)}) or {instead}.")
        if what == "moe" and not self._faults:
            self._sizes(suite, cases, choice, targets)
        return {"suite": suite, "cases": cases} | dataclasses.asdict(choice)

    def _choice(self, what: str, suite: str) -> model_asks.Choice:
        choice = model_asks.Choice(
            models=self._each("models", _model, None),
            batches=self._numbers("batches"),
            phases=self._each("phases", _phase, None),
            contexts=self._numbers("contexts"),
            tp=self._number("tp", usual=1),
            ep=self._number("ep", usual=1),
            layers=self._number("layers"),
        )
        for name, value in dataclasses.asdict(choice).items():
            if not value:
                continue
            if what != "moe":
                self._faults[name] = f"Expected none: only {WHAT['moe']} has {name} to choose."
            elif suite:
                self._faults[name] = f"Expected none: the suite {suite} says what is measured."
            elif not choice.models:
                self._faults.setdefault("models", f"Expected models: {name} are of those.")
        return choice

    def size(self) -> int:
        """See `size_of`."""
        suite, cases = self._word("suite"), self._each("cases", lambda text: _case(text, "moe"), None)
        choice = self._choice("moe", suite)
        try:
            return requests.gang_size(chosen(suite, cases, choice))
        except ValidationError:
            return (choice.tp or 1) * (choice.ep or 1)

    def _sizes(
        self, suite: str, cases: tuple[str, ...], choice: model_asks.Choice, targets: tuple[str, ...]
    ) -> None:
        """Every case takes one number of GPUs, and each target of GPUs has as many."""
        try:
            size = requests.gang_size(chosen(suite, cases, choice))
        except ValidationError as error:
            self._faults |= {field: " ".join(said) for field, said in error.message_dict.items()}
            return
        for target in targets:
            there = gpus_of(target)
            if there not in (None, size):
                wanted = "gpu:UUID, model:NAME or gpuarch:sm90"
                if size > 1:
                    wanted = f"gang:UUID+UUID… of {size} GPUs of one host"
                self._fault(
                    "targets",
                    target,
                    f"these cases take {size} GPU{'s' * (size > 1)} (tp × ep), and this is {there}; "
                    f"expected {wanted}",
                )

    def _options(self, what: str, targets: tuple[str, ...]) -> dict[str, Any]:
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
        for name, value in read.items():
            if value not in (None, "auto", ()) and name not in OPTIONS_OF.get(what, ()):
                whose = "a GEMM benchmark" if what in MEASURED else "a benchmark"
                self._faults[name] = f"Expected none: only {whose} has {name.replace('_', ' ')} to choose."
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

    def _numbers(self, field: str) -> tuple[int, ...]:
        """Each whole number of a list, ascending, without repeats."""
        value = self._data.get(field) or ()
        values = value if isinstance(value, list | tuple) else (value,)
        if len(values) > MOST_RUNS:
            self._fault(field, len(values), f"expected at most {MOST_RUNS}")
            return ()
        found = {self._whole(field, each) for each in values}
        return tuple(sorted(each for each in found if each is not None))

    def _number(self, field: str, usual: int | None = None) -> int | None:
        """None where nothing is said, or what is usual."""
        number = self._whole(field, self._data.get(field))
        return None if number == usual else number

    def _whole(self, field: str, value: Any) -> int | None:
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


def _case(text: str, what: str) -> str:
    try:
        case = case_of(text)
    except BenchError as error:
        raise ValidationError(error.sentence) from None
    if what == "gemm" and not requests.is_kernel(case):
        raise ValidationError(
            f"{text[:60]!r} is no kernel: whole models and collectives are asked for as {WHAT['moe']}."
        )
    return str(case)


def _model(text: str) -> str:
    if text not in model_asks.names():
        raise ValidationError(
            f"{text[:60]!r} is no model known here: expected {', '.join(model_asks.names())}."
        )
    return text


def _phase(text: str) -> str:
    if text not in model_asks.PHASES:
        raise ValidationError(f"{text[:60]!r} is no phase: expected {' or '.join(model_asks.PHASES)}.")
    return text


def _backend(text: str) -> str:
    if not _BACKEND.fullmatch(text):
        raise ValidationError(
            f"{text[:60]!r} is no backend: expected a name such as torch.mm, flashinfer.mm_fp4.cutlass or "
            "flashinfer+triton.fused_experts."
        )
    return text
