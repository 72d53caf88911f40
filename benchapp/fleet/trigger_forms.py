"""The trigger page's form: it offers what there is, and reads an address by the rules of asks."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

from django.core.exceptions import ValidationError
from django.http import QueryDict
from packaging.version import Version

from benchapp.fleet import asks, offers
from benchapp.fleet.ask_fields import EXAMPLES, EXPLORED, FOREIGN, MOST_RUNS, NEWEST, TIMERS, WHAT
from benchapp.fleet.asks import Ask
from benchapp.fleet.words import count, gpu_name
from benchapp.runs.again import OPTIONS
from benchapp.runs.requests import LIBRARIES
from benchapp.tiles.queries import FIRST_ARCH
from benchapp.trends.points import TIMERS as TIMER_NAMES
from workers.bench.suites import DESCRIPTIONS, SUITES
from workers.bench.tiles.arches import ARCHES
from workers.bench.tiles.explorer.space import ARCHES as EXPLORED_ARCHES

#: Releases offered at first sight; older ones unfold.
FIRST_VERSIONS = 8
FIRST_SUITE, FIRST_GPU_SUITE = "cpu-smoke", "h200-core"
#: Values of an address that nothing offers, shown so that they can be taken away.
MOST_STRANGE = 20
LONGEST_STRANGE = 80
LONGEST_BACKENDS = 1300
FOREIGN_WORDS = {"refuse": "measure nothing", "flag": "measure and flag it"}
BACKEND_EXAMPLES = {
    "torch": "torch.mm",
    "flashinfer": "flashinfer.mm_fp4.cutlass",
    "sgl-kernel": "sgl.cutlass_scaled_fp4_mm",
}
TIMER_WORDS = {"auto": "the best there is", **TIMER_NAMES}
#: Own cases, and backends, are typed into one box each.
OWN_CASES, OWN_BACKENDS = "own_cases", "own_backends"


@dataclasses.dataclass(frozen=True, slots=True)
class Choice:
    value: str
    label: str
    chosen: bool
    note: str = ""
    #: not offered; it came with the address
    strange: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """Choices under one heading."""

    label: str
    choices: list[Choice]
    folded: bool = False


class TriggerForm:
    """What an address asks for, beside all that can be asked for.

    `ask` is None where something is missing or wrong; `faults` says what, by field.
    """

    def __init__(self, query: QueryDict, machines: offers.Machines) -> None:
        data = _settled(query)
        what = data.get("what", "survey")
        self.what = what if what in WHAT else "survey"
        self.gemm = self.what == "gemm"
        library = str(data.get("library", "torch"))
        self.library = library if library in LIBRARIES else "torch"
        self.package = self.library if self.gemm else "flashinfer"
        self.package_label = LIBRARIES[self.package]
        self.suite = str(data.get("suite", ""))
        self.time_limit_s = str(data.get("time_limit_s", ""))[:12]
        self.processes, self.case_timeout_s = (
            str(data.get(name, ""))[:12] for name in ("processes", "case_timeout_s")
        )
        self._foreign, self._timer = str(data.get("foreign", FOREIGN[0])), str(data.get("timer", TIMERS[0]))
        self._machines = machines
        self._versions, self._targets, self._cases, self._backends = (
            [str(value) for value in data.get(field, ())]
            for field in ("versions", "targets", "cases", "backends")
        )
        #: an option that the page keeps folded is set
        self.more = any(data.get(name) for name in OPTIONS if data.get(name) != TIMERS[0])
        self.faults: dict[str, str] = {}
        self.ask: Ask | None = None
        try:
            self.ask = Ask.from_json(data)
            asks.check(self.ask, machines)
        except ValidationError as error:
            self.faults = {field: " ".join(said) for field, said in error.message_dict.items()}
            self.ask = None

    @property
    def whats(self) -> list[Choice]:
        return [Choice(name, label, name == self.what) for name, label in WHAT.items()]

    @property
    def libraries(self) -> list[Choice]:
        return [Choice(name, label, name == self.library) for name, label in LIBRARIES.items()]

    @property
    def version_groups(self) -> list[Group]:
        """The newest finals; older ones and pre-releases, which the page folds; candidates."""
        known, newest = offers.releases(self.package), offers.newest(self.package)
        candidates = offers.candidates(self.package)
        finals = [version for version in known if not Version(version).is_prerelease] or known
        first = finals[:FIRST_VERSIONS]
        rest = [version for version in known if version not in first]
        word = [(NEWEST, f"newest, {newest} now")] if newest else []
        offered = _choices([*word, *((each, each) for each in first)], self._versions)
        folded = _choices([(each, each) for each in rest], self._versions)
        strange = self._strange(self._versions, [NEWEST, *known, *candidates])
        more = [each for each in folded if not each.chosen]
        groups = [
            Group("", offered + [each for each in folded if each.chosen] + strange),
            Group(_more([each.value for each in more], finals), more, folded=True),
            Group("candidates", _choices([(each, each) for each in candidates], self._versions)),
        ]
        return [group for group in groups if group.choices]

    @property
    def target_groups(self) -> list[Group]:
        """Where it can run."""
        if not self.gemm:
            arches = EXPLORED_ARCHES if self.what in EXPLORED else tuple(ARCHES)
            offered = [(f"arch:{arch}", arch.upper()) for arch in arches]
            groups = [Group("", _choices(offered, self._targets))]
        else:
            groups = self._measuring()
        known = [choice.value for group in groups for choice in group.choices]
        strange = self._strange(self._targets, known)
        return groups + ([Group("in the address", strange)] if strange else [])

    def _measuring(self) -> list[Group]:
        machines = self._machines
        gpus = sorted(machines.by_uuid.values(), key=lambda gpu: (gpu.installation.host, gpu.index))
        by_host: dict[str, list[str]] = {}
        for gpu in gpus:
            by_host.setdefault(gpu.installation.host, []).append(gpu.uuid)
        cpus = [("cpu", "any host's CPUs")]
        cpus += [(f"cpu:{key}", f"CPUs of {host}") for key, host in machines.hosts.items()]
        kinds = [(f"model:{slug}", f"any {model}") for slug, model in machines.models.items()]
        kinds += [(f"gpuarch:{arch}", f"any GPU of {arch.upper()}") for arch in machines.archs]
        one = [
            (f"gpu:{gpu.uuid}", f"{gpu_name(gpu.index, gpu.installation.host)}, {gpu.model}") for gpu in gpus
        ]
        gangs = [
            (f"gang:{'+'.join(sorted(uuids))}", f"the {len(uuids)} GPUs of {host} together")
            for host, uuids in by_host.items()
            if len(uuids) > 1
        ]
        groups = [
            Group("CPUs", _choices(cpus, self._targets) if self.library == "torch" else []),
            Group("Any GPU of a kind", _choices(kinds, self._targets)),
            Group("One GPU", _choices(one, self._targets)),
            Group("Gangs", _choices(gangs, self._targets)),
        ]
        return [group for group in groups if group.choices]

    @property
    def suites(self) -> list[Choice]:
        known = [
            Choice(name, name, name == self.suite, count(len(cases), "case"))
            for name, cases in SUITES.items()
        ]
        return [*known, Choice("", "own cases", self.suite not in SUITES)]

    @property
    def suite_words(self) -> str:
        """What the chosen suite is for."""
        return DESCRIPTIONS.get(self.suite, "")

    @property
    def suite_cases(self) -> list[Choice]:
        """The cases of the chosen suite, none chosen means all; empty where they are too many to choose."""
        names = [str(case) for case in SUITES.get(self.suite, ())]
        return _choices([(name, name) for name in names], self._cases) if len(names) <= MOST_RUNS else []

    @property
    def own(self) -> bool:
        """Cases are typed."""
        return self.suite not in SUITES

    @property
    def own_cases(self) -> str:
        return "" if self.suite in SUITES else "\n".join(self._cases)

    @property
    def foreign(self) -> list[Choice]:
        return [Choice(name, FOREIGN_WORDS[name], name == self._foreign) for name in FOREIGN]

    @property
    def option_faults(self) -> list[str]:
        return [self.faults[name] for name in OPTIONS if name in self.faults]

    @property
    def example(self) -> str:
        """A version of its library."""
        return EXAMPLES[self.package]

    @property
    def backend_example(self) -> str:
        return BACKEND_EXAMPLES[self.package]

    @property
    def timers(self) -> list[Choice]:
        return [Choice(name, TIMER_WORDS[name], name == self._timer) for name in TIMERS]

    @property
    def backends(self) -> str:
        return " ".join(self._backends)[:LONGEST_BACKENDS]

    @property
    def on_gpus(self) -> bool:
        return self.gemm and any(target.partition(":")[0] != "cpu" for target in self._targets)

    @staticmethod
    def _strange(values: Sequence[str], offered: Iterable[str]) -> list[Choice]:
        known = set(offered)
        strange = [value for value in values if value not in known and len(value) <= LONGEST_STRANGE]
        return [Choice(value, value, True, strange=True) for value in strange[:MOST_STRANGE]]


def _more(versions: Sequence[str], finals: Sequence[str]) -> str:
    """What versions that are not offered at first sight are: "older or pre-release"."""
    older = any(version in finals for version in versions)
    others = any(version not in finals for version in versions)
    return " or ".join(["older"] * older + ["pre-release"] * others)


def _choices(offered: Iterable[tuple[str, str]], chosen: Sequence[str]) -> list[Choice]:
    return [Choice(value, label, value in chosen) for value, label in offered]


def _settled(query: QueryDict) -> dict[str, Any]:
    """What the address asks for. One that names nothing, or just changed what it asks for, begins anew."""
    data = asks.from_query(query)
    what, library = data.get("what", "survey"), data.get("library", "torch")
    empty = not set(data) - {"what", "library"} and "was" not in query
    if empty or query.get("was", what) != what:
        return _first(what, library)
    if query.get("was_library", library) != library:
        # what is to be measured, and where, may stay; versions and backends are of the other library
        data |= {"versions": _first_versions(library), "backends": []}
        data["targets"] = _first_targets(library, data.get("targets", []))
    if query.get("was_suite", data.get("suite", "")) != data.get("suite", ""):
        data["cases"] = []  # of another suite
    if not data.get("suite") and (typed := query.get(OWN_CASES, "")):
        # a comma may be within a case: rmsnorm:tokens=64,hidden=7168
        data["cases"] = [*data.get("cases", ()), *(word.strip(",") for word in typed.split())]
    if typed := query.get(OWN_BACKENDS, ""):
        data["backends"] = [*data.get("backends", ()), *typed.replace(",", " ").split()]
    if what != "gemm":
        data = {name: value for name, value in data.items() if value or name in ("versions", "targets")}
    return {"what": what} | data


def _first(what: str, library: str) -> dict[str, Any]:
    if what != "gemm":
        versions = [NEWEST] if offers.newest("flashinfer") else []
        return {"what": what, "versions": versions, "targets": [f"arch:{FIRST_ARCH}"]}
    targets = _first_targets(library, ["cpu"])
    return {
        "what": what,
        "library": library,
        "versions": _first_versions(library),
        "targets": targets,
        "suite": FIRST_SUITE if targets == ["cpu"] else FIRST_GPU_SUITE,
    }


def _first_versions(library: str) -> list[str]:
    newest = offers.newest(library) if library in LIBRARIES else None
    return [newest] if newest else []


def _first_targets(library: str, before: Sequence[str]) -> list[str]:
    """Those before, for a library that needs GPUs without CPUs; then any GPU of the first architecture."""
    if library == "torch":
        return list(before)
    kept = [target for target in before if target.partition(":")[0] != "cpu"]
    first = next(iter(sorted(offers.Machines.read().archs)), None)
    return kept or ([f"gpuarch:{first}"] if first else [])
