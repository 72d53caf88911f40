"""What every notifier is: a form of its settings, and a function that sends one message."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Callable, Mapping
from typing import Any

from django import forms

from benchapp.alerts.notifiers.deadline import Deadline

#: Of a variable that holds a secret of a channel. Only these are ever read: no other secret of the control
#: worker, such as Django's own key, can be named.
SECRET_VARIABLE = re.compile(r"TILEWATCH_NOTIFY_[A-Z0-9_]{1,60}")
#: Shown of what a server said.
SAID = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Message:
    """What is to be told. `key` is the same at each try to send it, `thread` the same in all messages of one
    alert; `link` is empty where the installation's own address is not known."""

    key: str
    thread: str
    purpose: str
    title: str
    sentence: str
    facts: tuple[tuple[str, str], ...]
    path: str
    link: str
    alert: Mapping[str, Any]

    @property
    def begins_thread(self) -> bool:
        return self.purpose not in ("updated", "closed")


class Failure(Exception):
    """Why a message was not taken, in one sentence that names no secret. What is `permanent` is not tried
    again by itself; `retry_after_s` is what the server asked for."""

    def __init__(self, sentence: str, *, permanent: bool = False, retry_after_s: float | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.permanent = permanent
        self.retry_after_s = retry_after_s


class Settings(forms.Form):
    """Base of the forms of a channel's settings; what it cleans is stored as the channel's `config`."""

    def config(self) -> dict[str, Any]:
        return {name: self.cleaned_data[name] for name in self.fields}


Config = Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Notifier:
    """One kind of channel. `send` returns a sentence on what went half wrong, "" where nothing did, and
    raises Failure; `where` says in a few words, without secrets, where messages go; `tells_updates` whether
    an alert's later messages but the closing one are sent too."""

    kind: str
    settings: type[Settings]
    send: Callable[[Config, Message, Deadline], str]
    where: Callable[[Config], str]
    tells_updates: Callable[[Config], bool]


def secret(variable: str) -> str:
    """The value of a channel's variable. Raises Failure where it is not set here."""
    if SECRET_VARIABLE.fullmatch(variable) is None:
        raise Failure("The channel names no variable that may hold a secret.", permanent=True)
    value = os.environ.get(variable, "").strip()
    if not value:
        raise Failure(f"{variable} is not set for the control worker.")
    return value


def said(text: bytes | str, *secrets: str) -> str:
    """Part of what a server answered, on one line, printable, and without any of `secrets`."""
    line = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    for each in secrets:
        if len(each) > 3:  # a path of one slash hides nothing
            line = line.replace(each, "…")
    line = " ".join("".join(c if c.isprintable() else " " for c in line).split())
    return line if len(line) <= SAID else f"{line[: SAID - 1]}…"
