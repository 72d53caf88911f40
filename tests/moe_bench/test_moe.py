"""The bench itself, in a real Python with torch: tiny models, one rank and two, by gloo."""

import json

import pytest

from benchapp.ingest import schema
from workers.bench import timing
from workers.bench.document import Statistics

pytestmark = pytest.mark.slow

TINY = "model=tiny-gqa,batch=4,context=16"


def test_the_tiny_path_from_arguments_to_a_document(models_bench):
    text = models_bench(
        "--steps", "12", "--host", "lab",
        "--case", f"decode:{TINY},layers=3,tp=1,ep=1;prefill:{TINY},layers=3,tp=1,ep=1",
        f"decode:{TINY},layers=2,tp=2,ep=1",
        "all_reduce:tokens=8,hidden=16,ranks=2", "all_to_all:tokens=8,hidden=16,ranks=2",
    )  # fmt: skip
    schema.parse(text.encode())
    document = json.loads(text)
    assert (document["kind"], document["target"]["host"]) == ("moe", "lab")
    decode, prefill, split, reduced, swapped = document["measurements"]

    for found in (decode, prefill, split):
        step = found["step"]
        assert found["outcome"] == "ok" and found["backend"] == "torch+torch.loop"
        assert found["timer"] == "wall_clock" and found["correctness"]["cosine"] > 0.99
        assert Statistics(**found["statistics"]) == timing.summarise(found["samples"])
        each = 4 * (16 if found["kind"] == "prefill" else 1)
        assert step["tokens"] == each * step["steps"] and step["gpus"] == 0
        # the window holds every step, and nothing of the start-up, which takes seconds
        assert sum(found["samples"]) <= step["window_s"]
        assert {"attention", "router", "norms", "head", "gaps"} <= step["parts"].keys()
        assert 2 <= step["experts_hit"] <= 8
        # every token's two experts, in every layer and step
        assert sum(step["routing"]) == 2 * each * step["steps"] * step["layers"]
    assert decode["step"]["steps"] == 12 and "collectives" not in decode["step"]["parts"]
    assert decode["step"]["projected_s"] is None and not decode["step"]["left_out"]

    assert "collectives" in split["step"]["parts"] and len(split["step"]["rank_medians"]) == 2
    assert split["step"]["projected_s"] > split["statistics"]["median"]
    assert split["step"]["left_out"][0].startswith("2 of 3 layers, projected: 1 more of ")

    assert [each["backend"] for each in (reduced, swapped)] == ["gloo", "gloo"]
    assert [each["outcome"] for each in (reduced, swapped)] == ["ok", "ok"]


def test_a_rank_that_dies_or_never_joins_costs_one_case(hostile_gangs):
    dead, hanging, sound = hostile_gangs(6, 2, 4, 6)
    assert dead[1] == "crashed"
    assert "rank 1 of 2: its process ended with SIGKILL" in dead[2] and "at its collective" in dead[2]
    assert hanging[1] == "timeout" and "no answer within 6 s from 2 of 2 ranks" in hanging[2]
    assert sound[:2] == [6, "ok"]
