"""Version numbers as PEP 440 writes them, without the packaging library."""

from __future__ import annotations

import re
from collections.abc import Iterable

from workers.bench.document import BenchError

_VERSION = re.compile(
    r"""v?
    (?P<release>\d{1,9}(?:\.\d{1,9}){0,9})
    (?:[-_.]?(?P<pre>a|alpha|b|beta|c|rc|pre|preview)[-_.]?(?P<pre_n>\d{0,9}))?
    (?:[-_.]?(?P<post>post|rev|r)[-_.]?(?P<post_n>\d{0,9})|-(?P<post_bare>\d{1,9}))?
    (?:[-_.]?(?P<dev>dev)[-_.]?(?P<dev_n>\d{0,9}))?
    (?:\+(?P<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?""",
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_PRE = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}

Key = tuple[tuple[int, ...], tuple[int, int], int, int]


def normalise(text: str) -> str:
    """The canonical spelling: `v0.6.18-post1` becomes `0.6.18.post1`. BenchError if it is no version."""
    match = _VERSION.fullmatch(text.strip()) if len(text) <= 100 else None
    if match is None:
        raise BenchError(
            "bad_version", f"{text[:100]!r} is not a version number; 0.6.3 or 0.6.18.post1 would be one."
        )
    canonical = ".".join(str(int(part)) for part in match["release"].split("."))
    if match["pre"]:
        word = match["pre"].lower()
        canonical += f"{_PRE.get(word, word)}{int(match['pre_n'] or 0)}"
    if match["post"] or match["post_bare"]:
        canonical += f".post{int(match['post_n'] or match['post_bare'] or 0)}"
    if match["dev"]:
        canonical += f".dev{int(match['dev_n'] or 0)}"
    if match["local"]:
        canonical += "+" + re.sub(r"[-_]", ".", match["local"].lower())
    return canonical


def normalised_or_none(text: str) -> str | None:
    try:
        return normalise(text)
    except BenchError:
        return None


def sort_key(canonical: str) -> Key:
    """Orders canonical versions: dev < pre < release < post. Local labels are left out."""
    match = _VERSION.fullmatch(canonical)
    if match is None:
        raise ValueError(f"not a canonical version: {canonical!r}")
    release = [int(part) for part in match["release"].split(".")]
    while release and release[-1] == 0:
        release.pop()
    dev = int(match["dev_n"] or 0) if match["dev"] else 10**9
    post = int(match["post_n"] or 0) if match["post"] else -1
    if match["pre"]:
        pre = ("a", "b", "rc").index(match["pre"]), int(match["pre_n"] or 0)
    elif match["dev"] and not match["post"]:
        pre = (-1, 0)
    else:
        pre = (3, 0)
    return tuple(release), pre, post, dev


def nearest(wanted: str, offered: Iterable[str], count: int = 4) -> list[str]:
    """Up to `count` offered versions around the place where `wanted` would stand, in order.

    Pre-releases are named only to somebody who asks for one, or where there is nothing else.
    """
    ordered = sorted({normalise(version) for version in offered}, key=sort_key)
    finals = [version for version in ordered if not is_early(version)]
    if finals and not is_early(wanted):
        ordered = finals
    place = sum(sort_key(version) < sort_key(wanted) for version in ordered)
    first = max(0, min(place - count // 2, len(ordered) - count))
    return ordered[first : first + count]


def is_early(canonical: str) -> bool:
    """Whether it is a pre-release or a development version."""
    match = _VERSION.fullmatch(canonical)
    return match is not None and bool(match["pre"] or match["dev"])
