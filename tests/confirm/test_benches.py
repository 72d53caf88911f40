"""What an A/B needs of the benches that it runs: builds that are not kept, overheads that are told."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from workers.bench.cli import main
from workers.bench.modules import build, table

NORM = next(module for module in table.TABLE if module.name == "norm")


@pytest.mark.parametrize("keep", [True, False])
def test_a_build_that_is_not_kept_leaves_the_environment_as_it_is(keep, tmp_path, monkeypatch):
    made, kept = tmp_path / "jit" / "norm.so", tmp_path / "aot" / "norm.so"

    def compiled(verbose: bool) -> None:
        made.parent.mkdir()
        made.write_bytes(b"x" * 40)

    spec = SimpleNamespace(name="norm", build=compiled, aot_path=kept, jit_library_path=made)
    monkeypatch.setattr(table, "describe", lambda torch, module: spec)
    built = build.build(None, NORM, keep=keep)
    assert (built.outcome, built.size, kept.exists()) == ("unverified", 40, keep)


@pytest.mark.parametrize("told", ["cuda_graph", "cuda_graph=fast", "stopwatch=1e-7", "cupti=nan", "cupti=2"])
def test_an_overhead_that_is_none_is_refused(told, tmp_path: Path, capsys):
    words = ["gemm", "--shape", "16x64x128:bf16", "--overhead", told, "--out", str(tmp_path / "out.json")]
    assert main(words) == 1
    assert (
        f"--overhead {told}: expected cupti, cuda_graph, cuda_events and seconds." in capsys.readouterr().err
    )
