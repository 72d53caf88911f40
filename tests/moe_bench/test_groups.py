"""Which cases become which gangs, and what is refused before anything is loaded."""

import pytest

from workers.bench.cases.collective import AllReduce, AllToAll
from workers.bench.cases.model import Decode, Prefill
from workers.bench.document import BenchError
from workers.bench.moe.groups import Group, How, Limits, in_groups, measure

BOTH = ("torch+torch.loop", "torch+torch.grouped_mm")


def decode(name="tiny-gqa", batch=4, layers=3, tp=1):
    return Decode(name, batch, 24, layers, tp, 1, "bf16")


def test_cases_of_one_weight_and_backend_share_a_gang():
    prefill = Prefill("tiny-gqa", 4, 24, 3, 1, 1, "bf16")
    reduce, swap = AllReduce(8, 8, 2, "bf16"), AllToAll(8, 8, 2, "bf16")
    cases = [decode(), reduce, prefill, decode(tp=2), decode(batch=1), swap]
    assert in_groups(cases, How("cpu", BOTH, 10, 1.0)) == [
        Group(BOTH[0], (decode(), prefill, decode(batch=1))),
        Group(BOTH[1], (decode(), prefill, decode(batch=1))),
        Group("gloo", (reduce, swap)),
        Group(BOTH[0], (decode(tp=2),)),
        Group(BOTH[1], (decode(tp=2),)),
    ]
    assert [each.world for each in in_groups(cases, How("cpu", BOTH[:1], 10, 1.0))] == [1, 2, 2]


def test_collectives_go_by_their_own_backends():
    reduce, swap = AllReduce(8, 8, 2, "bf16"), AllToAll(8, 8, 2, "bf16")
    how = How("cuda", ("flashinfer+triton.fused_experts",), 10, 1.0)
    assert how.of(reduce) == ("nccl", "flashinfer.vllm_all_reduce") and how.of(swap) == ("nccl",)
    named = How("cuda", ("nccl",), 10, 1.0)
    assert named.of(reduce) == ("nccl",) and named.of(decode()) == ()


def measured(*cases):
    how = How("cpu", BOTH[:1], 10, 1.0)
    results, _ = measure(
        cases, how, Limits(30), done=lambda *told: None, module="tests.moe_bench.faulty_rank"
    )
    return [each for case in cases for each in results.of(case)]


def test_what_cannot_fit_or_has_too_few_gpus_is_refused_unloaded():
    # this rank would answer a question to load a model with something that is no decoder
    too_large, too_many = measured(decode("GLM-5", layers=78), decode(tp=2))
    assert too_large.outcome == "oom" and too_large.backend == BOTH[0]
    assert "not started, GLM-5 with all 78 layers needs about 1,4" in too_large.error
    assert "128.0 GiB are there: 8 layers would fit, or 16 GPUs hold them all." in too_large.error
    assert too_many.outcome == "unsupported" and "2 GPUs are needed, and 1 GPU is here" in too_many.error


def test_a_case_that_no_named_backend_takes_is_said():
    how = How("cpu", ("gloo",), 10, 1.0)
    results, _ = measure(
        [decode(), AllReduce(8, 8, 2, "bf16")], how, Limits(30), done=lambda *told: None,
        module="tests.moe_bench.faulty_rank",
    )  # fmt: skip
    (lonely,) = results.of(decode())
    assert (lonely.outcome, lonely.backend) == ("unsupported", None) and "no backend" in lonely.error


def test_backends_that_compute_nothing_of_it_are_named():
    how = How("cpu", ("gloo",), 10, 1.0)
    with pytest.raises(BenchError, match="Backends gloo: none of them computes any of the cases"):
        measure([decode()], how, Limits(30), done=lambda *told: None)


def test_a_rank_lost_in_a_trace_costs_its_slice_alone():
    """The slices timed beside it are nothing without a trace, and are measured again by the next gang."""
    first, lost, last = (decode("GLM-5", batch=batch, layers=5) for batch in (1, 64, 256))
    how = How("cpu", BOTH[:1], 10, 1.0)
    results, notes = measure(
        [first, lost, last], how, Limits(30), done=lambda *told: None, module="tests.moe_bench.slicing_rank"
    )
    (good,), (bad,), (better,) = (results.of(case) for case in (first, lost, last))
    assert good.outcome == better.outcome == "ok" and bad.outcome == "unsupported"
    # 5 layers in 10 ms, and 73 more of 1 ms each
    assert good.step.projected_s == better.step.projected_s == pytest.approx(0.083)
    assert "not traced" in bad.error and len(notes) == 1 and "SIGKILL" in notes[0]
