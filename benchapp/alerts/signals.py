"""What other modules and rooms can listen to. Each is sent in the transaction that it speaks of."""

from django.dispatch import Signal

#: A new alert: `alert`.
alert_opened = Signal()
#: New evidence, a verdict or another certainty: `alert`, `what` (a sentence).
alert_updated = Signal()
#: It was closed, by a person or since it was refuted: `alert`.
alert_closed = Signal()
#: Environments that a bisect will want soon, so that they can be built ahead: `runs` is empty where none;
#: sent with `recipes` (lists of versions) and `queue`.
environments_wanted = Signal()
#: Asked of a `target`: a listener answers with the `benchapp.alerts.places.Place` where it is measured.
who_serves = Signal()
#: Asked of a `component` of recipes: a listener answers with the versions of it that it knows.
releases_known = Signal()
