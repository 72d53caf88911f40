"""The filters of the page: one selection, whose state is the address."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django import forms

from benchapp.catalog.models import Target
from benchapp.catalog.places import names
from benchapp.moe.places import is_at, places
from benchapp.moe.points import layout_words
from benchapp.moe.queries import Held
from benchapp.web.filters import FilterForm

PHASES = {"decode": "decode", "prefill": "prefill"}
#: The batch that a page speaks of, where it was measured.
FIRST_BATCH = 64
#: A version: "0.6.18.post1", "torch 2.13.0+cpu".
WORDS = r"[\w.+! -]{1,80}"


class MoeForm(FilterForm):
    """Each field narrows the next, so that no combination is empty by itself; `chosen` is what is left.

    `over_gpus` is what is left before the layout narrows. `at_batch` is what the words and the bars of one
    step are about and narrows nothing.
    """

    phase = forms.ChoiceField(label="Phase", required=False)
    model = forms.ChoiceField(label="Model", required=False)
    on = forms.ChoiceField(label="On", required=False)
    context = forms.ChoiceField(label="Context", required=False)
    layout = forms.ChoiceField(label="Spread over", required=False)
    backend = forms.ChoiceField(label="Backend", required=False)
    batch = forms.ChoiceField(label="Batch", required=False)
    until = forms.RegexField(WORDS, label="Up to version", required=False, initial="")

    def __init__(
        self, data: Mapping[str, Any], *, held: Sequence[Held], targets: Mapping[int, Target]
    ) -> None:
        super().__init__(data)
        self.named = names(list(targets.values()))
        these = self._narrow("phase", held, lambda each: each.case.kind, PHASES, first=_first_of(PHASES))
        whole = {each.case.model for each in these if each.whole}
        these = self._narrow("model", these, lambda each: each.case.model, first=_real_model(whole))
        offered = places((each.target for each in these), targets, self.named)
        place = self._choose("on", offered, next(iter(offered), ""))
        self.place = offered.get(place, "")
        these = [each for each in these if is_at(place, targets[each.target])]
        these = self._narrow("context", these, lambda each: str(each.case.context))
        self.over_gpus = these
        words = {_layout(each): layout_words(each.case.tp, each.case.ep) for each in these}
        these = self._narrow("layout", these, _layout, words, _fewest_gpus)
        backends = sorted({each.backend for each in these if each.backend})
        backend = self._choose("backend", {"": "all"} | {name: name for name in backends}, "")
        self.over_gpus = [each for each in self.over_gpus if not backend or each.backend == backend]
        self.chosen = [each for each in these if not backend or each.backend == backend]
        batches = sorted({each.case.batch for each in self.chosen})
        first = min(batches, key=lambda batch: (abs(batch - FIRST_BATCH), batch), default=0)
        self.at_batch = int(
            self._choose("batch", {str(batch): f"{batch:,}" for batch in batches}, str(first))
        )

    def _narrow(
        self,
        name: str,
        these: Sequence[Held],
        of: Callable[[Held], str],
        words: Mapping[str, str] | None = None,
        first: Callable[[Counter[str]], str] | None = None,
    ) -> list[Held]:
        """Offer the values that there are; those of the one that is chosen."""
        counted = Counter(of(each) for each in these)
        if not counted:
            self._choose(name, {}, "")
            return []
        listed = sorted(counted, key=lambda value: (int(value), "") if value.isdecimal() else (0, value))
        said = words or {}
        offered = {value: said.get(value) or _counted(value) for value in listed}
        chosen = self._choose(name, offered, (first or _most)(counted))
        return [each for each in these if of(each) == chosen]

    def _choose(self, name: str, choices: Mapping[str, str], initial: str) -> str:
        """Offer these; the one that the address asks for, where it is among them."""
        field = self.fields[name]
        assert isinstance(field, forms.ChoiceField)
        field.choices = list(choices.items())
        field.initial = initial
        asked = self.data.get(name)
        return str(asked) if asked in choices else initial

    def offer_versions(self, versions: Sequence[str], most: int) -> None:
        """The versions that a page may end with; of no more than a page shows there is none to choose."""
        choices = [("", "newest"), *((version, version) for version in versions)]
        widget = forms.Select(choices=choices, attrs={"data-initial": ""})
        self.fields["until"].widget = widget if len(versions) > most else forms.HiddenInput()

    @property
    def useful_fields(self) -> list[forms.BoundField]:
        """The fields that offer a choice; model and place also where there is but one."""
        return [
            field
            for field in self.visible_fields()
            if field.name in ("model", "on") or len(getattr(field.field, "choices", ())) > 1 + _has_all(field)
        ]


def _has_all(field: forms.BoundField) -> int:
    return int(field.name == "backend")


def _layout(each: Held) -> str:
    return f"{each.case.tp}x{each.case.ep}"


def _counted(value: str) -> str:
    return f"{int(value):,}" if value.isdecimal() else value


def _most(counted: Counter[str]) -> str:
    """The value that most has; of equals the first by name."""
    return min(counted, key=lambda value: (-counted[value], value))


def _first_of(order: Mapping[str, str]) -> Callable[[Counter[str]], str]:
    return lambda counted: next(value for value in order if value in counted)


def _real_model(whole: set[str]) -> Callable[[Counter[str]], str]:
    """The model with most data; those known by slices alone come after, those made up for tests last."""

    def first(counted: Counter[str]) -> str:
        return min(
            counted,
            key=lambda value: (value.startswith("tiny-"), value not in whole, -counted[value], value),
        )

    return first


def _fewest_gpus(counted: Counter[str]) -> str:
    def gpus(value: str) -> tuple[int, int]:
        tp, _, ep = value.partition("x")
        return int(tp) * int(ep), int(ep)

    return min(counted, key=gpus)
