"""The filters of the page of servers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from benchapp.catalog.models import Target
from benchapp.moe.narrowing import NarrowingForm
from benchapp.moe.serving_queries import Offer

RATES = (("gpu", "per GPU"), ("all", "of all GPUs"))


class ServingForm(NarrowingForm):
    """Endpoint narrows model, model narrows lengths: no combination is empty by itself. `offered` has the
    sweep measured last first."""

    endpoint = forms.ChoiceField(label="Endpoint", required=False)
    model = forms.ChoiceField(label="Model", required=False)
    lengths = forms.ChoiceField(label="Tokens in, out", required=False)
    rate = forms.ChoiceField(label="tok/s", required=False, choices=RATES, initial="gpu")

    def __init__(
        self, data: Mapping[str, Any], *, offered: Sequence[Offer], targets: Mapping[int, Target]
    ) -> None:
        super().__init__(data)
        left = self._narrow(
            "endpoint", offered, lambda offer: (str(offer.target), place_of(targets[offer.target]))
        )
        left = self._narrow("model", left, lambda offer: (offer.model, offer.model))
        left = self._narrow("lengths", left, lambda offer: (offer.lengths, lengths_words(offer)))
        #: the sweep that is shown; None where nothing was measured
        self.offer = next(iter(left), None)


def place_of(target: Target) -> str:
    """An endpoint by its name, with the hardware that a person states."""
    return f"{target.host} ({target.model})"


def lengths_words(offer: Offer) -> str:
    return f"{offer.input:,} in, {offer.output:,} out"
