"""Faster than the hardware allows: the kernel did not do the work."""

from __future__ import annotations

from benchapp.catalog.models import Target
from benchapp.ingest import schema
from workers.bench import hardware, roofline


def is_impossible(item: schema.Measurement, target: Target) -> bool:
    """Whether a GEMM's median undercuts the hard bound of its GPU.

    False wherever the bound is not known: no GPU, unknown model, dtype or L2 policy.
    """
    model = hardware.lookup(target.model)
    if item.statistics is None or item.kind != "gemm" or model is None:
        return False
    m, n, k, dtype = (item.params.get(name) for name in ("m", "n", "k", "dtype"))
    if not (isinstance(m, int) and isinstance(n, int) and isinstance(k, int) and isinstance(dtype, str)):
        return False
    if dtype not in roofline.RATE_OF_FORMAT or min(m, n, k) < 1:
        return False
    seen = item.readings.sm_clock_mhz_max if item.readings else None
    clocks = [clock for clock in (seen, model.max_clock_mhz, model.clock_mhz) if clock is not None]
    peak = model.dense_peak(roofline.rate_of(dtype, dtype), max(clocks) if clocks else None)
    l2_bytes = target.properties.get("l2_bytes") or model.l2_bytes
    if peak is None or l2_bytes is None:
        return False
    bound = roofline.hard_bound(
        flops=roofline.gemm_flops(m, n, k),
        highest_peak=peak,
        read_bytes=roofline.gemm_read_bytes(m, n, k, dtype, dtype),
        write_bytes=roofline.gemm_write_bytes(m, n, dtype),
        bandwidth=model.bandwidth,
        l2_bytes=l2_bytes,
        l2_policy=item.l2_policy,
    )
    return roofline.is_impossible(item.statistics.median, bound)
