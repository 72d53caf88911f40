"""The page of whole models' steps, from stored documents."""

from __future__ import annotations

import dataclasses

import pytest

from tests.moe.loads import GANG, decode, store
from tests.querycount import at_most

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
    assert page.context["older"] == ["0.5.2", "0.5.1", "0.5.0"]
    with at_most(12):
        client.get(PAGE)
