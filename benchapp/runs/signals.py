"""What other rooms can listen to."""

from django.dispatch import Signal

#: Told in the transaction in which a run ends: `sender` is Run, `run` the row. What a listener writes is
#: there exactly when the end of the run is.
run_ended = Signal()
#: Told in the transaction in which runs are asked for: `runs`, the new ones.
runs_asked = Signal()
#: Told in the transaction in which a person takes a run out of ranking, or puts it back: `run`.
run_judged = Signal()
#: Asked of queued `runs`. A listener answers with a sentence for each that it knows to be held up, by key.
why_runs_wait = Signal()
