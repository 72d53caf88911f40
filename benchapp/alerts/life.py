"""The states of an alert and the legal moves between them, in one place."""

from __future__ import annotations

from benchapp.alerts.models import Alert

State = Alert.State

CLOSED = (State.FIXED, State.WONT_FIX, State.INVALID, State.MACHINE)

#: from → to. What is closed is opened again before it can be closed otherwise, so that its history says why.
MOVES: dict[State, frozenset[State]] = {
    State.NEW: frozenset({State.ACKNOWLEDGED, State.INVESTIGATING, *CLOSED}),
    State.ACKNOWLEDGED: frozenset({State.INVESTIGATING, *CLOSED}),
    State.INVESTIGATING: frozenset({State.ACKNOWLEDGED, *CLOSED}),
    **dict.fromkeys(CLOSED, frozenset({State.NEW})),
}


def may_move(origin: State | str, to: State) -> bool:
    return to in MOVES[State(origin)]
