"""The arithmetic of a traced step."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from workers.bench.moe import path
from workers.bench.moe.path import Piece

PARTS = ("attention", "router", "fc1", "norms")
pieces = st.lists(
    st.builds(
        lambda start, length, part, library: Piece(start, start + length, part, library),
        st.integers(-50, 250), st.integers(0, 120), st.sampled_from(PARTS), st.sampled_from(("a", "b")),
    ),
    max_size=40,
)  # fmt: skip
steps = st.tuples(st.integers(0, 100), st.integers(0, 200)).map(lambda pair: (pair[0], pair[0] + pair[1]))


def covered(found, begin, end):
    """Moments of the step at which anything ran, one by one."""
    return {at for each in found for at in range(max(each.start, begin), min(each.end, end))}


@given(pieces, steps)
def test_parts_and_gaps_are_the_step_whatever_overlaps(found, step):
    begin, end = step
    taken = path.take_apart(found, begin, end)
    assert sum(taken.parts.values()) == taken.total == end - begin
    assert taken.parts["gaps"] == end - begin - len(covered(found, begin, end))
    assert all(spent >= 0 for spent in taken.parts.values())
    assert sum(taken.libraries.values()) == taken.total - taken.parts["gaps"]
    ran = sum(len(covered([each], begin, end)) for each in found)
    assert taken.hidden == ran - (taken.total - taken.parts["gaps"])


def test_what_runs_behind_another_kernel_is_hidden():
    taken = path.take_apart(
        [Piece(0, 10, "fc1", "a"), Piece(2, 6, "collectives", "b"), Piece(8, 14, "norms", "a")], 0, 20
    )
    assert taken.parts == {"fc1": 10, "norms": 4, "gaps": 6}
    assert taken.hidden == 6 and taken.libraries == {"a": 14} and taken.kernels == 3


@st.composite
def nested(draw, begin=0, end=200, depth=3):
    """Ranges of one thread: beside one another, or one within another."""
    found, at = [], begin
    while at < end and draw(st.booleans()):
        start = draw(st.integers(at, end))
        stop = draw(st.integers(start, end))
        found.append((start, stop, draw(st.sampled_from(PARTS))))
        if depth and stop > start:
            found += draw(nested(start, stop, depth - 1))
        at = max(stop, at + 1)
    return found


@given(nested())
def test_each_moment_of_nested_ranges_is_the_innermost_ones(ranges):
    found = path.innermost(ranges, 0, 200)
    assert all(one.end <= other.start for one, other in itertools.pairwise(found))
    for at in range(200):
        around = [each for each in ranges if each[0] <= at < each[1]]
        here = [each.part for each in found if each.start <= at < each.end]
        assert len(here) == bool(around)
        if around:
            least = min(stop - start for start, stop, _ in around)
            assert here[0] in {part for start, stop, part in around if stop - start == least}


def layer(at, parts=("norms", "router", "router", "fc1")):
    return [Piece(at + 10 * turn, at + 10 * turn + 9, part, "a") for turn, part in enumerate(parts)]


def test_a_layer_lasts_from_router_to_router():
    found = [*layer(0), *layer(100), *layer(220)]
    later = [*layer(1000), *layer(1100), *layer(1220)]
    assert path.layer_time(found, 3) == 110e-9
    assert path.layer_time(found, 4) is None, "a layer's router was not seen"
    assert path.layer_time([*found, *later], 3) == 220e-9, "two chunks of a prefill go through the layers"
    assert path.layer_time(layer(0), 1) is None, "one layer is no distance"
