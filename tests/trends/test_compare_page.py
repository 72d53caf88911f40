"""Two stacks or GPUs side by side, from stored documents."""

from __future__ import annotations

import csv
import dataclasses
import io

import pytest

from benchapp.catalog.models import Recipe
from benchapp.runs.models import Job, Run
from benchapp.trends import compare_pairs, compare_queries
from tests.querycount import at_most
from tests.trends.compares import NEW, OLD, compare, judged, keep, rows, single, timed
from tests.trends.gemms import H200, STRANGER, gemm

pytestmark = pytest.mark.django_db


def counts(page):
    return {verdict: number for verdict, number in page.context["whole"].counts.items() if number}


def an_invalid_run():
    return Run.objects.create(
        job=Job.objects.create(title="t", source="person"),
        kind="gemm", queue="cpu", state="delivered", recipe=Recipe.objects.create(digest="r", versions={}),
    )  # fmt: skip


def test_pairs_are_counted_in_words_and_the_mean_is_never_alone(client):
    keep(OLD, *(timed(m, 1e-3) for m in (1, 2, 4, 8)), timed(16, 1e-3))
    keep(NEW, timed(1, 1.2e-3), timed(2, 0.9e-3), timed(4, 1e-3), timed(8, 1.03e-3), timed(32, 1e-3))
    page = compare(client)
    assert page.context["summary"] == "1 better, 1 worse, 1 same, 1 uncertain, 2 missing, 0 incorrect."
    assert page.context["speed"] == (
        "Over the 3 that can be compared the geometric mean of the ratio is 1.026 (median 1.000, "
        "middle half 0.95–1.10, best 0.90, worst 1.20)."
    )
    assert rows(page) == {
        1: ("worse", "the interval lies beyond 2\u00a0% plus 2\u00a0% or 0.3\u00a0µs, one process a side")
    }
    assert judged(client)[8][0] == "uncertain" and judged(client)[16] == ("missing", "not measured after")
    assert page.context["missing"] == [
        f"GEMM bf16: 5 cases in flashinfer {OLD}, 5 in flashinfer {NEW}: 1 lost, 1 new"
    ]


def test_gpu_time_is_the_same_and_host_time_uncertain(client):
    """bmm_fp8 of 16 × 4096 × 7168: the kernel takes 8.7 µs in both, what the host adds is no kernel's."""
    same = {"dtype": "fp8", "backend": "flashinfer.bmm_fp8.cublas"}
    keep(OLD, timed(16, 8.7e-6, host=0.079e-3, **same))
    keep(NEW, timed(16, 8.72e-6, host=0.239e-3, **same))
    page = compare(client, show="same")
    [row] = page.context["rows"]
    assert row["row"].verdict == "same" and row["row"].host_verdict == "uncertain"
    assert row["host"].startswith(
        "host time uncertain: 79.0\u00a0µs → 239\u00a0µs; it differs between processes"
    )
    assert page.context["host"] == "Host time, apart from these and in none of them: 1 uncertain."
    assert page.context["libraries"] == ["cuBLAS"] and "cuBLAS computes where the row says so" in (
        page.content.decode()
    )


def test_event_times_that_are_host_time_are_no_speed(client):
    for version, seconds in ((OLD, 0.079e-3), (NEW, 0.239e-3)):
        keep(version, timed(16, seconds, host=seconds * 0.99, timer="cuda_events"))
    page = compare(client)
    assert counts(page) == {"uncertain": 1} and page.context["whole"].spread is None
    assert rows(page)[16][1].startswith("timed by events while the host needed as long")


def test_host_time_that_differs_in_every_process_is_said(client):
    for version, host in ((OLD, 80e-6), (NEW, 240e-6)):
        keep(version, timed(16, 1e-3, host=host, host_processes=(host, host * 1.1, host * 0.95)))
    page = compare(client, show="same")
    assert page.context["rows"][0]["row"].host_verdict == "worse"
    assert "1 worse" in page.context["host"]


def test_what_fresh_processes_differ_by_widens_the_interval(client):
    keep(OLD, timed(16, 1e-3, processes=(0.97e-3, 1e-3, 1.04e-3)), timed(32, 1e-3, processes=(1e-3, 1e-3)))
    keep(
        NEW,
        timed(16, 1.06e-3, processes=(1.03e-3, 1.06e-3)),
        timed(32, 1.03e-3, processes=(1.03e-3, 1.03e-3)),
    )
    assert judged(client) == {
        16: ("uncertain", "the interval holds both same and different"),
        32: ("worse", "the interval lies beyond 2\u00a0%"),
    }


def test_other_runs_of_the_same_stack_widen_it_too(client):
    for day, seconds in ((10, 1e-3), (11, 1.06e-3), (12, 1e-3)):
        keep(OLD, timed(16, seconds), day=day)
    keep(NEW, timed(16, 1.05e-3), day=13)
    assert judged(client) == {
        16: ("uncertain", "the interval holds both same and different, one process a side")
    }


@pytest.mark.parametrize(
    "before, after, why",
    [
        ({"flags": ("throttled",)}, {}, "throttled (before)"),
        ({"flags": ("contended",)}, {"flags": ("contended",)}, "contended (before and after)"),
        ({}, {"flags": ("few_samples",)}, "few samples (after)"),
        ({}, {"flags": ("borrowed",)}, "after borrowed from another version: not measured"),
        ({}, {"timer": "cuda_graph"}, "timers differ: CUPTI and CUDA graph"),
        ({}, {"l2_policy": "warm"}, "L2 policies differ: rotated and warm"),
    ],
)
def test_what_leaves_a_pair_uncertain_says_why(client, before, after, why):
    keep(OLD, timed(16, 1e-3, **before))
    keep(NEW, timed(16, 2e-3, **after))
    page = compare(client)
    assert counts(page) == {"uncertain": 1} and page.context["whole"].spread is None
    assert rows(page) == {16: ("uncertain", why)}


def test_a_wrong_result_is_never_a_speed(client):
    keep(OLD, timed(1, 1e-3), timed(2, 1e-4, outcome="incorrect"), timed(256, 1e-3))
    keep(NEW, timed(1, 1e-4, outcome="incorrect"), timed(2, 1e-3), timed(256, 1e-7))
    page = compare(client)
    assert counts(page) == {"incorrect": 3} and page.context["whole"].spread is None
    assert rows(page) == {
        1: ("incorrect", "became incorrect"),
        2: ("incorrect", "was incorrect and is right now"),
        256: ("incorrect", "became impossible"),
    }
    text = compare(client, format="md").content.decode()
    assert (
        "| incorrect torch.mm |" in text and "| impossible torch.mm |" in text and "100\u00a0µs" not in text
    )


def test_the_best_backend_never_hides_a_wrong_one(client):
    keep(OLD, timed(1, 1e-3, backend="a.cutlass"), timed(1, 2e-3, backend="a.cudnn"))
    keep(NEW, timed(1, 1e-4, backend="a.cutlass", outcome="incorrect"), timed(1, 1.5e-3, backend="a.cudnn"))
    page = compare(client)
    assert counts(page) == {"worse": 1, "incorrect": 1}
    assert [row["row"].after.backend for row in page.context["rows"]] == ["a.cudnn"]
    page = compare(client, pair="backend")
    assert counts(page) == {"better": 1, "incorrect": 1}


def test_failed_and_unsupported_are_missing_and_say_the_librarys_words(client):
    keep(OLD, timed(1, 1e-3), gemm(2, None, outcome="unsupported"), gemm(4, None, outcome="crashed"))
    keep(NEW, gemm(1, None, outcome="unsupported"), timed(2, 1e-3), gemm(4, None, outcome="crashed"))
    page = compare(client)
    assert rows(page) == {
        1: ("missing", "now unsupported: it was unsupported"),
        2: ("missing", "was unsupported: it was unsupported"),
    }
    assert counts(page) == {"missing": 2} and page.context["without_time"] == 1


def test_an_invalid_run_counts_only_where_there_is_no_other_and_then_as_uncertain(client):
    keep(OLD, timed(1, 1e-3))
    run = an_invalid_run()
    keep(NEW, timed(1, 2e-3), run=run)
    Run.objects.update(invalid_reason="the fan was off")
    assert judged(client) == {1: ("uncertain", "its run was marked invalid: the fan was off")}
    keep(NEW, timed(1, 1.001e-3), day=10)
    assert judged(client)[1][0] == "same"


def test_single_values_have_no_interval_and_a_threshold_of_their_own(client):
    keep("0.19.0", single(1, 1e-3), single(2, 1e-3), single(4, 1e-3), component="vllm")
    keep("0.24.0", single(1, 1.04e-3), single(2, 1.06e-3), single(4, 0.9e-3), component="vllm")
    said = "one value each, no interval: threshold 5\u00a0%"
    assert judged(client) == {1: ("same", said), 2: ("worse", said), 4: ("better", said)}


def test_borrowed_numbers_are_nobodys_and_no_page_opens_on_them(client):
    keep("0.19.0", single(1, 1e-3), component="vllm")
    keep("0.22.0", single(1, 5e-4, "borrowed"), component="vllm")
    keep("0.24.0", single(1, 5e-4), component="vllm")
    assert compare(client).context["before"].name == "vllm 0.19.0"
    page = compare(client, a="vllm 0.22.0", b="vllm 0.24.0")
    assert counts(page) == {"uncertain": 1} and page.context["whole"].spread is None


def test_lost_coverage_is_a_list_of_its_own_and_never_slowness(client):
    keep(
        "0.19.0", *(single(m, 1e-3, dtype="fp8_block") for m in (1, 2, 4)), single(8, 1e-3), component="vllm"
    )
    keep("0.24.0", single(4, 1e-3, dtype="fp8_block"), single(8, 1e-3), component="vllm")
    page = compare(client)
    assert counts(page) == {"same": 2, "missing": 2}
    assert page.context["lost"] == ["GEMM fp8_block: 3 cases in vllm 0.19.0, 1 in vllm 0.24.0: 2 lost"]
    assert "Lost coverage, which is no slowness: GEMM fp8_block" in page.content.decode()


def test_backends_that_were_renamed_are_paired_by_the_best_of_each_side(client):
    keep("0.19.0", single(1, 1e-3, backend="vllm_default"), component="vllm")
    keep("0.24.0", single(1, 2e-3, backend="cutlass"), single(1, 3e-3, backend="slow"), component="vllm")
    assert counts(compare(client)) == {"worse": 1}
    [row] = compare(client).context["rows"]
    assert (row["row"].before.backend, row["row"].after.backend) == ("vllm_default", "cutlass")
    assert counts(compare(client, pair="backend")) == {"missing": 3}


def test_two_gpus_are_compared_and_both_ends_linked(client):
    one, other = keep(OLD, timed(1, 1e-3)), keep(OLD, timed(1, 2e-3), target=STRANGER)
    places = dict(compare(client).context["form"].fields["on_b"].choices)
    stranger = next(value for value, label in places.items() if label == "NVIDIA Unheard Of")
    page = compare(client, on_b=stranger)
    assert page.context["apart"] == f"flashinfer {OLD} on NVIDIA H200 → NVIDIA Unheard Of"
    text = page.content.decode()
    assert f"/runs/documents/{one.pk}.json" in text and f"/runs/documents/{other.pk}.json" in text
    assert counts(page) == {"worse": 1}


def test_a_window_of_time_is_a_side(client):
    keep(OLD, timed(1, 1e-3), day=10)
    keep(OLD, timed(1, 1.5e-3), day=12)
    stack = f"flashinfer {OLD}"
    page = compare(client, a=stack, b=stack, until_a="2026-11-11", since_b="2026-11-12")
    # the other run of the same stack is what its spread is made of
    assert rows(page) == {1: ("uncertain", "the interval holds both same and different")}
    assert page.context["before"].window == "until 2026-11-11"
    assert "Both sides are" in compare(client, a=stack, b=stack).content.decode()


def test_filters_and_sorting(client):
    keep(OLD, timed(1, 1e-5), timed(2, 1e-2), timed(4, 1e-3, n=640), timed(8, 1e-3, dtype="fp8"))
    keep(NEW, timed(1, 3e-5), timed(2, 2e-2), timed(4, 2e-3, n=640), timed(8, 2e-3, dtype="fp8"))
    assert next(iter(rows(compare(client)))) == 1 and next(iter(rows(compare(client, sort="time")))) == 2
    assert set(rows(compare(client, shape="640 × 7168"))) == {4}
    assert set(rows(compare(client, dtype="fp8"))) == {8}
    assert set(rows(compare(client, model="DeepSeek-V3"))) == {1, 2, 8}  # FC1: 4096 × 7168
    assert set(rows(compare(client, m="2, 1", kind="gemm"))) == {1, 2}
    assert "No pair of this selection is worse" in compare(client, backend="none").content.decode()


def test_every_link_names_both_sides_so_that_it_means_the_same_next_year(client):
    keep(OLD, timed(1, 1e-3))
    keep(NEW, timed(1, 2e-3))
    page = compare(client)
    for query in [page.context["md"], page.context["csv"], *(tab[3] for tab in page.context["tabs"])]:
        assert f"a=flashinfer+{OLD}" in query and f"b=flashinfer+{NEW}" in query and "on_a=" in query
    assert counts(client.get("/compare/" + page.context["swap"])) == {"better": 1}


def test_markdown_and_csv_hold_the_same(client):
    keep(OLD, timed(1, 1e-3, backend="=cmd|x"), timed(2, 1e-3, backend="\t=1"))
    keep(NEW, timed(1, 2e-3, backend="=cmd|x"), timed(2, 1e-3, backend="\t=1"))
    text = compare(client, format="md").content.decode()
    assert text.startswith(f"**flashinfer {OLD} → {NEW} on NVIDIA H200**")
    assert "1 worse, 1 same" in text and r"=cmd\|x" in text
    assert f"| flashinfer | **{OLD}** | **{NEW}** |" in text and "| torch | 2.11.0 | 2.11.0 |" in text
    answer = compare(client, format="csv")
    found = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert [row["verdict"] for row in found] == ["same", "worse"]
    assert found[0]["backend_after"] == "'\t=1"
    assert found[1]["backend_before"] == "'=cmd|x" and float(found[1]["ratio"]) == pytest.approx(2)


@pytest.mark.parametrize(
    "query",
    [
        {"on_a": "999999999999999999999", "on_b": "model:' OR 1=1", "a": "x", "b": "\x00"},
        {"a": "flashinfer " + "9" * 500, "pair": "all", "sort": "ratio; DROP TABLE runs_run", "show": "x"},
        {"page": "99999999999999999999", "m": "1,-2", "shape": "'; --", "kind": "\x00", "dtype": "\x00"},
        {"m": ",".join(map(str, range(1, 200))), "backend": "<script>alert(1)</script>", "since_a": "soon"},
        {"only_a": "run 999999999999999999", "only_b": "document 0x1", "until_b": "0001-01-01"},
        {"until_a": "9999-12-31", "since_b": "9999-12-31", "page": "-1", "format": "exe"},
        {"page": "10000"},
    ],
)
def test_hostile_parameters_are_named_or_ignored(client, query):
    keep(OLD, timed(1, 1e-3))
    keep(NEW, timed(1, 2e-3))
    page = compare(client, **query)
    assert page.status_code == 200 and "<script>alert" not in page.content.decode()


def test_a_side_without_anything_says_so(client):
    assert "Nothing has been measured yet" in compare(client).content.decode()
    keep(OLD, timed(1, 1e-3))
    assert "Both sides are flashinfer" in compare(client).content.decode()
    page = compare(client, only_b="run 77").content.decode()
    assert "Nothing is stored of the side after" in page


def test_a_comparison_that_takes_too_long_is_refused_in_a_sentence(client, monkeypatch):
    keep(OLD, timed(1, 1e-3))
    keep(NEW, timed(1, 2e-3))
    monkeypatch.setattr(compare_pairs, "_judge_host", lambda: sleep())
    monkeypatch.setattr(compare_pairs, "TIMEOUT_MS", 50)
    answer = compare(client)
    assert answer.status_code == 503 and "takes too long to compare" in answer.content.decode()


def sleep():
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_sleep(5)")


def test_pages_hold_some_rows_and_totals_all_within_a_number_of_queries(client, monkeypatch):
    monkeypatch.setattr(compare_queries, "PAGE", 20)
    keep(OLD, *(timed(m, 1e-3) for m in range(1, 60)))
    keep(NEW, *(timed(m, 2e-3) for m in range(1, 60)))
    with at_most(34):
        page = compare(client, page=3)
    assert len(page.context["rows"]) == 19 and page.context["pages"] == 3 and counts(page) == {"worse": 59}


def test_a_gpu_whose_settings_changed_is_not_compared_with_itself(client):
    keep(OLD, timed(1, 1e-3))
    keep(NEW, timed(1, 2e-3), target=dataclasses.replace(H200, configuration={"power_limit_w": 450}))
    assert judged(client) == {1: ("uncertain", "settings of the GPU differ")}
