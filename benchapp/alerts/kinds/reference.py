"""Reference cases: what a GPU itself does, by torch alone, so that they tell the machine from a library.

Copies within the device's memory, empty kernels, and the largest bf16 and fp8 products: bandwidth, launches
and arithmetic. No release of FlashInfer moves them; a torch or a driver may.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db.models import Q

from benchapp.catalog.models import Case
from workers.bench.cases.ceiling import Copy, EmptyKernel
from workers.bench.cases.gemm import Gemm

_CEILINGS = (Copy.kind, EmptyKernel.kind)
#: Products that fill any GPU: square, from this edge on.
EDGE = 4096
_FORMATS = ("bf16", "fp8")
_PRODUCTS = ("torch.mm", "torch._scaled_mm")
_OF_CEILINGS = ("torch.copy_", "torch.fill_")
#: Of the stack, what reference cases are computed by: points of other versions of these are not compared.
BASE = ("torch", "cublas", "driver", "toolkit")


def is_reference(case: Case, backend: str) -> bool:
    """Whether only the machine, its driver or torch can move a series of this case and backend."""
    if case.kind in _CEILINGS:
        return backend in _OF_CEILINGS
    return case.kind == Gemm.kind and backend in _PRODUCTS and _fills_a_gpu(case.params)


def _fills_a_gpu(params: Mapping[str, Any]) -> bool:
    m, n, k = (params.get(name) for name in ("m", "n", "k"))
    return m == n == k and isinstance(m, int) and m >= EDGE and params.get("dtype") in _FORMATS


def reference_series() -> Q:
    """The same rule as a filter on Series, up to the edges of products: `is_reference` decides on those."""
    return Q(case__kind__in=_CEILINGS, backend__in=_OF_CEILINGS) | Q(
        case__kind=Gemm.kind, backend__in=_PRODUCTS, case__dtype__in=_FORMATS, case__size__gte=EDGE
    )


def base_of(components: Mapping[str, Any]) -> tuple[str, ...]:
    """The versions of a stack that reference cases depend on; "" of what it lacks."""
    return tuple(str(components.get(name, "")) for name in BASE)
