"""What the three views share: filters, releases, what is known of the release in focus, its words."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Self

from django.http import HttpRequest
from django.urls import reverse

from benchapp.catalog.models import Release
from benchapp.tiles import families, queries
from benchapp.tiles.fates import Variant
from benchapp.tiles.forms import TilesForm
from benchapp.tiles.headline import Summary, summary
from benchapp.tiles.keys import Key
from benchapp.tiles.listings import Listed, listings_of, tactics_in_words
from benchapp.tiles.models import Tile
from benchapp.tiles.queries import Column, Facet, Narrow, Selection
from benchapp.tiles.why_not import Known, WhyNot, why_not


@dataclasses.dataclass
class Page:
    """One request's filters, and what they select. Queries run when first asked for."""

    form: TilesForm
    facets: Sequence[Facet]
    every_release: Mapping[str, Sequence[Release]]
    #: versions in which a survey looked at the selected family
    surveyed: set[str]

    @classmethod
    def read(cls, request: HttpRequest) -> Self:
        facets, surveyed, releases = queries.facets(), queries.surveyed(), queries.releases()
        form = TilesForm.read(
            request.GET,
            known=facets,
            versions={package: [release.version for release in of] for package, of in releases.items()},
            surveyed=surveyed,
        )
        selection = form.selection
        return cls(form, facets, releases, surveyed.get((selection.arch, selection.family), set()))

    @cached_property
    def selection(self) -> Selection:
        return self.form.selection

    @cached_property
    def narrow(self) -> Narrow:
        return self.form.narrow()

    @property
    def view(self) -> str:
        return str(self.form.values["view"])

    @property
    def focus(self) -> str:
        return self.form.values["version"] or ""

    @property
    def package(self) -> str:
        return families.package(self.selection.family)

    @cached_property
    def releases(self) -> Sequence[Release]:
        return self.every_release.get(self.package, [])

    @cached_property
    def release(self) -> Release | None:
        return next((release for release in self.releases if release.version == self.focus), None)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        return queries.columns_of(self.releases, self.surveyed)

    @cached_property
    def listings(self) -> Mapping[str, Mapping[Key, Listed]]:
        chosen = self.selection
        return listings_of(chosen.arch, chosen.family, chosen.inputs, self.releases)

    @cached_property
    def held(self) -> Sequence[tuple[Tile, Variant]] | None:
        return queries.held_in(self.release, self.selection)

    def summary(self) -> Summary | None:
        """What the page opens with: of the release in focus, and of what the filters leave."""
        if self.release is None:
            return None
        counts_only = self.held is None
        if self.held is None:
            variants = queries.counts_in(self.release, self.selection, self.narrow)
        else:
            variants = [variant for _, variant in self.held if self.narrow.takes(variant)]
        items = [item for item in self._listed() if self.narrow.takes(item.key.variant)]
        fates = {Key.of(tile): variant.fate for tile, variant in self.held or ()}
        return summary(
            self.focus,
            self.selection.arch,
            variants,
            package=families.package_label(self.package),
            among=str(self.narrow),
            tactics="" if counts_only else tactics_in_words(items, fates),
            counts_only=counts_only,
        )

    def why_not(self) -> WhyNot | None:
        """“Why not bigger?” of the release in focus, whatever filters leave out."""
        if self.release is None or self.held is None:
            return None
        shipped = self.selection.family not in families.NOT_SHIPPED
        named = f"{families.package_label(self.package)} {self.focus}"
        return why_not(
            Known(
                named,
                self.selection.arch,
                self.selection.inputs,
                [variant for _, variant in self.held],
                self._listed(),
                self._versions_with(),
                self._unshipped() if shipped else (),
                self.release.cutlass,
                shipped,
            )
        )

    def _listed(self) -> list[Listed]:
        return list(self.listings.get(self.focus, {}).values())

    def _versions_with(self) -> dict[tuple[int, int, int], int]:
        """In how many versions each tile is listed."""
        return dict(
            Counter(
                tile
                for items in self.listings.values()
                for tile in {item.key.tile for item in items.values() if item.candidate or item.instantiated}
            )
        )

    def _unshipped(self) -> Sequence[Variant]:
        bundled = self.release.cutlass if self.release else ""
        cutlass = next((r for r in self.every_release.get("cutlass", ()) if r.version == bundled), None)
        chosen = self.selection
        return queries.fitting_in(cutlass, chosen.arch, chosen.inputs, families.explored_like(chosen.family))

    def opened(self, telling: str) -> str:
        """The address of what opens beside the view: of the cell asked for, else of the telling one."""
        name, _, version = (self.form.values["cell"] or telling).partition("@")
        if not version:
            return ""
        room = reverse("tiles:index")
        if "x" in name:
            return f"{room}at/{name}/{version}/{self.filters()}"
        return f"{room}{name}/{version}/"

    def filters(self) -> str:
        """The query string of what is selected and narrowed, without view and cell."""
        return self.form.querystring(view=None, cell=None, changes=None, version=None)
