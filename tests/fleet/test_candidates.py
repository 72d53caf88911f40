import hashlib
import os
import zipfile
from pathlib import Path

import pytest
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.core.management.base import CommandError

from benchapp.alerts.models import Event
from benchapp.catalog.versions import is_candidate, newest_order, version_order
from benchapp.fleet import candidates
from benchapp.fleet.models import Candidate
from benchapp.people.models import AuditEntry
from benchapp.runs.models import Run
from benchapp.tiles.evidence import cell_evidence
from benchapp.tiles.models import Tile
from benchapp.web.queries import newest_fit
from tests.tiles.listed import UNTIL_0_6_7, listed_survey
from tests.tiles.surveys import store
from tests.tiles_bench.conftest import LAUNCHER, macro, unit, wheel_files, write_wheel
from workers.bench.document import BenchError
from workers.bench.tiles import sources
from workers.bench.tiles.cache import Cache

pytestmark = pytest.mark.django_db
UNITS = {"a.generated.cu": unit(macro((128, 128, 128)))}


@pytest.fixture
def wheel(tmp_path: Path) -> Path:
    return write_wheel(tmp_path / "patched.whl", wheel_files(UNITS))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The same sources as FlashInfer's repository has them."""
    root = tmp_path / "flashinfer"
    for name, content in wheel_files(UNITS).items():
        place = name.replace("flashinfer/data/cutlass", "3rdparty/cutlass").replace("flashinfer/data/", "")
        if "dist-info" not in place:
            (root / place).parent.mkdir(parents=True, exist_ok=True)
            (root / place).write_bytes(content)
    (root / "README.md").write_text("no part of a survey")
    return root


def register(path: Path, base: str = "0.6.3", **options) -> Candidate:
    fields = {"package": "flashinfer", "note": "one stage less", "user": None} | options
    return candidates.register(path, base=base, **fields)[0]


def test_a_wheel_is_named_by_its_content(wheel, django_user_model):
    person = django_user_model.objects.create_user("ada", role="operator")
    candidate = register(wheel, user=person)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    assert candidate.sha256 == sha256
    assert candidate.version == f"0.6.3+candidate.{sha256[:12]}"
    assert bytes(Candidate.objects.get().body) == wheel.read_bytes()
    assert AuditEntry.objects.get(action="add_candidate").user == person
    again, created = candidates.register(wheel, package="flashinfer", base="0.6.4", note="", user=None)
    assert (again, created) == (candidate, False)


def test_equal_sources_make_an_equal_candidate_whatever_their_dates(repository):
    first = register(repository)
    for path in repository.rglob("*"):
        os.utime(path, (0, 0))
    (repository / "README.md").write_text("changed, and no part of a survey")
    assert register(repository) == first
    (repository / "csrc/nv_internal" / LAUNCHER).write_text("// patched")
    assert register(repository).sha256 != first.sha256
    assert Candidate.objects.count() == 2


def test_a_packed_repository_has_the_layout_of_a_wheel(repository, wheel, tmp_path):
    candidates.pack(repository, tmp_path / "packed.whl", "0.6.3")
    candidates.check_wheel(tmp_path / "packed.whl", "0.6.3", tmp_path)
    with zipfile.ZipFile(tmp_path / "packed.whl") as packed, zipfile.ZipFile(wheel) as original:
        assert {name for name in packed.namelist() if "dist-info" not in name} == {
            name for name in original.namelist() if sources.wanted(name) and "dist-info" not in name
        }


def test_an_unpacked_wheel_is_taken_as_it_lies(wheel, tmp_path):
    with zipfile.ZipFile(wheel) as members:
        members.extractall(tmp_path / "unpacked")
    assert register(tmp_path / "unpacked").origin == "unpacked"


def test_what_cannot_be_a_candidate_is_refused_by_field(wheel, repository, tmp_path, monkeypatch):
    def refused(path: Path, field: str, **options) -> str:
        with pytest.raises(ValidationError) as caught:
            register(path, **options)
        return caught.value.message_dict[field][0]

    assert "is not a version" in refused(wheel, "base", base="new")
    assert "is none of flashinfer" in refused(wheel, "package", package="numpy")
    assert "cannot be read" in refused(tmp_path / "none.whl", "path")
    (tmp_path / "empty").mkdir()
    assert "expected its repository" in refused(tmp_path / "empty", "path")
    (tmp_path / "text.whl").write_text("no wheel")
    assert "is not a whole wheel" in refused(tmp_path / "text.whl", "path")
    assert "too long to name" in refused(wheel, "base", base="0.6.3.post1.dev20260101")
    escape = write_wheel(tmp_path / "escape.whl", wheel_files(UNITS) | {"../../outside.h": b""})
    assert "leads outside" in refused(escape, "path")
    (repository / "csrc/nv_internal/link.h").symlink_to("/etc/hostname")
    assert "is a link" in refused(repository, "path")
    (repository / "csrc/nv_internal/link.h").unlink()
    monkeypatch.setattr(candidates, "LIMIT_BYTES", 1000)
    assert "more than the 1,000 bytes" in refused(repository, "path")
    assert "may have 1,000 at most" in refused(wheel, "path")
    assert not Candidate.objects.exists()


def test_what_is_no_plain_file_is_not_read(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path / "fifo", Path("/dev/zero")):
        with pytest.raises(ValidationError, match="special file"):
            candidates.register(path, package="flashinfer", base="0.6.3", note="", user=None)


def test_the_survey_bench_takes_a_candidate_from_its_file_only(wheel, tmp_path):
    candidate = register(wheel)
    cache = Cache(tmp_path / "cache")
    with cache.scratch() as scratch:
        tree = sources.obtain(cache, candidate.version, wheel, scratch, lambda: None)
        assert tree.version == candidate.version
        with pytest.raises(BenchError, match=r"expected its file"):
            sources.obtain(cache, candidate.version, None, scratch, lambda: None)
        other = write_wheel(
            tmp_path / "other.whl", wheel_files(UNITS) | {"flashinfer/data/include/x.h": b"x"}
        )
        with pytest.raises(BenchError, match="by its content, not candidate"):
            sources.obtain(cache, candidate.version, other, scratch, lambda: None)


def test_its_survey_names_the_wheel_by_digest(wheel):
    call_command("candidate", "add", str(wheel), "--base", "0.6.3", "--survey", "sm120")
    candidate, run = Candidate.objects.get(), Run.objects.get()
    assert run.recipe.versions == {"flashinfer": candidate.version}
    assert run.params == {"arch": "sm120", "candidate": candidate.sha256}
    assert run.job.title == f"Tile survey of FlashInfer {candidate.version} on SM120"


def test_the_command_says_what_is_wrong(tmp_path):
    with pytest.raises(CommandError, match="cannot be read"):
        call_command("candidate", "add", str(tmp_path / "none.whl"), "--base", "0.6.3")


def test_digits_alone_are_no_trap():
    assert sources.candidate_label("012345678901" + "a" * 52) == "candidate.12345678901"
    assert sources.candidate_label("0123456789ab" + "a" * 52) == "candidate.0123456789ab"


def test_a_candidate_stands_after_its_base_and_is_never_the_newest_release():
    known = ["0.6.3", "0.6.3+candidate.0123456789ab", "0.6.4"]
    assert sorted(known, key=version_order) == known
    assert max(["0.6.3", "0.6.4+candidate.0123456789ab"], key=newest_order) == "0.6.3"
    assert [is_candidate(version) for version in known] == [False, True, False]


CANDIDATE = "0.6.4+candidate.0123456789ab"


@pytest.fixture
def surveyed() -> None:
    """Two releases with the same tiles, and a candidate of the newer one that lost half of them."""
    for day, (version, tiles) in enumerate(
        (("0.6.3", UNTIL_0_6_7), ("0.6.4", UNTIL_0_6_7), (CANDIDATE, UNTIL_0_6_7[:3])), 1
    ):
        store(listed_survey(version, "4.2.1", tiles, day=day))


def test_a_candidate_is_shown_beside_releases_and_never_taken_for_one(surveyed, client):
    assert newest_fit().version == "0.6.4"
    matrix = client.get("/tiles/")
    assert matrix.context["page"].focus == "0.6.4"
    assert CANDIDATE in matrix.content.decode()
    assert client.get("/tiles/", {"version": CANDIDATE}).context["page"].focus == CANDIDATE
    diff = client.get("/tiles/diff/").context
    assert (diff["from"], diff["to"]) == ("0.6.3", "0.6.4")
    diff = client.get("/tiles/diff/", {"to": CANDIDATE}).context
    assert (diff["from"], diff["to"], diff["lost"]) == ("0.6.4", CANDIDATE, 3)
    funnel = client.get("/tiles/", {"view": "funnel"}).content.decode()
    assert CANDIDATE in funnel


def test_a_candidates_losses_are_no_event_of_a_release(surveyed):
    store(listed_survey("0.6.5", "4.2.1", UNTIL_0_6_7, day=4))
    assert not Event.objects.filter(kind="survivors_vanished").exists()


def test_a_candidate_is_no_part_of_a_variants_history(surveyed, client):
    tile = Tile.objects.order_by("pk").first()
    store(listed_survey("0.6.5", "4.2.1", UNTIL_0_6_7, day=4))
    told = cell_evidence(tile.pk, "0.6.5")
    assert CANDIDATE not in [step.version for step in told.history.steps]
    assert client.get(f"/tiles/{tile.pk}/{CANDIDATE}/").status_code == 200
    told = cell_evidence(tile.pk, CANDIDATE)
    assert [step.version for step in told.history.steps] == ["0.6.3", "0.6.4", CANDIDATE, "0.6.5"]
