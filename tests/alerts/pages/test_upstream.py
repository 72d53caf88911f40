"""The report for maintainers: complete, pasteable, and nothing private in it."""

from __future__ import annotations

import dataclasses

import pytest

from benchapp.alerts import upstream
from benchapp.alerts.models import Alert, Bisect, BisectStep
from tests.alerts.pages import made
from tests.trends.gemms import H200

pytestmark = pytest.mark.django_db
PRIVATE = dataclasses.replace(H200, host="secret-box", uuid="GPU-0123abcd-4567-89ab-cdef-0123456789ab")


def report(client, alert):
    response = client.get(f"/alerts/{alert.pk}/upstream.md")
    assert response.status_code == 200 and response["Content-Type"] == "text/plain; charset=utf-8"
    return response.content.decode()


def test_it_has_versions_numbers_intervals_samples_verdicts_and_bisect(client):
    change = made.moved(16)
    alert = made.alert(change)
    made.compared(alert, change)
    Alert.objects.filter(pk=alert.pk).update(verdict="SLOW")
    bisect = Bisect.objects.create(
        alert=alert, series=change.series, component="torch", versions=["2.10.0", "2.11.0"], state="found",
        first_bad="2.11.0",
    )  # fmt: skip
    BisectStep.objects.create(
        bisect=bisect, number=1, old_version="2.10.0", new_version="2.11.0", verdict="SLOW",
        comparison=made.compared(None, change),
    )  # fmt: skip
    text = report(client, alert).replace("\u00a0", " ")
    for said in (
        "## `gemm bf16 16 × 4096 × 7168`: 1.200× the time with `torch` `2.10.0` → `2.11.0`",
        "| **`torch`** | **`2.10.0`** | **`2.11.0`** |", "- GPU: `NVIDIA H200`", "Timer: CUDA graph",
        "L2: rotated", "| GPU time | 10.0 µs | 12.0 µs | 1.200× | 1.188× to 1.212× | 6 + 6 |",
        "| SLOW | 1.180× | 1.160× to 1.200× | 8 |", "First `torch` with it: `2.11.0`.", "**SLOW**",
    ):  # fmt: skip
        assert said in text, said


def test_nothing_private_is_in_it(client, ann):
    change = made.moved(16, target=PRIVATE, backend="torch.mm on secret-box at https://internal.example/x")
    alert = made.alert(
        change, title="on secret-box", sentence="box secret-box", host=made.host("secret-box"),
        evidence={"host": "secret-box"},
    )  # fmt: skip
    Alert.objects.filter(pk=alert.pk).update(
        assignee=ann, upstream_url="https://internal.example/1", confirm_sentence="on secret-box"
    )
    text = report(client, alert)
    for secret in ("secret-box", "GPU-0123", "0123456789ab", "internal.example", "ann", "testserver"):
        assert secret not in text, secret


@pytest.mark.parametrize(
    ("private", "kept"),
    [
        ("GPU-1a2b3c4d at box", "at"),
        ("10.1.2.3:8000 refused", "refused"),
        ("/home/ann/run.json bf16", "bf16"),
        ("ann@corp.example m=16", "m=16"),
        ("http://corp.example/a?b 4096x7168", "4096x7168"),
    ],
)
def test_places_are_taken_out(private, kept):
    said = upstream.code(private, ["box"])
    assert kept in said and private.replace(kept, "").strip().split()[0] not in said


def test_versions_and_labels_stay_as_they_are():
    for text in (
        "2.11.0+cu130",
        "0.6.18.post1",
        "580.95.05",
        "9.10.2.21",
        "gemm bf16 16 × 4096 / tp 2",
        "cutlass-dsl",
    ):
        assert upstream.version(text, ["box"]) == f"`{text}`"


def test_long_text_is_read_in_one_go():
    for text in ("a" * 200_000, "a." * 100_000, "a-" * 100_000):
        assert upstream.private(text) == text


def test_markdown_and_html_of_a_label_stay_text():
    hostile = "a|b `c` <img src=x> @team #12 [x](http://e.example)\n## heading"
    said = upstream.code(hostile)
    assert said.startswith("`") and said.endswith("`") and said.count("`") == 2
    assert "\n" not in said and "\\|" in said and "e.example" not in said


def test_an_alert_without_figures_has_a_report_too(client):
    text = report(client, made.alert(kind=Alert.Kind.COVERAGE))
    assert text.startswith("## Coverage lost\n") and "not about the speed" in text


def test_what_a_library_got_wrong_is_tabled_without_places(client):
    made.host("secret-box")
    cases = [
        {"case": f"bmm_fp8 {n}", "cosine": 0.412, "host": "secret-box", "said": "at /home/ann/x.py @all"}
        for n in range(30)
    ]
    text = report(client, made.alert(kind=Alert.Kind.CORRECTNESS, evidence={"cases": cases}))
    assert "| case | cosine | said |" in text and "`bmm_fp8 0`" in text and "And 10 more." in text
    assert "secret-box" not in text and "ann" not in text
    text = report(client, made.alert(kind=Alert.Kind.SCHEDULE, evidence={"told": ["secret-box"]}))
    assert "secret-box" not in text and "Told" not in text
