"""`manage.py import`: what is stored, said and refused."""

from __future__ import annotations

import json
import os
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from benchapp.alerts.models import Event
from benchapp.ingest.importers.registry import IMPORTERS
from benchapp.people.models import AuditEntry
from benchapp.runs.models import Document
from benchapp.tiles.models import Evidence, EvidenceLog, Tile, Verdict
from tests.ingest.importers.files import autotuner, blocklist, cache, key, operation, profiled, skip
from tests.ingest.importers.tactic_lists import store_survey

pytestmark = pytest.mark.django_db


class Said:
    """What a call of the command wrote, and whether it failed."""

    def __init__(self, *words: str | Path, **options: Any) -> None:
        out, err = StringIO(), StringIO()
        self.error = ""
        try:
            call_command("import", *map(str, words), stdout=out, stderr=err, **options)
        except CommandError as error:
            self.error = str(error)
        self.out, self.err = out.getvalue(), err.getvalue()


def imports() -> int:
    return Document.objects.filter(origin=Document.Origin.IMPORT).count()


@pytest.fixture
def tuned(tmp_path: Path) -> Path:
    store_survey()
    path = tmp_path / "tuned.json"
    path.write_bytes(autotuner({key(1, 16): ["MoERunner", 3], key(2, 16): ["MoERunner", 8]}))
    return path


def test_an_import_becomes_evidence_a_chosen_verdict_and_an_audit_row(tuned: Path):
    said = Said("flashinfer-autotuner", tuned)
    assert said.error == said.err == ""
    assert "stored as document" in said.out
    assert "flashinfer 0.6.3 on sm120: 2 ran passed." in said.out
    document = Document.objects.get(origin=Document.Origin.IMPORT)
    assert (document.state, document.name) == (Document.State.ACCEPTED, "tuned.json")
    assert document.facts["command"][:4] == ["manage.py", "import", "flashinfer-autotuner", "tuned.json"]
    assert Evidence.objects.filter(document=document, source="imported").count() == 2
    verdict = Verdict.objects.get(tile__m=256, tile__fusion="none", tile__swap_ab=False, tile__output="bf16")
    assert verdict.chosen
    assert verdict.stage == "ran"
    assert AuditEntry.objects.get(action="import").detail["format"] == "flashinfer-autotuner"


def test_the_same_content_changes_nothing_whatever_its_name_and_date(tuned: Path, tmp_path: Path):
    Said("flashinfer-autotuner", tuned)
    copy = tmp_path / "copy.json"
    copy.write_bytes(tuned.read_bytes())
    os.utime(copy, (1_700_000_000, 1_700_000_000))
    said = Said("flashinfer-autotuner", copy)
    assert "known already as document" in said.out
    assert imports() == 1
    assert AuditEntry.objects.filter(action="import").count() == 1


def test_a_dry_run_says_what_would_be_stored_and_stores_nothing(tuned: Path):
    said = Said("flashinfer-autotuner", tuned, dry_run=True)
    assert "would be stored, flashinfer 0.6.3 on sm120: 2 ran passed." in said.out
    assert imports() == 0
    Said("flashinfer-autotuner", tuned)
    assert "known already" in Said("flashinfer-autotuner", tuned, dry_run=True).out


def test_one_bad_file_does_not_stop_the_others(tuned: Path, tmp_path: Path):
    bad = tmp_path / "bad.json"
    bad.write_bytes(tuned.read_bytes()[:50])
    said = Said("flashinfer-autotuner", bad, tuned)
    assert said.error == "1 of 2 paths were not imported."
    assert said.err.startswith(f"{bad}: not whole JSON")
    assert imports() == 1


def test_json_for_programs(tuned: Path, tmp_path: Path):
    said = Said("flashinfer-autotuner", tuned, tmp_path / "none.json", json=True)
    report = json.loads(said.out)
    good, bad = report["results"]
    assert good["state"] == "stored"
    assert good["findings"] == [{"stage": "ran", "passed": True, "count": 2}]
    assert (bad["state"], bad["error"]) == ("refused", "No such file or directory.")
    assert said.error == "1 of 2 paths were not imported."


def test_nothing_is_half_stored_when_one_id_is_out_of_range(tuned: Path):
    tuned.write_bytes(autotuner({key(1, 16): ["MoERunner", 3], key(2, 16): ["MoERunner", 99]}))
    before = (Evidence.objects.count(), Tile.objects.count())
    said = Said("flashinfer-autotuner", tuned)
    assert "tactic 99 is out of range: GEMM2 of FlashInfer 0.6.3 on sm120 has ids 8 to 23" in said.err
    assert (Evidence.objects.count(), Tile.objects.count()) == before
    assert imports() == 0
    assert not Event.objects.filter(kind="document_rejected").exists()


def test_a_version_without_a_survey_is_refused_with_the_command(tmp_path: Path):
    path = tmp_path / "tuned.json"
    path.write_bytes(autotuner({key(1): ["MoERunner", 3]}))
    assert "manage.py survey --flashinfer 0.6.3 --arch sm120" in Said("flashinfer-autotuner", path).err


def test_a_log_keeps_the_very_lines(tmp_path: Path):
    store_survey("0.5.2")
    path = tmp_path / "server.log"
    path.write_text(f"INFO\n{skip(15)}\n<script>alert(1)</script>\n")
    said = Said("flashinfer-log", path, gpu="RTX PRO 6000 Blackwell Workstation", stack=["flashinfer=0.5.2"])
    assert "1 initialised failed" in said.out
    finding = Evidence.objects.get(source="imported")
    assert finding.log.name == "source"
    assert "line 2: (Worker_TP0 pid=4711)" in finding.log.text
    verdict = Verdict.objects.get(tile=finding.tile)
    assert verdict.failed_stage in ("fits", "initialised")


def test_generated_sources_alone_never_make_a_survivor(tmp_path: Path):
    space = cache(tmp_path)
    said = Said("flashinfer-cache", space / "generated")
    assert "what FlashInfer searches, not what survives" in said.out
    assert set(Verdict.objects.values_list("stage", flat=True)) == {"candidate"}
    assert "8 candidate passed, 4 compiled passed" in Said("flashinfer-cache", space).out
    assert set(Verdict.objects.values_list("stage", flat=True)) == {"candidate", "compiled"}


def test_the_same_cache_named_by_another_folder_is_known(tmp_path: Path):
    Said("flashinfer-cache", cache(tmp_path))
    assert "known already" in Said("flashinfer-cache", tmp_path).out
    assert imports() == 1


def test_an_incorrect_operation_is_no_survivor(tmp_path: Path):
    path = tmp_path / "results.csv"
    path.write_bytes(
        profiled((operation(), "incorrect", "success"), (operation("128x128x256"), "passed", "success"))
    )
    Said("cutlass-profiler", path, stack=["cutlass=4.2.1"])
    verdicts = {verdict.tile.k: verdict for verdict in Verdict.objects.select_related("tile", "release")}
    assert (verdicts[128].failed_stage, verdicts[128].reason) == ("correct", "incorrect")
    assert (verdicts[256].stage, verdicts[256].release.package) == ("correct", "cutlass")


def test_a_cutlass_version_at_odds_with_the_survey_is_refused(tuned: Path):
    said = Said("flashinfer-autotuner", tuned, stack=["cutlass=4.4.2"])
    assert "FlashInfer 0.6.3 bundles CUTLASS 4.2.1, but --stack says 4.4.2" in said.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"gpu": "Voodoo 2"}, "--gpu 'Voodoo 2' is not known"),
        ({"stack": ["flashinfer"]}, "expected component=version"),
        ({"stack": ["flashinfer=0.6.3", "flashinfer=0.6.4"]}, "--stack names flashinfer twice"),
        ({"inputs": "a b"}, "--inputs"),
        ({"output": "BF16"}, "--output"),
    ],
)
def test_options_that_make_no_sense_are_named(tmp_path: Path, options: dict[str, Any], words: str):
    assert words in Said("flashinfer-autotuner", tmp_path / "x", **options).error


def test_markup_and_bad_bytes_in_a_file_name_are_shown_as_text(tmp_path: Path, client: Client):
    store_survey()
    name = os.fsdecode(b"<script>alert(1)<\xff\x1b.json")
    path = tmp_path / name
    path.write_bytes(blocklist({"trtllm::fused_moe::gemm2::MoERunner": [8]}))
    said = Said("flashinfer-blocklist", path)
    assert said.out.startswith(f"{tmp_path}/<script>alert(1)<\ufffd\ufffd.json: stored as document")
    finding = Evidence.objects.get(source="imported")
    assert finding.detail.startswith("<script>alert(1)<\ufffd\ufffd.json: invalid_tactics")
    page = client.get(f"/tiles/{finding.tile_id}/0.6.3/", follow=True).content.decode()
    assert "&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page


def test_help_lists_the_formats(capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit):
        call_command("import", "--help")
    said = capsys.readouterr().out
    for name in IMPORTERS:
        assert f"\n  {name} " in said


def test_the_source_log_names_file_and_digest(tuned: Path):
    Said("flashinfer-autotuner", tuned)
    text = EvidenceLog.objects.get(document__origin=Document.Origin.IMPORT).text
    assert text.startswith("flashinfer-autotuner sha256 ")
    assert "\nfile tuned.json" in text
