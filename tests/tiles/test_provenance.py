"""Where the evidence of a version was found."""

from __future__ import annotations

import pytest

from benchapp.runs.models import Document
from tests.tiles.surveys import IN_0_6_3, findings_of, store, survey

pytestmark = pytest.mark.django_db


def test_what_was_recorded_elsewhere_is_said_until_a_survey_here_takes_its_place(client):
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3)), origin=Document.Origin.RECORDED)
    store(survey("0.6.8", "4.4.2", findings_of(IN_0_6_3)))
    for view in ("versions", "grid"):
        page = client.get(f"/tiles/?view={view}").content.decode()
        assert "recorded with Tilewatch's source: 1 of 2 versions" in page
    store(survey("0.6.3", "4.2.1", findings_of(IN_0_6_3), day=2))
    assert "recorded with" not in client.get("/tiles/").content.decode()
