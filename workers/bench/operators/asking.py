"""What a library offers, by asking it: its functions, their backends, and the words of its refusals."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any

from workers.bench.operators.base import UnsupportedError

#: exceptions of the libraries that mean "not here", by name: their classes differ between versions
_REFUSALS = {
    "BackendSupportedError",
    "LibraryError",
    "GPUArchitectureError",
    "cudnnGraphNotSupportedError",
}
_REFUSING = re.compile(
    r"not[ _]support|unsupported|only[ a-z]* support|not available|no suitable|no supported|requires", re.I
)

_FAILING = re.compile(
    r"out of memory|illegal (memory|instruction)|device-side assert|misaligned|unspecified", re.I
)


def module_of(name: str) -> Any | None:
    """The module, or None where this Python has no such library; what fails in importing it is raised."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            return None
        raise


def backends_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The choices for `backend` that a function states: the Literal of its signature, and the checks that
    FlashInfer's `backend_requirement` holds. Empty where it has no such argument. "auto" is no backend."""
    parameter = inspect.signature(function).parameters.get("backend")
    if parameter is None:
        return ()
    if isinstance(parameter.annotation, str):  # not evaluated: names beside it may be for type checkers only
        stated = re.findall(r"""["']([\w-]+)["']""", parameter.annotation)
    else:
        stated = [choice for choice in typing.get_args(parameter.annotation) if isinstance(choice, str)]
    asked = getattr(function, "is_backend_supported", None)
    checks = inspect.getclosurevars(asked).nonlocals.get("backend_checks") if callable(asked) else None
    return tuple(name for name in dict.fromkeys([*stated, *(checks or ())]) if name != "auto")


def takes(function: Callable[..., Any], name: str) -> bool:
    return name in inspect.signature(function).parameters


def refuses(error: BaseException) -> bool:
    """Whether a library's exception says that it does not do this, rather than that it failed."""
    words = str(error)
    if _FAILING.search(words):
        return False
    names = {kind.__name__ for kind in type(error).__mro__}
    return bool(
        names & _REFUSALS
        or isinstance(error, (NotImplementedError, ValueError, ImportError))
        or _REFUSING.search(words)
    )


@contextlib.contextmanager
def in_its_words() -> Iterator[None]:
    """Turns a library's refusal into UnsupportedError with its own words."""
    try:
        yield
    except UnsupportedError:
        raise
    except Exception as error:
        if refuses(error):
            words = " ".join(str(error).split())[:500]
            raise UnsupportedError(f"{type(error).__name__}: {words}") from error
        raise
