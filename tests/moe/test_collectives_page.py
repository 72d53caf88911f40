"""The page of collectives, from stored documents, and the bandwidths by themselves."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.moe.bandwidths import algorithm_bandwidth, bus_bandwidth, bus_factor
from tests.moe.loads import GANG, decode, exchange, store
from tests.querycount import at_most

PAGE = "/moe/collectives/"
STACK = {"torch": "2.11.0+cu130", "nccl": "2.28.9", "flashinfer": "0.6.3"}
SIZES = st.floats(1, 1e12)
TIMES = st.floats(1e-7, 100)


def text(page):
    return page.content.decode().replace("\u00a0", " ").replace("&nbsp;", " ")


@pytest.fixture
def sweep(db):
    vllm = "flashinfer.vllm_all_reduce"
    return store(
        "moe",
        exchange(1, 12e-6), exchange(64, 16e-6), exchange(8192, 200e-6),
        exchange(64, 10e-6, backend=vllm),
        exchange(8192, None, backend=vllm, outcome="unsupported", error="It takes at most 8 MiB."),
        exchange(64, 20e-6, kind="all_to_all"), exchange(64, 40e-6, hidden=6144),
        target=GANG, stack=STACK,
    )  # fmt: skip


def test_without_collectives_the_page_says_how_to_ask(client, db):
    assert 'href="/trigger/?what=moe&amp;suite=collectives-2"' in client.get(PAGE).content.decode()


def test_bandwidths_are_those_of_nccl_tests(client, sweep):
    rows = {
        (row["exchange"].case.tokens, row["exchange"].backend): row
        for row in client.get(PAGE).context["rows"]
    }
    # 64 × 2048 × 2 B in 16 µs; of two ranks as much crosses a link
    assert rows[64, "nccl"]["algorithm"] == rows[64, "nccl"]["bus"] == "16.4\u00a0GB/s"
    swap = client.get(f"{PAGE}?kind=all_to_all").context["rows"]
    assert [(row["algorithm"], row["bus"]) for row in swap] == [("13.1\u00a0GB/s", "6.55\u00a0GB/s")]


def test_the_lede_tells_link_and_peer_access_although_one_gpu_was_measured_since(client, sweep):
    alone = dataclasses.replace(GANG, properties={"gpus": 1})
    store("moe", decode(64, 8e-3, tp=1), target=alone, stack=STACK, day=21)
    page = text(client.get(PAGE))
    assert "Joined by: NVLink, 18 links, every GPU reaches every other’s memory." in page
    assert "1 token (4,096 B) takes 12.0 µs by nccl · 2.28.9" in page
    assert "168 GB/s of bus bandwidth, at 8,192 tokens by nccl · 2.28.9 (33,554,432 B in 200 µs)" in page


def test_what_is_not_supported_is_marked_and_has_no_speed(client, sweep):
    page = client.get(PAGE)
    lines = {line["label"]: line for line in page.context["chart"]["series"]}
    assert [point["x"] for point in lines["▲ no speed"]["points"]] == [32768]
    assert [point["y"] for point in lines["nccl · 2.28.9"]["points"]] == pytest.approx([12, 16, 200])
    assert [point["x"] for point in lines["flashinfer.vllm_all_reduce · 0.6.3"]["points"]] == [256]
    assert "It takes at most 8 MiB." in text(page) and "– unsupported" in text(page)
    assert "The error is that against float64, of the same rows." in text(page)
    assert ">3.0e-3</td>" in text(page)


def test_a_step_counts_two_all_reduces_a_layer(client, sweep):
    store("moe", decode(64, 16e-3), decode(64, 4e-3, layers=8), target=GANG, stack=STACK, day=21)
    page = text(client.get(PAGE))
    assert (
        "Qwen3-30B-A3B at batch 64: 96 all-reduces × 10.0 µs by flashinfer.vllm_all_reduce · 0.6.3 = 960 µs "
        "a step: 6.00 % of the 16.0 ms that its step was measured to take with TP 2 at context 1,024."
    ) in page


def test_without_a_measured_step_it_tells_the_product_alone(client, sweep):
    said = client.get(PAGE).context["in_a_step"]
    assert any("at batch 64" in line and line.endswith("a step.") for line in said)
    assert client.get(f"{PAGE}?kind=all_to_all").context["in_a_step"] == []


def test_a_wrong_sum_is_no_speed(client, db):
    store("moe", exchange(64, 1e-3, outcome="incorrect"), target=GANG, stack=STACK)
    page = client.get(PAGE)
    assert page.context["chart"] is None and "≠ incorrect" in text(page)
    assert "Nothing measured here may stand as a speed." in text(page)


def test_filters_narrow_and_never_come_up_empty(client, sweep):
    page = client.get(f"{PAGE}?hidden=6144")
    assert [row["exchange"].median for row in page.context["rows"]] == [40e-6]
    page = client.get(f"{PAGE}?target=none&ranks=3&kind=gather&hidden=x")
    assert len(page.context["rows"]) == 5 and len(page.context["form"].faults) == 4


def test_the_queries_do_not_grow_with_the_rows(client, sweep):
    client.get(PAGE)
    with at_most(9):
        client.get(PAGE)


@given(SIZES, TIMES, st.integers(2, 64))
def test_a_link_carries_at_most_twice_the_message_and_never_less_than_half_of_it(size, seconds, ranks):
    whole = algorithm_bandwidth(size, seconds)
    reduce, swap = (bus_bandwidth(kind, size, ranks, seconds) for kind in ("all_reduce", "all_to_all"))
    assert 0.5 * whole <= swap < whole <= reduce < 2 * whole
    assert reduce == pytest.approx(2 * swap)


@given(SIZES, TIMES, st.sampled_from(["all_reduce", "all_to_all"]), st.integers(2, 64), st.floats(1.5, 100))
def test_a_longer_time_is_a_smaller_bandwidth(size, seconds, kind, ranks, factor):
    slow, fast = (bus_bandwidth(kind, size, ranks, each) for each in (seconds * factor, seconds))
    assert slow == pytest.approx(fast / factor)


def test_the_factors_of_two_and_eight_gpus():
    assert [bus_factor("all_reduce", n) for n in (2, 8)] == [1, 1.75]
    assert [bus_factor("all_to_all", n) for n in (2, 8)] == [0.5, 0.875]
