"""The page of whole models' steps, from stored documents."""

from __future__ import annotations

import dataclasses

import pytest

from tests.moe.loads import GANG, decode, store
from tests.querycount import at_most
from tests.trends.gemms import gemm
from tests.trends.gemms import store as store_gemms

PAGE = "/moe/"
OLD, NEW = ({"flashinfer": version, "torch": "2.11.0"} for version in ("0.6.13", "0.6.18"))
ONE = dataclasses.replace(GANG, properties={"gpus": 1})


def text(page):
    return page.content.decode().replace("\u00a0", " ").replace("&nbsp;", " ")


def traced(batch, seconds, parts, **options):
    made = decode(batch, seconds, **options)
    step = dataclasses.replace(
        made.step, parts=parts, libraries={"flashinfer": sum(parts.values()) - parts["gaps"]},
        traced_s=sum(parts.values()), kernels=1000, overlap_s=0.0,
    )  # fmt: skip
    return dataclasses.replace(made, step=step)


@pytest.fixture
def two_versions(db):
    store(
        "moe", traced(64, 10e-3, {"fc1": 6e-3, "fc2": 3e-3, "gaps": 1e-3}, tp=1),
        decode(1, 4e-3, tp=1), target=ONE, stack=OLD, day=20,
    )  # fmt: skip
    store(
        "moe", traced(64, 8e-3, {"fc1": 4e-3, "fc2": 3e-3, "gaps": 1e-3}, tp=1),
        decode(1, 4e-3, tp=1), target=ONE, stack=NEW, day=21,
    )  # fmt: skip


def test_without_a_measured_model_the_page_says_how_to_ask(client, db):
    assert 'href="/trigger/?what=moe"' in client.get(PAGE).content.decode()


def test_the_first_words_tell_rate_change_and_part(client, two_versions):
    page = text(client.get(PAGE))
    assert "8,000 tok/s at batch 64 with 0.6.18" in page and "64 tokens a step × 200 steps in 1.6 s" in page
    assert "25.0 % more than with 0.6.13: faster" in page
    assert "Shrank most: FC1 (gate, up), by 2 ms a step." in page


def test_slices_stand_apart_and_say_so_beside_each_figure(client, two_versions):
    store("moe", decode(64, 1e-3, layers=8, tp=1), target=ONE, stack=NEW, day=22)
    groups = client.get(PAGE).context["groups"]
    assert [group["name"] for group in groups] == ["whole", "slice"]
    assert {row["point"].case.layers for row in groups[0]["rows"]} == {48}
    assert groups[1]["rows"][0]["rate"] == "10,667"
    assert "8 of 48 layers, projected" in groups[1]["headline"]
    notes = [point["note"] for line in groups[1]["rate"]["series"] for point in line["points"]]
    assert notes and all("8 of 48 layers, projected" in note for note in notes)


def test_a_failure_keeps_its_place_and_a_hostile_error_is_text(client, two_versions):
    broken = dataclasses.replace(
        decode(256, 1e-3, tp=1), outcome="crashed", error="<script>alert(1)</script>", step=None, samples=(),
        statistics=None, timer=None, correctness=None, l2_policy="unknown",
    )  # fmt: skip
    store("moe", broken, target=ONE, stack=NEW, day=22)
    page = text(client.get(PAGE))
    assert "▲ crashed" in page and "&lt;script&gt;" in page and "<script>alert" not in page


def test_more_gpus_tell_their_scaling_efficiency(client, two_versions):
    store("moe", decode(64, 5e-3, tp=2), target=GANG, stack=NEW, day=22)
    scaled = client.get(PAGE).context["groups"][0]["scaled"]
    assert [(p.gpus, share) for p, _, share in scaled if p.version == "0.6.18"] == [
        (1, 1.0),
        (2, pytest.approx(0.8)),
    ]


def test_what_cannot_be_chosen_is_named_and_the_default_shown(client, two_versions):
    page = client.get(f"{PAGE}?model=%3Cb%3E&batch=x&layout=9x9")
    assert page.status_code == 200 and len(page.context["form"].faults) == 3


def test_many_versions_are_cut_and_the_queries_do_not_grow(client, two_versions):
    for minor in range(5):
        store("moe", decode(64, 9e-3, tp=1), target=ONE, stack={**OLD, "flashinfer": f"0.5.{minor}"})
    page = client.get(PAGE)
    assert page.context["not_shown"] == ["0.5.2", "0.5.1", "0.5.0"]
    older = client.get(f"{PAGE}?until=0.5.2").context
    assert {row["point"].version for row in older["groups"][0]["rows"]} == {"0.5.2", "0.5.1", "0.5.0"}
    assert "0.6.18" in older["not_shown"]
    with at_most(12):
        client.get(PAGE)


def test_a_version_without_a_speed_does_not_hide_the_one_before(client, two_versions):
    failed = dataclasses.replace(
        decode(64, 1e-3, tp=1), outcome="oom", error="It needs 200 GiB.", step=None, samples=(),
        statistics=None, timer=None, correctness=None, l2_policy="unknown",
    )  # fmt: skip
    store("moe", failed, target=ONE, stack={**OLD, "flashinfer": "0.6.15"}, day=22)
    page = text(client.get(PAGE))
    assert "25.0 % more than with 0.6.13: faster" in page and "It needs 200 GiB." in page


def test_the_largest_part_that_grew_is_told_in_time_and_percent(client, two_versions):
    slower = traced(64, 9e-3, {"fc1": 4e-3, "fc2": 3e-3, "attention": 1e-3, "gaps": 1e-3}, tp=1)
    worse = traced(64, 9.5e-3, {"fc1": 4e-3, "fc2": 3e-3, "attention": 1.5e-3, "gaps": 1e-3}, tp=1)
    store("moe", slower, target=ONE, stack={**OLD, "flashinfer": "0.6.20"}, day=22)
    store("moe", worse, target=ONE, stack={**OLD, "flashinfer": "0.6.21"}, day=23)
    assert "From 0.6.20 to 0.6.21 grew: attention by 500 µs (+50.0%)." in text(client.get(PAGE))


def test_a_prefill_takes_tokens_in_and_has_no_user(client, db):
    made = decode(2, 1.0, tp=1)
    params = {**made.params, "batch": 2, "context": 1024}
    prefill = dataclasses.replace(
        made, kind="prefill", params=params, step=dataclasses.replace(made.step, tokens=2048 * 200)
    )
    store("moe", prefill, target=ONE, stack=NEW)
    page = client.get(PAGE)
    assert "2,048 tokens a prefill × 200 prefills in 200 s" in text(page)
    assert page.context["groups"][0]["users"] is None


def test_kernels_alone_link_only_where_they_were_timed(client, two_versions):
    alone = dict(client.get(PAGE).context["alone"])
    assert alone and not any(alone.values())
    stored = store_gemms(gemm(64, 1e-4, n=5120, k=2048), target=ONE)
    alone = dict(client.get(PAGE).context["alone"])
    assert [name for name, address in alone.items() if address] == ["qkv 5,120 × 2,048"]
    trends = client.get(alone["qkv 5,120 × 2,048"])
    assert trends.context["target"] == stored.target and trends.context["form"].faults == []


def test_hostile_and_huge_figures_stay_numbers(client, db):
    made = decode(64, 1e-9, tp=1)
    step = dataclasses.replace(
        made.step, tokens=2**53, steps=2**31 - 1, window_s=1e7, weight_bytes=2**53, kv_bytes=2**53,
        power_w=1e-9, experts_hit=65536.0, left_out=("<img src=x>",),
    )  # fmt: skip
    store("moe", dataclasses.replace(made, step=step, flops=1e18, bytes=1e18), target=ONE, stack=NEW)
    page = text(client.get(PAGE))
    assert "NaN" not in page and "Infinity" not in page and ">inf" not in page
    assert "<img src=x>" not in page and "&lt;img src=x&gt;" in page


def test_experts_of_our_own_are_told_apart_from_what_is_around_them(client, db):
    made = traced(64, 10e-3, {"attention": 2e-3, "fc1": 7e-3, "gaps": 1e-3}, tp=1)
    step = dataclasses.replace(made.step, libraries={"flashinfer": 1.5e-3, "torch": 0.5e-3, "triton": 7e-3})
    store("moe", dataclasses.replace(made, step=step), target=ONE, stack=NEW)
    page = text(client.get(PAGE))
    assert "measured libraries 15.0% / torch, Triton and CUDA copies 75.0% / gaps 10.0%" in page
    assert "beside its 70.0% kernels of no measured library and gaps take 15.0%" in page


def test_the_selection_as_csv_and_json(client, two_versions):
    found = client.get(f"{PAGE}?format=json").json()["steps"]
    assert [(row["version"], row["batch"], row["tokens_per_second"]) for row in found] == [
        ("0.6.18", 1, 250.0), ("0.6.18", 64, 8000.0), ("0.6.13", 1, 250.0), ("0.6.13", 64, 6400.0),
    ]  # fmt: skip
    assert found[1]["change_verdict"] == "better" and found[1]["fc1_seconds"] == 4e-3
    lines = client.get(f"{PAGE}?format=csv").content.decode().splitlines()
    assert len(lines) == 5 and lines[0].startswith("phase,model,layers")
    assert client.get(f"{PAGE}?format=csv&model=none").status_code == 404


def test_an_empty_export_is_a_table_without_rows(client, db):
    assert client.get(f"{PAGE}?format=json").json() == {"steps": []}
