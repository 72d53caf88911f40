"""The filters of the page of collectives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import forms

from benchapp.moe.collective_points import KIND_NAMES
from benchapp.moe.collective_queries import Offer
from benchapp.moe.narrowing import NarrowingForm


class CollectivesForm(NarrowingForm):
    """Target narrows GPUs, GPUs the collective, and that the width: no combination is empty by itself."""

    target = forms.ChoiceField(label="On", required=False)
    ranks = forms.ChoiceField(label="Ranks", required=False)
    kind = forms.ChoiceField(label="Collective", required=False)
    hidden = forms.ChoiceField(label="Hidden", required=False)

    def __init__(
        self, data: Mapping[str, Any], *, offered: Sequence[Offer], places: Mapping[int, str]
    ) -> None:
        super().__init__(data)
        left = self._narrow("target", offered, lambda offer: (str(offer.target), places[offer.target]))
        left = self._narrow("ranks", left, lambda offer: (str(offer.ranks), f"{offer.ranks:,}"))
        left = self._narrow("kind", left, lambda offer: (offer.kind, KIND_NAMES[offer.kind]))
        left = self._narrow("hidden", left, lambda offer: (str(offer.hidden), f"{offer.hidden:,}"))
        #: the sweep that is shown; None where nothing was measured
        self.offer = next(iter(left), None)
