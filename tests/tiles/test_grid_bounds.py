"""A grid stays small whatever tiles there are."""

from __future__ import annotations

import pytest

from benchapp.tiles.grid import MOST_PLACES
from benchapp.tiles.models import Tile
from tests.tiles.surveys import FAMILY, findings_of, store, survey

pytestmark = pytest.mark.django_db


def test_tiles_that_share_no_extent_do_not_make_a_place_for_each_pair(client):
    store(survey("0.6.3", "4.2.1", findings_of([((64, 64, 128), "none", False, 3, 80_000)])))
    of_all = {"arch": "sm120", "family": FAMILY, "inputs": "nvfp4xnvfp4", "output": "bf16", "k": 128}
    same = {"cluster": "1x1x1", "fusion": "none", "swap_ab": False, "schedule": "auto"}
    Tile.objects.bulk_create(Tile(**of_all, **same, m=m, n=m) for m in range(65, 65 + 149))
    page = client.get("/tiles/?view=grid").content.decode()
    assert page.count('<span class="cell place') + page.count('<a class="cell place') == MOST_PLACES
    assert "Shown: 100 of 150 variants; narrow the filters for others." in page
