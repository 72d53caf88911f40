"""Why a run failed."""

from __future__ import annotations


class Failure(Exception):
    """`code` for programs, `sentence` for people."""

    def __init__(self, code: str, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
