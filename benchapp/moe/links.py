"""Where the kernels of a model's step are shown alone: addresses of the trends."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse

from benchapp.catalog.models import Series, Target
from workers.bench.cases.model import Decode, Prefill
from workers.bench.models import projections

#: Shapes looked through.
MAX_SHAPES = 500
ATTENTION = {"decode": "decode_attention", "prefill": "prefill_attention"}


@dataclasses.dataclass(frozen=True, slots=True)
class Alone:
    """A kernel of a step, by the kind of case and the parameters that are the model's."""

    name: str
    kind: str
    params: Mapping[str, int | str]

    def is_of(self, kind: str, shape: str) -> bool:
        """Whether a sweep over a shape, as the catalog writes it, measures it."""
        told = _told(shape)
        return kind == self.kind and all(told.get(name) == str(value) for name, value in self.params.items())


def kernels(case: Decode | Prefill) -> list[Alone]:
    """The products of a layer on one GPU, its routed experts, the whole layer, and its attention."""
    of = case.layout.model
    found = [
        Alone(f"{each.name} {each.n:,} × {each.k:,}", "gemm", {"n": each.n, "k": each.k})
        for each in projections(of, case.tp)
    ]
    widths = {"hidden": of.hidden, "inter": of.moe_intermediate, "topk": of.top_k, "experts": of.experts}
    split = {"tp": case.tp, "ep": case.ep}
    found.append(Alone("routed experts", "moe", widths | split))
    found.append(Alone("the whole MoE layer", "moe_layer", {"model": of.name, **split}))
    if of.mla is None:
        heads, kv_heads = of.heads(case.tp)
        shape = {"q_heads": heads, "kv_heads": kv_heads, "head_dim": of.head_dim}
        found.append(Alone("attention", ATTENTION[case.kind], shape))
    return found


def measured(case: Decode | Prefill, targets: Collection[Target]) -> list[tuple[str, str]]:
    """(name, address) of each kernel; an address only of what was timed on a GPU of the same models. One
    query."""
    wanted = kernels(case)
    models = {target.model for target in targets if target.model}
    gemms = [f"{each.params['n']}x{each.params['k']}" for each in wanted if each.kind == "gemm"]
    others = {each.kind for each in wanted if each.kind != "gemm"}
    rows = (
        Series.objects.filter(
            Q(case__kind="gemm", case__shape__in=gemms) | Q(case__kind__in=others),
            metric="time",
            target__model__in=models,
        )
        .order_by("-target_id", "case__kind", "case__shape")
        .values_list("target_id", "case__kind", "case__shape")
        .distinct()
    )
    held = list(rows[:MAX_SHAPES])
    return [(each.name, _address(each, held)) for each in wanted]


def _address(wanted: Alone, held: Sequence[tuple[int, str, str]]) -> str:
    found = next((row for row in held if wanted.is_of(row[1], row[2])), None)
    if found is None:
        return ""
    target, kind, shape = found
    return f"{reverse('trends:index')}?{urlencode({'target': target, 'kind': kind, 'shape': shape})}"


def _told(shape: str) -> dict[str, str]:
    """The parameters that a shape names: "4096x7168" is n and k of a product, else "hidden=7168,topk=8"."""
    if "=" not in shape:
        n, _, k = shape.partition("x")
        return {"n": n, "k": k}
    return dict(pair.split("=", 1) for pair in shape.split(",") if "=" in pair)
