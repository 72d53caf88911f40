"""What traces, samples of several processes and sets become: pure arithmetic."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.bench import timing
from workers.bench.cases.ceiling import Copy
from workers.bench.cases.gemm import Gemm, GroupedGemm
from workers.bench.document import SAMPLE_CAP, Correctness, Measurement, Readings
from workers.bench.gemm import sets
from workers.bench.gemm.pooling import pool
from workers.bench.timers import spans
from workers.bench.timers.base import whole_turns
from workers.bench.timers.comparison import table
from workers.bench.timers.overhead import overheads
from workers.bench.timers.spans import Record
from workers.bench.timing import Batch

FENCE = "spin_kernel"
seconds = st.floats(1e-7, 1e-2)


@given(st.lists(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 5000)), max_size=4), max_size=8))
def test_each_call_between_two_fences_is_found_again(calls):
    records, clock = [], 0
    for number, kernels in enumerate([*calls, []]):
        records.append(Record(clock, clock + 1, f"at::{FENCE}(long)"))
        clock += 1
        for gap, duration in kernels:
            records.append(Record(clock + gap, clock + gap + duration, f"kernel {number}"))
            clock += gap + duration
    found = spans.split(reversed(records), FENCE)
    assert [len(group) for group in found] == [len(kernels) for kernels in calls]
    for group, kernels in zip(found, calls, strict=True):
        if kernels:
            whole = sum(gap + duration for gap, duration in kernels) - kernels[0][0]
            assert spans.span(group) == pytest.approx(whole / 1e9)


def test_kernels_side_by_side_count_once_and_the_longest_names_the_call():
    group = [Record(0, 100, "a"), Record(50, 120, "b"), Record(130, 160, "b")]
    assert spans.span(group) == pytest.approx(160e-9)
    assert spans.dominant(group) in {"a", "b"}
    assert spans.dominant([*group, Record(160, 170, "b")]) == "b"
    assert spans.dominant([]) is None


def test_what_lies_outside_the_fences_is_nobodys():
    records = [
        Record(0, 1, "x"),
        Record(2, 3, FENCE),
        Record(4, 5, "y"),
        Record(6, 7, FENCE),
        Record(8, 9, "z"),
    ]
    assert spans.split(records, FENCE) == [[Record(4, 5, "y")]]
    assert spans.split([], FENCE) == []


@given(calls=st.integers(1, 5000), count=st.integers(1, 256), most=st.integers(1, 1024))
def test_a_batch_holds_whole_turns_over_its_sets(calls, count, most):
    made = whole_turns(calls, count, most)
    assert made >= count and made % count == 0
    assert made <= max(most, count) and (made >= calls or made + count > most)


@given(st.lists(st.tuples(st.lists(seconds, min_size=1, max_size=5), st.none() | st.integers(200, 2000))))
def test_no_sample_is_lost_and_none_is_kept_of_a_clock_that_was_down(drawn):
    batches = [Batch(samples, clock) for samples, clock in drawn]
    kept, discarded = timing.clocked(batches)
    assert len(kept) + discarded == sum(len(batch.samples) for batch in batches)
    clocks = [batch.clock_mhz for batch in batches if batch.clock_mhz is not None]
    down = sum(
        len(batch.samples)
        for batch in batches
        if batch.clock_mhz is not None and batch.clock_mhz < timing.CLOCK_SHARE * max(clocks)
    )
    assert discarded == down
    assert bool(kept) == bool(batches)


def test_a_power_capped_clock_stays_and_an_idle_one_goes():
    kept, discarded = timing.clocked([Batch([1.0], 345), Batch([2.0], 1515), Batch([3.0], 1980)])
    assert (kept, discarded) == ([2.0, 3.0], 1)


@given(st.lists(seconds, max_size=300), st.integers(1, 100))
def test_thinning_keeps_order_and_both_halves(samples, most):
    left = timing.thinned(samples, most)
    assert len(left) == min(len(samples), most)
    positions = iter(samples)
    assert all(sample in positions for sample in left)


def measured(samples, outcome="ok", **more):
    statistics = timing.summarise(samples) if samples else None
    return Measurement(
        kind="gemm", params={"m": 1}, outcome=outcome, measured_at="2026-01-01T00:00:00Z",
        samples=tuple(samples), statistics=statistics, timer="cupti" if samples else None, **more,
    )  # fmt: skip


@given(st.lists(st.lists(seconds, min_size=1, max_size=SAMPLE_CAP), min_size=2, max_size=10))
def test_pooled_samples_are_of_every_process_alike_and_within_the_cap(of_processes):
    pooled = pool([measured(samples) for samples in of_processes])
    assert len(pooled.samples) <= SAMPLE_CAP
    assert pooled.statistics == timing.summarise(pooled.samples)
    assert list(pooled.process_medians) == [timing.summarise(each).median for each in of_processes]
    assert min(map(min, of_processes)) <= pooled.statistics.median <= max(map(max, of_processes))
    assert ("few_samples" in pooled.flags) == timing.is_short(pooled.samples)


@given(st.lists(st.lists(seconds, min_size=1, max_size=64), min_size=2, max_size=10))
def test_host_times_of_processes_keep_their_order(of_processes):
    pooled = pool([measured([1e-5], host_time=timing.summarise(each)) for each in of_processes])
    host = pooled.host_time
    assert host.min <= host.q1 <= host.median <= host.q3
    assert len(pooled.process_host_medians) == len(of_processes)


def test_one_process_is_left_as_it_is_and_one_failure_among_several_is_the_outcome():
    only = measured([1e-5])
    assert pool([only]) == only
    found = pool([only, measured([], "crashed", error="its process ended with SIGSEGV.")])
    assert found.outcome == "crashed" and not found.samples
    assert found.error == "in one of 2 processes: its process ended with SIGSEGV."
    wrong = Correctness("r", 0.4, 1.0, 0, 0, 4, 0.1)
    right = Correctness("r", 1.0, 0.0, 0, 0, 4, 0.1)
    found = pool([measured([1e-5], correctness=right), measured([1e-5], "incorrect", correctness=wrong)])
    assert found.outcome == "incorrect" and found.correctness == wrong


def test_another_timer_is_not_pooled():
    other = measured([9e-5, 9e-5], flags=("fallback_timer",))
    found = pool([measured([1e-5]), Measurement(**{**vars_of(other), "timer": "cuda_events"})])
    assert found.samples == (1e-5,) and found.process_medians == (1e-5,)


def vars_of(measurement):
    return {name: getattr(measurement, name) for name in measurement.__slots__}


def test_readings_of_processes_are_told_together():
    first = Readings(1500, 1600, 1700, 400.0, 50, ("sw_power_cap",))
    second = Readings(1400, 1800, 1980, None, 60, ("sw_power_cap", "hw_slowdown"))
    found = pool([measured([1e-5], readings=first), measured([1e-5], readings=second)]).readings
    assert found == Readings(1400, 1700, 1980, 400.0, 55, ("sw_power_cap", "hw_slowdown"))


CACHE = 60 * 2**20


@given(
    touched=st.floats(1, 1e11),
    free=st.floats(0, 1.5e11),
    l2=st.sampled_from(sets.L2_CHOICES),
    cache=st.none() | st.just(CACHE),
)
def test_rotated_is_said_only_where_the_sets_outrun_the_cache(touched, free, l2, cache):
    found = sets.plan(touched, touched, cache, free, l2)
    assert 1 <= found.count <= sets.MAX_SETS
    assert found.flush == (found.policy == "flushed")
    if found.policy == "rotated":
        assert found.count * touched >= sets.CACHE_MULTIPLE * CACHE * 0.999
        assert found.count * touched <= free
    if cache is None:
        assert found.policy == "unknown"
    elif l2 != "rotated":
        assert found.policy != "unknown"


def test_what_cannot_fit_is_said_with_both_sizes():
    with pytest.raises(sets.DoesNotFitError, match=r"needs [\d,.]+ GiB .* 141.0 GiB are free"):
        sets.refuse_too_large(Gemm(2**18, 2**18, 2**18, "bf16"), 141 * 2**30)
    sets.refuse_too_large(Copy(2**34), 40 * 2**30)
    grouped = GroupedGemm(256, 1, 4096, 7168, "bf16")
    assert sets.need_bytes(grouped) > 256 * 4096 * 7168 * 2


def test_overheads_need_kernel_time():
    fill = {"cupti": 0.7e-6, "cuda_graph": 1.0e-6, "cuda_events": 1.9e-6}
    product = {"cupti": 2.2e-6, "cuda_graph": 2.9e-6, "cuda_events": 3.4e-6}
    assert overheads([fill]) == pytest.approx({"cuda_graph": 0.3e-6, "cuda_events": 1.2e-6})
    assert overheads([fill, product]) == pytest.approx({"cuda_graph": 0.5e-6, "cuda_events": 1.2e-6})
    assert overheads([fill, {"cuda_graph": 2.9e-6}]) == {} == overheads([])


def told(**timers):
    return {"mm": {name: {"seconds": s, "clock_mhz": mhz} for name, (s, mhz) in timers.items()}}


def test_the_comparison_is_to_kernel_time_and_in_cycles_where_the_clock_differs():
    names = {table.CUPTI: (100e-6, 1980), table.GRAPH: (101e-6, 1980), table.EVENTS: (120e-6, 1650)}
    names |= {table.TRITON: (104e-6, 1980)}
    processes = [told(**names), told(**{**names, table.GRAPH: (102e-6, 1980)})]
    [row] = table.rows(processes)
    assert (row.reference, row.kernel_seconds) == (table.CUPTI, 100e-6)
    graph, events, triton = (row.cells[name] for name in (table.GRAPH, table.EVENTS, table.TRITON))
    assert graph.within and not graph.cycles
    assert graph.spread == pytest.approx(1 / 101.5)
    assert events.cycles and events.within and math.isclose(events.difference, 0, abs_tol=1e-12)
    assert not triton.within
    text = table.markdown([row], 2)
    assert "101.50 (+1.5%) ±1.0%" in text and "104.00 (+4.0% ✗) ±0.0%" in text


def test_without_cupti_the_profiler_is_kernel_time_and_a_missing_tool_is_a_gap():
    process: table.Process = {"mm": {table.PROFILER: {"seconds": 2e-6, "clock_mhz": None},
                      table.GRAPH: {"seconds": 2.2e-6, "clock_mhz": None},
                      table.TRITON: {"error": "ModuleNotFoundError: No module named 'triton'"}}}  # fmt: skip
    [row] = table.rows([process])
    assert row.reference == table.PROFILER and set(row.cells) == {table.GRAPH}
    assert row.cells[table.GRAPH].within  # 10 %, but 0.2 µs
    assert table.rows([{"mm": {table.GRAPH: {"seconds": 1.0, "clock_mhz": None}}}]) == []
