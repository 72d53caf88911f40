"""aiconfigurator's tables: what is stored of each row, borrowed numbers, and what is refused."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from io import StringIO
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from django.core.management import CommandError, call_command
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.alerts.models import Event
from benchapp.catalog.models import Target
from benchapp.ingest.importers import bundle, parquet
from benchapp.ingest.importers.aiconfigurator import find, read
from benchapp.ingest.importers.aiconfigurator_rows import Rows
from benchapp.ingest.importers.base import Claims, ImportFault
from benchapp.people.models import AuditEntry
from benchapp.runs.models import Document, Latest, Measurement, Sample

GPU = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
GEMM = {
    "framework": "VLLM", "version": "0.19.0", "device": GPU, "op_name": "gemm",
    "kernel_source": "vllm_default", "gemm_dtype": "nvfp4", "m": 16, "n": 4096, "k": 6144, "latency": 0.02,
}  # fmt: skip
MOE = {
    "framework": "TRTLLM", "version": "1.3.0rc10", "device": GPU, "op_name": "moe",
    "kernel_source": "moe_torch_flow_cutlass", "moe_dtype": "bfloat16", "num_tokens": 16,
    "hidden_size": 2048, "inter_size": 768, "topk": 8, "num_experts": 128, "moe_tp_size": 1,
    "moe_ep_size": 4, "distribution": "power_law_1.01", "latency": 0.05,
}  # fmt: skip
SAMPLES = Path(__file__).resolve().parents[4] / "shared/samples/aiconfigurator/rtx_pro_6000_server"


def table(path: Path, *rows: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(list(rows)), path)
    return path


def gemm(folder: Path, *changes: dict[str, Any], version: str = "0.19.0") -> Path:
    """A gemm_perf.parquet of a version with its collection_meta.yaml."""
    here = folder / "gemm" / "vllm" / version
    path = table(here / "gemm_perf.parquet", *({**GEMM, "version": version, **change} for change in changes))
    (here / "collection_meta.yaml").write_text(
        f"schema_version: 1\nprovenance: collected\nruntime: {{framework: vllm, version: {version}}}\n"
        "tables:\n  gemm_perf:\n    status: complete\n"
    )
    return path


def borrow(folder: Path, version: str, lender: str) -> Path:
    reuse = folder / "gemm" / "vllm" / version / "reuse.yaml"
    reuse.parent.mkdir(parents=True, exist_ok=True)
    reuse.write_text(f"reuse:\n- table: gemm_perf\n  from_version: {lender}\n")
    return reuse


def fault(path: Path, **claims: Any) -> str:
    with pytest.raises(ImportFault) as caught:
        read(path, Claims(**claims))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def rows_of(path: Path) -> tuple[list[Any], Rows]:
    opened = Rows(read(path, Claims()).body)
    return [item for batch in opened.batches() for item in batch], opened


class Said:
    def __init__(self, *words: str | Path, **options: Any) -> None:
        out, err = StringIO(), StringIO()
        self.error = ""
        try:
            call_command("import", "aiconfigurator", *map(str, words), stdout=out, stderr=err, **options)
        except CommandError as error:
            self.error = str(error)
        self.out, self.err = out.getvalue(), err.getvalue()


# what a row becomes


def test_a_gemm_row_becomes_an_unverified_measurement_of_a_known_case(tmp_path: Path):
    [one], opened = rows_of(gemm(tmp_path, {}))
    assert (one.kind, one.outcome, one.l2_policy, one.timer) == ("gemm", "unverified", "unknown", None)
    assert one.params == {"m": 16, "n": 4096, "k": 6144, "dtype": "nvfp4", "layout": "nt", "out": "bf16"}
    assert (one.statistics.n, one.statistics.median) == (1, pytest.approx(20e-6))
    assert (one.backend, one.flags, one.samples) == ("vllm.vllm_default", ("imported",), ())
    assert one.flops == 2 * 16 * 4096 * 6144
    assert opened.document.stack == {"vllm": "0.19.0"}
    target = opened.document.target
    assert (target.model, target.arch, target.host) == (GPU, "sm120", "aiconfigurator")
    assert target.uuid == "GPU-imported-aiconfigurator-rtx-pro-6000-blackwell-server"
    assert opened.document.finished_at.timestamp() == pytest.approx(
        (tmp_path / "gemm/vllm/0.19.0/gemm_perf.parquet").stat().st_mtime, abs=1
    )
    assert "collection_meta.yaml says: provenance collected, table complete." in opened.document.notes
    assert "The file names no date: measured_at is its time of change." in opened.document.notes


def test_a_moe_row_keeps_its_routing_its_share_and_its_kernel(tmp_path: Path):
    long = "vllm_compressedtensorsw4a4nvfp4moe_flashinfer_cutlass_flashinferexperts"
    plain = {**MOE, "kernel_source": "moe_torch_flow_nongated"}
    path = table(tmp_path / "moe_perf.parquet", MOE, plain, {**MOE, "kernel_source": long})
    items, _ = rows_of(path)
    assert [item.kind for item in items] == ["moe"] * 3
    assert items[0].params == {
        "tokens": 16, "hidden": 2048, "inter": 768, "topk": 8, "experts": 128, "tp": 1, "ep": 4,
        "activation": "gated", "distribution": "power_law_1.01", "dtype": "bf16",
    }  # fmt: skip
    assert items[1].params["activation"] == "plain"
    assert items[1].flops == pytest.approx(items[0].flops * 2 / 3)
    assert items[2].backend == f"trtllm.{long}"


def test_rows_of_one_case_and_kernel_are_samples_of_one_measurement(tmp_path: Path):
    path = table(tmp_path / "moe_perf.parquet", MOE, {**MOE, "num_tokens": 1}, {**MOE, "latency": 0.07})
    items, opened = rows_of(path)
    assert [item.statistics.n for item in items] == [2, 1]
    assert items[0].samples == pytest.approx((5e-5, 7e-5))
    assert items[0].statistics.median == pytest.approx(6e-5)
    assert (opened.tally.rows, opened.tally.stored, opened.tally.repeated) == (3, 2, 1)


def test_every_row_is_accounted_for_by_reason(tmp_path: Path):
    bad: list[dict[str, Any]] = [
        {"latency": -1.0}, {"latency": math.nan}, {"latency": math.inf}, {"latency": None, "m": 7},
        {"m": 0}, {"m": None}, {"gemm_dtype": "int4_wo"}, {"n": 2**40},
    ]  # fmt: skip
    items, opened = rows_of(gemm(tmp_path, {}, *bad, {"gemm_dtype": "bfloat16"}))
    assert len(items) == opened.tally.stored == 2
    assert opened.tally.rows == 10 == 2 + opened.tally.repeated + opened.tally.left_out.total()
    assert opened.tally.left_out == {
        "latency is no time from 1e-09 to 100000 s.": 4,
        "row.m: expected a whole number from 1 to 1,048,576.": 1,
        "row.n: expected a whole number from 1 to 1,048,576.": 1,
        "m is missing.": 1,
        "int4_wo is no format that is known here.": 1,
    }
    assert items[0].statistics.n == 1  # the faulty latencies of its case are left out


def test_wide_expert_parallelism_is_read_where_its_work_is_that_of_the_layer(tmp_path: Path):
    wide = {
        **MOE, "op_name": "wideep_moe", "moe_kernel": "cutlass", "num_slots": 128, "rank0_num_tokens": 9,
        "simulation_mode": "accurate",
    }  # fmt: skip
    path = table(
        tmp_path / "wideep_moe_perf.parquet",
        wide,
        {**wide, "rank0_num_tokens": 11},
        {**wide, "num_slots": 160},
        {**wide, "simulation_mode": "simple"},
    )
    items, opened = rows_of(path)
    assert [item.statistics.n for item in items] == [2]
    assert opened.tally.left_out.total() == 2
    assert "Columns not read: moe_kernel, rank0_num_tokens." in opened.document.notes


# borrowed numbers


@pytest.mark.django_db
def test_borrowed_numbers_are_flagged_and_never_the_newest_of_a_series(tmp_path: Path):
    gemm(tmp_path, {}, {"m": 32})
    borrow(tmp_path, "0.22.0", "0.19.0")
    said = Said(tmp_path)
    assert said.error == said.err == ""
    assert "2 tables: 4 rows read = 4 stored + 0 repeated + 0 left out." in said.out
    assert "Borrowed: these are the numbers of vllm 0.19.0." in said.out
    flags = Measurement.objects.values_list("stack__components__vllm", "flags")
    assert sorted(flags) == [
        ("0.19.0", ["imported"]), ("0.19.0", ["imported"]),
        ("0.22.0", ["borrowed", "imported"]), ("0.22.0", ["borrowed", "imported"]),
    ]  # fmt: skip
    own = Measurement.objects.filter(stack__components__vllm="0.19.0").values_list("id", flat=True)
    assert set(Latest.objects.values_list("good_measurement_id", flat=True)) == set(own)


def test_a_table_that_cannot_be_borrowed_is_told(tmp_path: Path):
    gemm(tmp_path, {})
    place = borrow(tmp_path, "0.22.0", "0.20.0").with_name("gemm_perf.parquet")
    assert fault(place) == "reuse.yaml borrows gemm_perf from 0.20.0, which has no gemm_perf.parquet"
    assert fault(place.with_name("moe_perf.parquet")) == "is neither there nor named by reuse.yaml"
    for text, said in {
        "reuse: []": "reuse.yaml: expected a list of tables at reuse",
        "[": "reuse.yaml is not whole YAML",
        "- 1": "reuse.yaml: expected a mapping at the top",
        "reuse: [{table: gemm_perf, from_version: ../../..}]": "reuse.yaml: expected the version that"
        " gemm_perf is borrowed from, such as 1.3.0rc10",
        'reuse: !!int ""': "reuse.yaml: expected a list of tables at reuse",
        "? [a]: b": "reuse.yaml is not whole YAML",
        "reuse: [{table: ../x, from_version: 1.0.0}]": "reuse.yaml: expected the name of a table, such as"
        " gemm_perf",
    }.items():
        place.with_name("reuse.yaml").write_text(text)
        assert find(tmp_path)[-1].name == "reuse.yaml"
        assert fault(place.with_name("reuse.yaml")) == said


# the inbox


@pytest.mark.django_db
def test_an_import_keeps_the_files_as_they_came_and_raises_no_event(tmp_path: Path):
    path = gemm(tmp_path, {}, {"latency": 0.03})
    said = Said(path)
    assert "stored as document" in said.out and "vllm 0.19.0 on sm120." in said.out
    assert "2 rows read = 1 stored + 1 repeated + 0 left out." in said.out
    row = Document.objects.get(origin=Document.Origin.IMPORT)
    assert (row.state, row.kind) == (Document.State.ACCEPTED, "gemm")
    _, files = bundle.unpack(bytes(row.body))
    assert files["gemm_perf.parquet"] == path.read_bytes()
    assert row.facts["rows"] == {"rows": 2, "stored": 1, "repeated": 1, "left_out": {}}
    assert row.facts["summary"].startswith("gemm vllm=0.19.0 sm120: 1 case, 1 unverified")
    assert Sample.objects.get().values == pytest.approx([2e-5, 3e-5])
    assert AuditEntry.objects.get(action="import").detail["format"] == "aiconfigurator"
    assert not Event.objects.exists()


@pytest.mark.django_db
def test_the_same_table_changes_nothing_whatever_its_date_and_folder(tmp_path: Path):
    path = gemm(tmp_path, {})
    Said(path)
    os.utime(path, (1_700_000_000, 1_700_000_000))
    path.rename(tmp_path / "gemm_perf.parquet")
    assert "known already as document" in Said(tmp_path / "gemm_perf.parquet").out
    assert "known already as document" in Said(tmp_path, dry_run=True).out
    assert Document.objects.count() == Measurement.objects.count() == 1


@pytest.mark.django_db
def test_a_dry_run_counts_every_row_and_stores_nothing(tmp_path: Path):
    said = json.loads(Said(gemm(tmp_path, {}, {"m": 0}), dry_run=True, json=True).out)
    [result] = said["results"]
    assert (result["state"], result["release"], result["arch"]) == ("new", "vllm 0.19.0", "sm120")
    assert result["rows"]["stored"] == 1 and sum(result["rows"]["left_out"].values()) == 1
    assert not Document.objects.exists() and not Target.objects.exists()


@pytest.mark.django_db
def test_a_table_that_is_refused_stops_no_other(tmp_path: Path):
    gemm(tmp_path, {})
    gemm(tmp_path, {"m": 0}, version="0.24.0")
    (tmp_path / "attention_perf.parquet").write_bytes(b"PAR1")
    said = Said(tmp_path)
    assert said.error == "2 of 3 paths were not imported."
    assert "holds nothing that can be stored. 1 row read = 0 stored + 0 repeated + 1 left out." in said.err
    assert "is none of the tables that are read: gemm_perf, moe_perf, wideep_moe_perf" in said.err
    assert Document.objects.count() == Measurement.objects.count() == 1
    assert not Event.objects.exists()


# what cannot be read


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([{"m": "16"}], "column m: expected whole numbers, found string"),
        ([{"m": 1.5}], "column m: expected whole numbers, found double"),
        ([{"latency": "fast"}], "column latency: expected numbers, found string"),
        ([{"device": 1}], "column device: expected text, found int64"),
        ([{}, {"device": "NVIDIA H200"}], "column device: expected one value in all rows,"
         f" found {GPU}, NVIDIA H200"),
        ([{"version": None}], "column version: expected text, found null"),
        ([{"op_name": "moe"}], "column op_name: expected gemm, found 'moe'"),
        ([{"framework": "a b"}], "column framework: 'a b' is no name of one"),
        ([{"kernel_source": "x" * 201}], "column kernel_source: a text is longer than 200 characters"),
        ([{"device": "NVIDIA Unheard-of"}], "the table names no architecture (NVIDIA Unheard-of is not known"
         " here): give it with --gpu, such as sm120"),
    ],
)  # fmt: skip
def test_a_table_of_another_shape_is_told_by_its_column(
    tmp_path: Path, changes: Sequence[dict[str, Any]], said: str
):
    assert fault(table(tmp_path / "gemm_perf.parquet", *({**GEMM, **change} for change in changes))) == said


def test_what_is_no_table_at_all_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = gemm(tmp_path, {})
    whole = path.read_bytes()
    assert fault(tmp_path / "gemm_perf.parquet") == "No such file or directory"
    with pytest.raises(ImportFault, match="no such file or directory"):
        find(tmp_path / "nowhere")
    assert fault(path, stack={"vllm": "1"}).startswith("names its versions and formats itself")
    for body in (b"PAR1", b"no parquet", whole[:-9], whole[:200] + whole[260:], b"PK\x03\x04"):
        path.write_bytes(body)
        assert fault(path) == "is no parquet file, or not a whole one"
    path.write_bytes(whole.replace(b"vllm_default", b"vllm_\xffefault"))
    assert fault(path) == "is no parquet file, or not a whole one"
    path.write_bytes(whole.replace(b"vllm_default", b"vllm_\0efault"))
    assert fault(path) == "column kernel_source: a text holds a NUL character"
    path.write_bytes(b"")
    assert fault(path) == "the file is empty"
    path.write_bytes(whole)
    assert fault(path, gpu="H200 SXM").startswith(f"the table says {GPU}, but --gpu says H200 SXM")
    pq.write_table(pa.Table.from_pylist([GEMM]).drop_columns(["m", "latency"]), path)
    assert fault(path) == "expected one column each of m, latency"
    pq.write_table(pa.Table.from_pylist([GEMM]).slice(0, 0), path)
    assert fault(path) == "holds no rows"
    link = path.parent.parent / "0.24.0" / "gemm_perf.parquet"
    link.parent.mkdir()
    link.symlink_to(path)
    assert fault(link) == "is a link, and links are not followed"
    with pytest.raises(ImportFault, match=r"holds no \.parquet file"):
        find(_empty(tmp_path))
    monkeypatch.setattr(parquet, "MAX_UNPACKED_BYTES", 100)
    path.write_bytes(whole)
    assert fault(path) == "unpacks to more than 100 bytes, the most that is read"


@pytest.mark.parametrize(
    "provenance, said",
    [
        ("collected", "collected"),
        ("!!timestamp never", "never"),
        (f"0x{'f' * 5000}", "0x" + "f" * 37 + "…"),
        ("[*a]", "no word"),
    ],
)
def test_what_stands_beside_a_table_is_quoted_as_text_and_short(tmp_path: Path, provenance: str, said: str):
    """Nine levels of ten references each would be written out as 10⁹ words."""
    path = gemm(tmp_path, {})
    levels = "abcdefghi"
    lists = "i: &i [x]\n" + "".join(
        f"{name}: &{name} [{','.join([f'*{below}'] * 10)}]\n"
        for name, below in zip(levels[-2::-1], levels[:0:-1], strict=True)
    )
    path.with_name("collection_meta.yaml").write_text(f"{lists}provenance: {provenance}\n")
    notes = Rows(read(path, Claims()).body).document.notes
    assert f"collection_meta.yaml says: provenance {said}, table nothing." in notes


def _empty(tmp_path: Path) -> Path:
    folder = tmp_path / "empty"
    folder.mkdir()
    return folder


def test_more_rows_than_a_document_may_have_are_refused_before_they_are_read(tmp_path: Path):
    many = parquet.MAX_ROWS + 1
    columns = {
        name: pa.array([value]).take(pa.nulls(many, pa.int32()).fill_null(0)) for name, value in GEMM.items()
    }
    path = tmp_path / "gemm_perf.parquet"
    pq.write_table(pa.table(columns), path)
    assert path.stat().st_size < 100_000
    assert fault(path) == "holds 500,001 rows; a table may have 500,000"


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=300), st.integers(0, 2_000), st.integers(0, 2_000))
def test_whatever_a_file_holds_there_is_a_table_or_one_sentence(
    tmp_path_factory: pytest.TempPathFactory, noise: bytes, start: int, length: int
):
    path = table(tmp_path_factory.getbasetemp() / "any" / "gemm_perf.parquet", GEMM)
    whole = path.read_bytes()
    path.write_bytes(whole[:start] + noise + whole[start + length :])
    try:
        items, opened = rows_of(path)
    except ImportFault as told:
        assert str(told) and "\n" not in str(told)
    else:
        assert opened.tally.rows == len(items) + opened.tally.repeated + opened.tally.left_out.total()


@given(st.binary(max_size=400))
def test_no_archive_of_strangers_is_taken_for_a_bundle(noise: bytes):
    good = bundle.pack({"format": "aiconfigurator", "table": "gemm_perf"}, {"gemm_perf.parquet": noise})
    for body in (noise, bundle.MAGIC + noise, good):
        with pytest.raises(ImportFault):
            Rows(body)


# the recorded set


@pytest.mark.django_db
def test_the_samples_of_an_rtx_pro_6000_are_stored_whole_and_nothing_is_impossible(tmp_path: Path):
    wide = SAMPLES / "moe" / "trtllm" / "1.3.0rc10" / "wideep_moe_perf.parquet"
    dense = SAMPLES / "gemm" / "vllm" / "0.24.0" / "gemm_perf.parquet"
    if not wide.exists() or not dense.exists():
        pytest.skip("aiconfigurator's samples are not beside this checkout")
    part = tmp_path / "gemm_perf.parquet"
    pq.write_table(pq.read_table(dense).slice(90_000, 1_000), part)
    said = Said(wide, part)
    assert said.error == ""
    assert "1,350 rows read = 1,080 stored + 270 repeated + 0 left out." in said.out
    assert "1,000 rows read = 1,000 stored + 0 repeated + 0 left out." in said.out
    stored = Measurement.objects.all()
    assert stored.count() == 2_080 and not stored.filter(flags__contains=["impossible"]).exists()
    assert Latest.objects.filter(good_measurement_id=None).count() == 0
