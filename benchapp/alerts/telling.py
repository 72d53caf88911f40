"""What a group of changes is called: title, sentence and evidence of its alert. Pure.

Figures that move with every night stand in the title and the evidence; the sentence, whose every change is a
row of the alert's history, has counts, versions and what is not sure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from benchapp.alerts.grouping import Group, Moved
from benchapp.alerts.models import Alert
from benchapp.alerts.suspects import Differs

#: Changes that the evidence lists; the page has all of them.
LISTED = 10
_TITLE = 200
#: Versions that a title names if they leave room for so much of a case's name; the sentence names all.
_NAMED, _LABEL = 2, 30
#: In powers of 1,000: within some 4 % of one.
_LIKE_A_UNIT = 0.006
_BUILDS = {"cpu_time": "build CPU times", "size": "sizes"}


def title(group: Group, of: int, differs: Sequence[Differs]) -> str:
    """ "12 of 40 GPU times slower with flashinfer 0.6.3 → 0.6.9 on H200: worst rope … ×1.42 [1.40, 1.44]", at
    most 200 characters; `differs` has the likeliest component first."""
    strongest = _main(group)[0]
    figures = f"{factor(strongest.ratio)} [{strongest.low:.3g}, {strongest.high:.3g}]"
    for named in (_NAMED, 1):
        head = f"{_head(group, of, differs, named)}: {'worst' if group.worse else 'best'} "
        room = _TITLE - len(head) - len(figures) - 1
        if room >= _LABEL:
            break
    label = (
        strongest.label
        if len(strongest.label) <= room
        else f"{strongest.label[: max(room, 2) - 1].rstrip()}…"
    )
    return f"{head}{label} {figures}"


def _head(group: Group, of: int, differs: Sequence[Differs], named: int) -> str:
    main = _main(group)
    head = f"{_count(group, main, of)} {_way(group)}"
    if group.kind == Alert.Kind.MACHINE:
        when = "as the versions changed" if group.with_upgrade else "without a version change"
        return f"{head} on {_place(group)} {when}"
    more = f" and {len(differs) - named} more" if len(differs) > named else ""
    return f"{head} with {', '.join(map(str, differs[:named]))}{more} on {_model(main[0])}"


def sentence(group: Group, of: int, differs: Sequence[Differs], reference: str) -> str:
    """What happened, without figures that move."""
    main = _main(group)
    words = [f"{_count(group, main, of)} {_be(main, of)} {_way(group)} on {_place(group)}"]
    if group.kind == Alert.Kind.MACHINE:
        words.append("without a change of any version" if not group.with_upgrade else "as versions changed")
    else:
        words.append("with " + ", ".join(map(str, differs)))
        if len(differs) > 1:
            words.append("(the likeliest cause first)")
    others = len(group.moves) - len(main)
    told = " ".join(words) + "."
    if others:
        told += f" {others} moved the other way."
    strongest = main[0]
    through = f" through {strongest.backend}" if strongest.backend else ""
    told += f" Most of all {strongest.label}{through}."
    return " ".join(filter(None, (told, reference, _unit_words(strongest), _unsure(group))))


def evidence(group: Group, of: int, reference: str) -> dict[str, Any]:
    """Counts, the strongest changes, and when it was; values in the units that their names end with."""
    found: dict[str, Any] = {"moved": len(group.moves), "of": of}
    if reference:
        found["reference cases"] = reference
    times = sorted(moment for move in group.moves for moment in (move.before_at, move.at))
    if group.window is not None:
        found["from"], found["to"] = group.window.start.isoformat(), group.window.end.isoformat()
    else:
        found["measured from"], found["measured to"] = times[0].isoformat(), times[-1].isoformat()
    found["strongest"] = [
        {
            "case": move.label,
            "backend": move.backend,
            "on": move.model,
            f"before{_unit(move)}": move.before,
            f"after{_unit(move)}": move.after,
            "ratio": move.ratio,
            "interval": f"{move.low:.3g} to {move.high:.3g}",
            "runs": f"{move.n_before} and {move.n_after}",
        }
        for move in group.moves[:LISTED]
    ]
    return found


def factor(ratio: float) -> str:
    """×1.42, ×0.185, ×12."""
    return f"×{ratio:.3g}"


def reference_words(moved: int, of: int, *, explained: bool) -> str:
    """What the reference cases of the same GPUs did."""
    if not of:
        return "No reference case was measured beside it, so the machine is not ruled out."
    if explained:
        return f"{moved} of {of} reference cases moved too: the machine did, not a library."
    if moved:
        return f"{moved} of {of} reference cases moved as well."
    return f"None of {of} reference cases moved: it is not the machine."


def _unit_words(move: Moved) -> str:
    """A warning where a factor of 1,000 or a power of it looks like another unit."""
    thousands = math.log(move.ratio) / math.log(1000)
    if round(thousands) and abs(thousands - round(thousands)) < _LIKE_A_UNIT:
        return f"{factor(move.ratio)} looks like another unit rather than another speed."
    return ""


def _unit(move: Moved) -> str:
    return "_bytes" if move.metric == "size" else "_s"


def _main(group: Group) -> tuple[Moved, ...]:
    """Those that moved the way the alert says."""
    worse = group.worse
    return tuple(move for move in group.moves if move.worse == worse)


def _count(group: Group, main: Sequence[Moved], of: int) -> str:
    metrics = {move.metric for move in main}
    if metrics == {"time"}:
        what = "GPU times" if all(move.target_kind == "gpu" for move in main) else "times"
    else:
        what = _BUILDS.get(metrics.pop(), "series") if len(metrics) == 1 else "build costs"
    total = max(of, len(main))
    return f"{len(main):,} of {total:,} {what if total > 1 else what.removesuffix('s')}"


def _be(main: Sequence[Moved], of: int) -> str:
    return "is" if len(main) == 1 else "are"


def _way(group: Group) -> str:
    times = {move.metric for move in group.moves} == {"time"}
    if times:
        return "slower" if group.worse else "faster"
    return "larger" if group.worse else "smaller"


def _model(move: Moved) -> str:
    return move.model.removeprefix("NVIDIA ")


def _place(group: Group) -> str:
    first = group.moves[0]
    targets = len({move.target_id for move in group.moves})
    if group.kind == Alert.Kind.MACHINE and first.host:
        return (
            f"{first.host} ({targets} {_model(first)}s)" if targets > 1 else f"{first.host} ({_model(first)})"
        )
    return _model(first) if targets == 1 else f"{targets} {_model(first)}s"


def _unsure(group: Group) -> str:
    if any(move.certain for move in group.moves):
        return ""
    fewest = max(min(move.n_before, move.n_after) for move in group.moves)
    side = "one run" if fewest == 1 else f"{fewest} runs"
    return f"Unconfirmed: at most {side} on a side." if fewest > 1 else "Unconfirmed: one run on a side."
