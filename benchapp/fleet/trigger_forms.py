"""The trigger page's form: it offers what there is, and reads an address by the rules of asks."""

from __future__ import annotations

from collections.abc import Sequence

from django.core.exceptions import ValidationError
from django.http import QueryDict
from packaging.version import Version

from benchapp.fleet import ask_fields, asks, model_asks, offers
from benchapp.fleet.ask_fields import EXAMPLES, FOREIGN, MOST_RUNS, NEWEST, TIMERS
from benchapp.fleet.ask_kinds import EXPLORED, LIBRARIES_OF, MEASURED, OPTIONS_OF, SUITES_OF, WHAT
from benchapp.fleet.asks import Ask
from benchapp.fleet.trigger_query import CHOICE, MEMBER, settled
from benchapp.fleet.trigger_targets import Choice, Group, choices, measuring, of_members, strange
from benchapp.fleet.words import count
from benchapp.runs.requests import LIBRARIES, gang_size
from benchapp.trends.points import TIMERS as TIMER_NAMES
from workers.bench.cases.base import Case
from workers.bench.models import tiny
from workers.bench.suites import DESCRIPTIONS
from workers.bench.suites.models import MODEL_DESCRIPTIONS
from workers.bench.tiles.arches import ARCHES
from workers.bench.tiles.explorer.space import ARCHES as EXPLORED_ARCHES

#: Releases offered at first sight; older ones unfold.
FIRST_VERSIONS = 8
LONGEST_BACKENDS = 1300
FOREIGN_WORDS = {"refuse": "measure nothing", "flag": "measure and flag it"}
BACKEND_EXAMPLES = {
    ("gemm", "torch"): "torch.mm",
    ("gemm", "flashinfer"): "flashinfer.mm_fp4.cutlass",
    ("gemm", "sgl-kernel"): "sgl.cutlass_scaled_fp4_mm",
    ("moe", "torch"): "torch+torch.grouped_mm",
    ("moe", "flashinfer"): "flashinfer+triton.fused_experts",
}
TIMER_WORDS = {"auto": "the best there is", **TIMER_NAMES}
#: Degrees of tensor and of expert parallelism that the page offers.
DEGREES = ("1", "2", "4", "8")
LONGEST_TYPED = 200


class TriggerForm:
    """What an address asks for, beside all that can be asked for.

    `ask` is None where something is missing or wrong; `faults` says what, by field.
    """

    def __init__(self, query: QueryDict, machines: offers.Machines) -> None:
        data = settled(query, machines)
        what = data.get("what", "survey")
        self.what = what if what in WHAT else "survey"
        self.measured, self.of_models = self.what in MEASURED, self.what == "moe"
        self._suites = SUITES_OF.get(self.what, {})
        library = str(data.get("library", "torch"))
        self.library = library if library in LIBRARIES_OF.get(self.what, ()) else "torch"
        self.package = self.library if self.measured else "flashinfer"
        self.package_label = LIBRARIES[self.package]
        self.suite = str(data.get("suite", ""))
        self.time_limit_s = str(data.get("time_limit_s", ""))[:12]
        self.processes, self.case_timeout_s = (
            str(data.get(name, ""))[:12] for name in ("processes", "case_timeout_s")
        )
        self._foreign, self._timer = str(data.get("foreign", FOREIGN[0])), str(data.get("timer", TIMERS[0]))
        self._machines = machines
        self._versions, self._targets, self._cases, self._backends, self._models, self._phases = (
            [str(value) for value in data.get(field, ())]
            for field in ("versions", "targets", "cases", "backends", "models", "phases")
        )
        self.batches, self.contexts = (
            " ".join(str(value) for value in data.get(field, ()))[:LONGEST_TYPED]
            for field in ("batches", "contexts")
        )
        self.layers = str(data.get("layers", ""))[:12]
        self._tp, self._ep = (str(data.get(name, "1"))[:12] for name in ("tp", "ep"))
        #: GPUs that the cases take together
        self.size = ask_fields.size_of(data) if self.of_models else 1
        self._members = query.getlist(MEMBER)
        #: an option that the page keeps folded is set
        self.options = OPTIONS_OF.get(self.what, ())
        self.more = any(data.get(name) for name in self.options if data.get(name) != TIMERS[0])
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
        return [Choice(name, label, name == self.library) for name, label in self._labels()]

    def _labels(self) -> list[tuple[str, str]]:
        return [(name, LIBRARIES[name]) for name in LIBRARIES_OF.get(self.what, ())]

    @property
    def version_groups(self) -> list[Group]:
        """The newest finals; older ones and pre-releases, which the page folds; candidates."""
        known, newest = offers.releases(self.package), offers.newest(self.package)
        candidates = offers.candidates(self.package)
        finals = [version for version in known if not Version(version).is_prerelease] or known
        first = finals[:FIRST_VERSIONS]
        rest = [version for version in known if version not in first]
        word = [(NEWEST, f"newest, {newest} now")] if newest else []
        offered = choices([*word, *((each, each) for each in first)], self._versions)
        folded = choices([(each, each) for each in rest], self._versions)
        unknown = strange(self._versions, [NEWEST, *known, *candidates])
        more = [each for each in folded if not each.chosen]
        groups = [
            Group("", offered + [each for each in folded if each.chosen] + unknown),
            Group(_more([each.value for each in more], finals), more, folded=True),
            Group("candidates", choices([(each, each) for each in candidates], self._versions)),
        ]
        return [group for group in groups if group.choices]

    @property
    def target_groups(self) -> list[Group]:
        """Where it can run."""
        if not self.measured:
            arches = EXPLORED_ARCHES if self.what in EXPLORED else tuple(ARCHES)
            offered = [(f"arch:{arch}", arch.upper()) for arch in arches]
            groups = [Group("", choices(offered, self._targets))]
        else:
            size = self.size if self.of_models else None
            groups = measuring(self._machines, self._targets, size, cpus=self.library == "torch")
        known = [choice.value for group in groups for choice in group.choices]
        # a gang ticked GPU by GPU stands in those ticks
        others = strange([each for each in self._targets if each != self._ticked], known)
        return groups + ([Group("in the address", others)] if others else [])

    @property
    def _ticked(self) -> str:
        """The gang among the targets that no choice offers; "" for none, or for several."""
        if not self.of_models or self.size < 2:
            return ""
        offered = measuring(self._machines, (), self.size, cpus=False)
        known = {choice.value for group in offered for choice in group.choices}
        named = [each for each in self._targets if each.startswith("gang:") and each not in known]
        return named[0] if len(named) == 1 else ""

    @property
    def members(self) -> list[Group]:
        """The GPUs of each host, to choose a gang of; empty where no host has more than it takes."""
        if not self.of_models or self.size < 2:
            return []
        ticked = [*self._members, *self._ticked.removeprefix("gang:").split("+")]
        return of_members(self._machines, ticked, self.size)

    @property
    def has_gangs(self) -> bool:
        """A host has as many GPUs as the cases take."""
        return any(group.label == "Gangs" for group in measuring(self._machines, (), self.size, cpus=False))

    @property
    def members_open(self) -> bool:
        return bool(self._members or self._ticked)

    @property
    def suites(self) -> list[Choice]:
        known = [
            Choice(name, name, name == self.suite, self._told(cases)) for name, cases in self._suites.items()
        ]
        own = "own choice" if self.of_models else "own cases"
        return [*known, Choice("", own, self.own)]

    def _told(self, cases: Sequence[Case]) -> str:
        size = gang_size(cases) if self.of_models else 1
        return count(len(cases), "case") + (f", {size} GPUs" if size > 1 else "")

    @property
    def suite_words(self) -> str:
        """What the chosen suite is for."""
        return (DESCRIPTIONS | MODEL_DESCRIPTIONS).get(self.suite, "") if not self.own else ""

    @property
    def suite_cases(self) -> list[Choice]:
        """The cases of the chosen suite, none chosen means all; empty where they are too many to choose."""
        names = [str(case) for case in self._suites.get(self.suite, ())]
        return choices([(name, name) for name in names], self._cases) if len(names) <= MOST_RUNS else []

    @property
    def own(self) -> bool:
        """Cases are typed, or chosen by their model."""
        return self.suite not in self._suites

    @property
    def own_cases(self) -> str:
        return "\n".join(self._cases) if self.own else ""

    @property
    def model_groups(self) -> list[Group]:
        made_up = {each.name for each in tiny()}
        every = choices([(name, name) for name in model_asks.names()], self._models)
        return [
            Group("", [each for each in every if each.value not in made_up]),
            Group("Made-up ones, small enough for a CPU", [each for each in every if each.value in made_up]),
        ]

    @property
    def phases(self) -> list[Choice]:
        return choices([(name, name) for name in model_asks.PHASES], self._phases)

    @property
    def degrees(self) -> list[tuple[str, str, list[Choice]]]:
        """(field, what it is, what it may be) of both kinds of parallelism."""
        return [
            (field, words, choices([(each, each) for each in sorted({*DEGREES, said}, key=len)], [said]))
            for field, words, said in (
                ("tp", "Tensor parallel (TP)", self._tp),
                ("ep", "Expert parallel (EP)", self._ep),
            )
        ]

    @property
    def foreign(self) -> list[Choice]:
        return [Choice(name, FOREIGN_WORDS[name], name == self._foreign) for name in FOREIGN]

    @property
    def option_faults(self) -> list[str]:
        return [self.faults[name] for name in self.options if name in self.faults]

    @property
    def choice_faults(self) -> list[str]:
        return [self.faults[name] for name in CHOICE if name in self.faults]

    @property
    def example(self) -> str:
        """A version of its library."""
        return EXAMPLES[self.package]

    @property
    def backend_example(self) -> str:
        return BACKEND_EXAMPLES.get((self.what, self.library), "")

    @property
    def timers(self) -> list[Choice]:
        return [Choice(name, TIMER_WORDS[name], name == self._timer) for name in TIMERS]

    @property
    def backends(self) -> str:
        return " ".join(self._backends)[:LONGEST_BACKENDS]

    @property
    def on_gpus(self) -> bool:
        return self.measured and any(target.partition(":")[0] != "cpu" for target in self._targets)


def _more(versions: Sequence[str], finals: Sequence[str]) -> str:
    """What versions that are not offered at first sight are: "older or pre-release"."""
    older = any(version in finals for version in versions)
    others = any(version not in finals for version in versions)
    return " or ".join(["older"] * older + ["pre-release"] * others)
