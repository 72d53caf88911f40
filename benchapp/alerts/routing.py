"""Which alerts are told, and to which channels."""

from __future__ import annotations

import dataclasses

from benchapp.alerts.models import Alert, Change, Channel, Route
from benchapp.alerts.narrowing import told
from benchapp.catalog.models import Case, Target

#: Kinds of cases that are of a whole model, named in their parameters.
_OF_MODELS = ("moe", "moe_layer", "decode", "prefill", "serving")


@dataclasses.dataclass(frozen=True, slots=True)
class Traits:
    """What routes ask of an alert."""

    kind: str
    gpu_models: frozenset[str]
    moe_models: frozenset[str]
    owner: int | None
    worse: bool
    cost: float


def traits(alert: Alert) -> Traits:
    moved = Change.objects.filter(alert=alert)
    gpus = set(
        moved.filter(series__target__kind=Target.Kind.GPU).values_list("series__target__model", flat=True)
    )
    if alert.target is not None and alert.target.kind == Target.Kind.GPU:
        gpus.add(alert.target.model)
    models = set(
        moved.filter(series__case__kind__in=_OF_MODELS).values_list("series__case__params__model", flat=True)
    )
    told = alert.evidence.get("model") if isinstance(alert.evidence, dict) else None
    models |= {each for each in (told if isinstance(told, list) else [told]) if isinstance(each, str)}
    return Traits(
        kind=str(alert.kind),
        gpu_models=frozenset(filter(None, gpus)),
        moe_models=frozenset(filter(None, models)),
        owner=alert.assignee_id,
        worse=alert.worse,
        cost=alert.cost,
    )


def models_known() -> list[str]:
    """Names of the models that something was measured of."""
    cases = Case.objects.filter(kind__in=_OF_MODELS, params__model__isnull=False)
    return list(cases.values_list("params__model", flat=True).distinct())


def meets(route: Route, has: Traits) -> bool:
    """Whether an alert meets all that the route sets; pure."""
    return (
        (not route.kinds or has.kind in route.kinds)
        and (not route.gpu_models or not has.gpu_models.isdisjoint(route.gpu_models))
        and (not route.moe_models or not has.moe_models.isdisjoint(route.moe_models))
        and (route.owner_id is None or route.owner_id == has.owner)
        and (route.improvements or has.worse)
        and has.cost >= route.least_cost
    )


def channels_of(alert: Alert) -> list[Channel]:
    """Channels that get this alert once it is told: enabled ones with a route that it meets."""
    has = traits(alert)
    channels = Channel.objects.filter(enabled=True).prefetch_related("routes")
    return [channel for channel in channels if any(meets(route, has) for route in channel.routes.all())]


def words_of(route: Route) -> str:
    """What a route lets through: "what got worse: build cost moved; on NVIDIA H200"."""
    kinds = [str(Alert.Kind(kind).label) for kind in route.kinds if kind in Alert.Kind.values]
    said = [
        f"what got worse{' or better' if route.improvements else ''}"
        + (f": {', '.join(kinds)}" if kinds else ""),
        f"on {', '.join(route.gpu_models)}" if route.gpu_models else "",
        f"of {', '.join(route.moe_models)}" if route.moe_models else "",
        f"assigned to {route.owner.get_username()}" if route.owner else "",
        f"cost {route.least_cost:g} or more" if route.least_cost else "",
    ]
    return "; ".join(filter(None, said))


def is_told(alert: Alert) -> bool:
    """Whether people are told of it as it stands in the database: see `narrowing.told`."""
    return Alert.objects.filter(told(), pk=alert.pk).exists()
