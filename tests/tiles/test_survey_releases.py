"""`manage.py survey_releases`: what a complete survey lacks, as real pip tells it of a local folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from benchapp.runs.models import Run
from tests.tiles.listed import UNTIL_0_6_7, listed_survey
from tests.tiles.surveys import store

pytestmark = pytest.mark.django_db


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All that pip may look at."""
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    return tmp_path


def offer(shelf: Path, *versions: str) -> None:
    for version in versions:
        with zipfile.ZipFile(shelf / f"flashinfer_python-{version}-py3-none-any.whl", "w") as wheel:
            wheel.writestr(
                f"flashinfer_python-{version}.dist-info/METADATA",
                f"Metadata-Version: 2.1\nName: flashinfer-python\nVersion: {version}\n",
            )


def test_what_is_missing_is_asked_for_newest_first_and_behind_what_people_ask(shelf: Path, capsys):
    offer(shelf, "0.4.1", "0.5.3", "0.6.3", "0.6.8", "0.7.0")
    store(listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7))
    call_command("survey_releases", "--arch", "sm120", "--arch", "sm100")
    asked = [(run.params["arch"], run.recipe.versions["flashinfer"]) for run in Run.objects.order_by("pk")]
    assert asked == [
        ("sm120", "0.7.0"),
        ("sm120", "0.6.8"),
        ("sm120", "0.5.3"),
        ("sm100", "0.7.0"),
        ("sm100", "0.6.8"),
        ("sm100", "0.5.3"),
    ]
    assert {run.priority for run in Run.objects.all()} == {-2}
    assert "sm120: 4 releases, 3 asked for: 0.7.0 0.6.8 0.5.3" in capsys.readouterr().out


def test_a_dry_run_asks_for_nothing(shelf: Path, capsys):
    offer(shelf, "0.6.3")
    call_command("survey_releases", "--dry-run")
    assert capsys.readouterr().out == "sm120: 1 releases, 1 missing: 0.6.3\n"
    assert not Run.objects.exists()


def test_again_asks_for_known_ones_too(shelf: Path):
    offer(shelf, "0.6.3")
    store(listed_survey("0.6.3", "4.2.1", UNTIL_0_6_7))
    call_command("survey_releases", "--again")
    assert Run.objects.get().recipe.versions == {"flashinfer": "0.6.3"}


def test_no_wheel_anywhere_is_said_in_a_sentence(shelf: Path):
    with pytest.raises(CommandError, match="finds no wheel of flashinfer-python at all"):
        call_command("survey_releases")
