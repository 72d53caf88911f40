"""The page of servers under load, from stored documents."""

from __future__ import annotations

import pytest

from tests.moe.loads import EIGHT, VLLM, load, store
from tests.querycount import at_most

pytestmark = pytest.mark.django_db
PAGE = "/moe/serving/"


def text(page):
    return page.content.decode().replace("\u00a0", " ").replace("&nbsp;", " ")


@pytest.fixture
def sweep():
    return store(
        "serving",
        load(1, tpot=0.01, window=40.0),
        load(16, tpot=0.02, window=6.0),
        load(64, tpot=0.04, window=2.0, completed=60, errors={"http_500": 3, "cut": 1}),
        load(256, completed=0, errors={"connection": 256}, outcome="crashed", error="Every request broke."),
        target=EIGHT,
        stack=VLLM,
        notes=("concurrency 64, 1024 in, 256 out: 1.4 tokens come in one piece on average.",),
    )


def test_without_loads_the_page_leads_to_the_endpoints(client):
    page = client.get(PAGE)
    assert "No server has been put under load yet." in text(page)
    assert 'href="/fleet/endpoints/"' in text(page)


def test_a_rate_stands_with_its_numerator_and_window(client, sweep):
    page = text(client.get(PAGE))
    assert "Up to 7,680 tok/s out, 960 tok/s per GPU, at concurrency 64 with vllm 0.11.0" in page
    assert "(15,360 tokens out of 60 requests in 2 s)" in page
    assert "61,560 tokens into 60 requests in 2 s" in page
    assert "30,780 tok/s" in page  # in
    assert "where a user sees 25 tok/s" in page
    assert "told by the server" in page and "aiperf 0.13.0" in page
    assert "1.4 tokens come in one piece" in page


def test_what_failed_keeps_its_place_without_a_speed(client, sweep):
    page = client.get(PAGE)
    assert [row["load"].concurrency for row in page.context["rows"]] == [1, 16, 64, 256]
    failed = page.context["rows"][-1]
    assert failed["out"] == failed["taken"] == failed["user"] == "–"
    assert "Every request broke." in text(page) and "▲ 256 connection" in text(page)
    assert "▲ 3 http 500" in text(page) and "60 of 64 ended well" in text(page)
    assert "1 of 4 loads failed" in text(page)
    assert "4 of 192 requests did not end well" in text(page)


def test_throughput_is_drawn_over_interactivity_and_named_by_concurrency(client, sweep):
    [line] = client.get(PAGE).context["throughput"]["series"]
    assert line["label"] == "vllm 0.11.0"
    assert [point["name"] for point in line["points"]] == ["1", "16", "64"]
    assert [point["x"] for point in line["points"]] == pytest.approx([100, 50, 25])
    assert line["points"][2]["y"] == pytest.approx(960)
    whole = client.get(f"{PAGE}?rate=all").context["throughput"]
    assert whole["series"][0]["points"][2]["y"] == pytest.approx(7680) and whole["y"]["unit"] == "tok/s"


def test_the_first_token_is_drawn_against_concurrency(client, sweep):
    chart = client.get(PAGE).context["first_token"]
    lines = {line["label"]: line for line in chart["series"]}
    assert set(lines) == {"vllm 0.11.0, p50", "vllm 0.11.0, p99", "▲ no speed"}
    assert [point["y"] for point in lines["vllm 0.11.0, p99"]["points"]] == pytest.approx([100, 200, 400])
    assert [point["x"] for point in lines["▲ no speed"]["points"]] == [256]


def test_without_stated_gpus_there_is_no_rate_of_one(client):
    store("serving", load(1, gpus=None), target=EIGHT, stack=VLLM)
    page = client.get(f"{PAGE}?rate=gpu")
    assert "per GPU" not in text(page) and page.context["throughput"]["y"]["unit"] == "tok/s"


def test_two_stacks_are_compared_in_words_and_told_apart(client, sweep):
    newer = {"vllm": "0.12.0", "flashinfer": "0.6.9", "aiperf": "0.13.0"}
    store("serving", load(16, tpot=0.01, window=4.0), load(1, tpot=0.01, window=40.0), target=EIGHT,
          stack=newer, day=21)  # fmt: skip
    page = client.get(PAGE)
    assert (
        "Largest change from vllm 0.11.0 to vllm 0.12.0: at concurrency 16, 2,731 tok/s became 4,096 tok/s, "
        "50.0 % more, TPOT p50 20.0 ms → 10.0 ms. One window a side, without an interval."
    ) in text(page)
    assert [line["label"] for line in page.context["throughput"]["series"]] == ["vllm 0.11.0", "vllm 0.12.0"]


def test_stacks_of_one_engine_are_named_by_what_else_differs(client, sweep):
    store("serving", load(16), target=EIGHT, stack={**VLLM, "flashinfer": "0.6.9"}, day=21)
    names = {row["load"].stack_name for row in client.get(PAGE).context["rows"]}
    assert names == {"vllm 0.11.0, flashinfer 0.6.3", "vllm 0.11.0, flashinfer 0.6.9"}


def test_filters_narrow_and_never_come_up_empty(client, sweep):
    store("serving", load(2, lengths=(128, 32), model="other/model"), target=EIGHT, stack=VLLM, day=19)
    page = client.get(f"{PAGE}?model=other/model")
    assert [row["load"].concurrency for row in page.context["rows"]] == [2]
    page = client.get(f"{PAGE}?model=no/such&lengths=9x9&endpoint=none")
    assert len(page.context["rows"]) == 4 and len(page.context["form"].faults) == 3


def test_the_queries_do_not_grow_with_the_rows(client, sweep):
    client.get(PAGE)
    with at_most(8):
        client.get(PAGE)
