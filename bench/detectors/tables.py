"""What the detectors found, as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from bench.detectors.peers import Answer, Detector
from bench.detectors.score import hit, points_per_series, share, strays
from bench.detectors.sets import Step

Answers: TypeAlias = dict[Detector, dict[str, Answer]]
Points: TypeAlias = list[list[int]]


def markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|" + "---|" * len(head), *lines[1:]])


def _titles(answers: Answers) -> list[str]:
    return [title for each in answers for title in (each.title, each.all_title) if title]


def _points(answers: Answers, name: str) -> Iterator[Points]:
    """The points in each series of a set, by column: certain ones, and all where a detector has both."""
    for detector, answer in answers.items():
        found = answer[name].found
        yield [[index for index, certain in each if certain] for each in found]
        if detector.all_title:
            yield [[index for index, _ in each] for each in found]


def nulls(answers: Answers, names: Sequence[str]) -> str:
    """False points a series, with the upper 95 % bound."""
    rows = [[name, *(_rate(points) for points in _points(answers, name))] for name in names]
    return markdown(["false points a series, no step", *_titles(answers)], rows)


def _rate(found: Points) -> str:
    mean, upper = points_per_series([len(each) for each in found])
    return f"{mean:.3f} (≤ {upper:.3f})"


def steps(answers: Answers, wanted: Mapping[str, Step]) -> str:
    """Series whose every step was found within three points, with the lower 95 % bound; strays a series."""
    rows = [
        [name, *(_hits(points, step.at()) for points in _points(answers, name))]
        for name, step in wanted.items()
    ]
    return markdown(["steps found", *_titles(answers)], rows)


def _hits(found: Points, at: Sequence[int]) -> str:
    rate, lower = share(sum(hit(each, at) for each in found), len(found))
    beside = sum(strays(each, at) for each in found) / len(found)
    return f"{rate:.1%} (≥ {lower:.1%})" + (f", {beside:.2f} beside" if beside >= 0.005 else "")


def milliseconds(of: Mapping[str, Answer], names: Sequence[str]) -> float:
    return statistics.median(of[name].ms for name in names)


def cost(answers: Answers, names: Sequence[str]) -> str:
    """CPU time a series: median over the drawn sets, and the slowest of them."""
    medians = [f"{milliseconds(answers[each], names):.1f} ms" for each in answers]
    slowest = [f"{max(answers[each][name].ms for name in names):.1f} ms" for each in answers]
    rows = [["median of the sets", *medians], ["slowest set", *slowest]]
    return markdown(["CPU time a series of 200", *(each.title for each in answers)], rows)


def real(answers: Answers, names: Sequence[str]) -> str:
    """Points found in recorded series, where nobody knows all that is true."""
    rows = [[name, *(str(sum(map(len, points))) for points in _points(answers, name))] for name in names]
    return markdown(["points found in recorded series", *_titles(answers)], rows)
