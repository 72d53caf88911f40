"""How often an A/B says what, by simulation: `python -m tests.confirm.rates [ROUNDS]`, with fresh seeds.

A process value has a relative standard deviation, or two modes 12 % apart (70:30), or is 15 % too slow in one
of twenty processes.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from collections.abc import Callable

from workers.bench.confirm.judge import LOOKS, judge

Draw = Callable[[random.Random], float]


def steady(spread: float) -> Draw:
    return lambda source: 1 + source.gauss(0, spread)


def two_modes(source: random.Random) -> float:
    return (1.12 if source.random() < 0.3 else 1.0) * (1 + source.gauss(0, 0.003))


def spiking(source: random.Random) -> float:
    return (1.15 if source.random() < 0.05 else 1.0) * (1 + source.gauss(0, 0.005))


def decided(draw: Draw, slower: float, source: random.Random) -> tuple[str, int]:
    """(verdict, pairs) of one A/B whose new side takes `slower` times as long."""
    old: list[float] = []
    new: list[float] = []
    for look in LOOKS:
        while len(old) < look:
            old.append(draw(source))
            new.append(slower * draw(source))
        word = judge(old, new).word
        if word != "AMBG":
            break
    return word, len(old)


def words(draw: Draw, slower: float, rounds: int, source: random.Random) -> Counter[str]:
    return Counter(decided(draw, slower, source)[0] for _ in range(rounds))


def main(rounds: int) -> None:
    source = random.Random()
    named = {f"spread {100 * spread:g} %": steady(spread) for spread in (0.002, 0.005, 0.01, 0.02)}
    for name, draw in {**named, "two modes": two_modes, "spikes": spiking}.items():
        for slower in (1.0, 1.02, 1.03, 1.05, 1.2):
            found = [decided(draw, slower, source) for _ in range(rounds)]
            counts = Counter(word for word, _ in found)
            shares = ", ".join(
                f"{word} {100 * counts[word] / rounds:.2f}" for word in ("SAME", "SLOW", "FAST", "AMBG")
            )
            mean = sum(pairs for _, pairs in found) / rounds
            print(f"{name}, new side x {slower}: {shares}; {mean:.1f} pairs")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)
