"""Which versions a complete survey holds."""

from workers.bench.tiles.coverage import due

OFFERED = ["0.4.1", "0.5.0", "0.5.3", "0.6.3", "0.6.18", "0.6.18.post1", "0.7.0", "0.7.0.post1", "0.7.1rc1"]


def test_sm120_holds_every_release_since_the_first_with_a_wheel() -> None:
    expected = ["0.7.0.post1", "0.7.0", "0.6.18.post1", "0.6.18", "0.6.3", "0.5.3", "0.5.0"]
    assert due(OFFERED, "sm120") == due(OFFERED, "sm121") == expected


def test_other_architectures_hold_the_newest_of_each_minor() -> None:
    assert due(OFFERED, "sm100") == ["0.7.0.post1", "0.6.18.post1", "0.5.3"]


def test_nothing_offered_is_nothing_due() -> None:
    assert due([], "sm120") == due(["0.4.1"], "sm90") == []
