"""The states of a run and the legal moves between them, in one place."""

from __future__ import annotations

from benchapp.runs.models import State

#: A run in one of these has ended, as far as anybody who waits for it is concerned.
FINAL = frozenset({State.DONE, State.FAILED, State.CANCELLED})
ACTIVE = frozenset({State.QUEUED, State.RUNNING, State.DELIVERED})

#: from → to; `worker_api.sql` has them as a trigger, whoever writes. `queued → failed`: its environment
#: cannot be built. `running → queued`: its heart stopped. `running → done`: an environment was built.
#: `queued, running, failed → delivered`: a document arrived, perhaps late from an attempt that was given up;
#: what was measured is never lost. `failed → done`: one document of a run was refused, the next was good.
MOVES: dict[State, frozenset[State]] = {
    State.QUEUED: frozenset({State.RUNNING, State.DELIVERED, State.FAILED, State.CANCELLED}),
    State.RUNNING: frozenset({State.QUEUED, State.DELIVERED, State.FAILED, State.CANCELLED, State.DONE}),
    State.DELIVERED: frozenset({State.DONE, State.FAILED}),
    State.DONE: frozenset(),
    State.FAILED: frozenset({State.DELIVERED, State.DONE}),
    State.CANCELLED: frozenset(),
}


def may_move(origin: State | str, to: State) -> bool:
    return to in MOVES[State(origin)]
