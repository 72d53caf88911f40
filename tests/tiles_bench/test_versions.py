import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import InvalidVersion, Version

from workers.bench.document import BenchError
from workers.bench.tiles import versions

numbers = st.integers(0, 999)
public = st.builds(
    lambda release, pre, post, dev: ".".join(map(str, release)) + pre + post + dev,
    st.lists(numbers, min_size=1, max_size=4),
    st.one_of(
        st.just(""),
        st.builds("{}{}{}".format, st.sampled_from(["a", "-rc.", "_beta", ".c"]), numbers, st.just("")),
    ),
    st.one_of(st.just(""), st.builds("{}{}".format, st.sampled_from([".post", "-r", "rev", "-"]), numbers)),
    st.one_of(st.just(""), st.builds(".dev{}".format, numbers)),
)


@given(public)
def test_spelling_is_that_of_packaging(text: str) -> None:
    assert versions.normalise(text) == str(Version(text))


@given(public, public)
def test_order_is_that_of_packaging(one: str, other: str) -> None:
    left, right = versions.sort_key(versions.normalise(one)), versions.sort_key(versions.normalise(other))
    assert (left < right, left == right) == (Version(one) < Version(other), Version(one) == Version(other))


@given(st.text(max_size=30))
def test_what_packaging_refuses_is_refused(text: str) -> None:
    try:
        Version(text)
    except InvalidVersion:
        with pytest.raises(BenchError, match="not a version number"):
            versions.normalise(text)


@pytest.mark.parametrize("text", ["", "1!2.0", "0.6.3; rm -rf /", "--index-url=x", "1" * 5000, "٣"])
def test_hostile_text_is_refused(text: str) -> None:
    with pytest.raises(BenchError, match="not a version number"):
        versions.normalise(text)


def test_nearest_stand_around_the_wanted_one() -> None:
    offered = ["0.6.0", "0.6.1", "0.6.2", "0.6.3rc1", "0.6.4", "0.7.0", "0.7.1"]
    assert versions.nearest("0.6.3", offered) == ["0.6.1", "0.6.2", "0.6.4", "0.7.0"]
    assert versions.nearest("9.9", offered) == ["0.6.2", "0.6.4", "0.7.0", "0.7.1"]
    assert versions.nearest("0.6.3rc2", offered) == ["0.6.2", "0.6.3rc1", "0.6.4", "0.7.0"]
    assert versions.nearest("1", []) == []


@given(public, st.lists(public, max_size=12))
def test_nearest_are_offered_and_in_order(wanted: str, offered: list[str]) -> None:
    found = versions.nearest(versions.normalise(wanted), offered)
    assert len(found) <= 4
    assert set(found) <= {versions.normalise(version) for version in offered}
    assert found == sorted(found, key=versions.sort_key)
