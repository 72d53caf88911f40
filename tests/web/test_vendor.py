import json
import shutil

import pytest

from benchapp.web import vendor


def test_every_library_is_as_recorded():
    assert vendor.check() == []


def test_each_package_names_version_licence_and_sums():
    for package in json.loads(vendor.LIST.read_text()):
        assert package["version"] and package["licence"] and len(package["archive_sha256"]) == 64
        assert any("LICENSE" in file["name"] for file in package["files"])


def test_no_source_map_is_left():
    assert not [p.name for p in vendor.FOLDER.glob("*.js") if b"sourceMappingURL" in p.read_bytes()]


@pytest.fixture
def copy(tmp_path, monkeypatch):
    folder = tmp_path / "vendor"
    shutil.copytree(vendor.FOLDER, folder)
    monkeypatch.setattr(vendor, "FOLDER", folder)
    monkeypatch.setattr(vendor, "LIST", folder / "VENDOR.json")
    return folder


def test_check_names_what_was_changed_lost_or_added(copy):
    (copy / "htmx.min.js").write_text("other")
    (copy / "chart.umd.min.js").unlink()
    (copy / "stranger.js").write_text("")
    faults = "\n".join(vendor.check())
    assert "htmx.min.js: sha256 is" in faults
    assert "chart.umd.min.js is missing." in faults
    assert "stranger.js is not on record" in faults
