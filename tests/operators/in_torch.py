"""What the tests of this folder ask of torch, in a Python that has it: JSON lines in, JSON lines out."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch

from tests.asked_in_torch import answer
from workers.bench.cases.gemm import GroupedGemm, output_of
from workers.bench.cases.parse import from_text
from workers.bench.operators import correctness, flashinfer_grouped, formats, products, registry, stack
from workers.bench.operators.base import passes


def verdict(found: Any) -> dict[str, Any]:
    return {"passes": passes(found), **dataclasses.asdict(found)}


def all_values(matrix: formats.Matrix) -> Any:
    return matrix.values(torch, torch.arange(matrix.rows))


def every_e4m3() -> list[bool]:
    codes = torch.arange(256, dtype=torch.uint8).view(torch.float8_e4m3fn)
    finite = codes[~codes.float().isnan()]
    back = formats.to_e4m3(torch, finite.float()).view(torch.uint8)
    return (back == finite.view(torch.uint8)).tolist()


def e4m3(values: list[float]) -> list[float]:
    return formats.to_e4m3(torch, torch.tensor(values)).float().tolist()


def e2m1(values: list[float]) -> list[float]:
    packed = formats.pack_e2m1(torch, torch.tensor([values]))
    return formats.unpack_e2m1(torch, packed)[0].tolist()


def e8m0(values: list[float], emax: int) -> list[float]:
    exponents = formats.to_e8m0(torch, torch.tensor(values), emax)
    return formats.from_e8m0(torch, exponents).tolist()


def round_trip(dtype: str, rows: int, k: int, weight: bool, size: float) -> dict[str, Any]:
    """Largest |value − x| over the largest |x| of its block, and over that of the tensor."""
    x = torch.randn(rows, k) * size
    held = formats.quantise(torch, x, dtype, weight)
    off = (all_values(held) - x.double()).abs()
    blocks = (
        off.unflatten(1, (-1, formats.BLOCK.get(dtype, k))),
        x.unflatten(1, (-1, formats.BLOCK.get(dtype, k))),
    )
    return {
        "of_block": float((blocks[0].amax(2) / blocks[1].abs().amax(2).clamp(min=1e-30)).max()),
        "of_tensor": float(off.max() / x.abs().max()),
        "scales": list(held.scales.shape) if held.scales is not None else [],
    }


def swizzled(rows: int, columns: int) -> dict[str, Any]:
    scales = torch.arange(rows * columns, dtype=torch.int32).remainder(251).add(1).to(torch.uint8)
    held = formats.swizzle(torch, scales.view(rows, columns))
    return {"shape": list(held.shape), "flat": held.flatten().tolist()}


def column_major(rows: int, columns: int, multiple: int) -> dict[str, Any]:
    scales = torch.randn(rows, columns)
    held = formats.column_major(torch, scales, multiple)
    return {"equal": bool((held == scales).all()), "shape": list(held.shape), "stride": list(held.stride())}


def judge(dtype: str, m: int, n: int, k: int, fault: str, amount: float = 0.0) -> dict[str, Any]:
    """What `compare` says of a right product with one fault in it."""
    a, b = (formats.draw(torch, rows, k, dtype, "cpu", weight) for rows, weight in ((m, False), (n, True)))
    left, right = all_values(a), all_values(b)
    exact = left @ right.t()
    d = exact.to(formats.plain_dtype(torch, output_of(dtype)))
    at = int(amount)
    if fault == "zeros":
        d.zero_()
    elif fault == "zero_row":
        d[at] = 0
    elif fault == "nan":
        d[at % m, at % n] = float("nan")
    elif fault == "cosine":
        noise = torch.randn_like(exact) * exact.square().mean().sqrt()
        d = (amount * exact + (1 - amount**2) ** 0.5 * noise).to(d.dtype)
    elif fault == "e5m2":  # the bytes of A, read as the other 8-bit format
        other = a.data.view(torch.uint8).view(torch.float8_e5m2).double().nan_to_num(0, 0, 0)
        d = (other @ right.t()).to(d.dtype)
    elif fault == "unswizzled":  # scales of A taken for swizzled ones
        wrong = formats.swizzle(torch, a.scales).view(-1)[: a.scales.numel()].view(a.scales.shape)
        d = (all_values(dataclasses.replace(a, scales=wrong)) @ right.t()).to(d.dtype)
    elif fault != "none":
        raise ValueError(fault)
    return verdict(correctness.compare(torch, d, a, b))


def grouped(dtype: str, groups: int, m: int, align: int, fault: str) -> dict[str, Any]:
    case = GroupedGemm(groups, m, 128, 256, dtype)
    of = products.draw_groups(torch, case, "cpu", align)
    d = of.output()
    for group in range(groups):
        mine = torch.arange(of.starts[group], of.starts[group] + of.counts[group])
        weight = of.weight((group + 1) % groups if fault == "other_weight" and group == 0 else group)
        d[mine] = (of.a.values(torch, mine) @ all_values(weight).t()).to(d.dtype)
    return {"starts": of.starts, "rows": len(d), **verdict(products.compare_groups(d, of))}


def scales_by_group(groups: int, m: int, align: int) -> dict[str, Any]:
    """Where each group's scales begin, found by the scales themselves."""
    case = GroupedGemm(groups, m, 128, 256, "nvfp4")
    of = products.draw_groups(torch, case, "cpu", align)
    held = flashinfer_grouped.scales_by_group(of)
    expected = [
        formats.swizzle(torch, of.a.scales[start:end].view(torch.uint8))
        for start, end in zip(of.starts, of.starts[1:], strict=False)
    ]
    begins = []
    for scales in expected:
        tiles = range(0, len(held) - len(scales) + 1, 128)
        begins.append([at for at in tiles if bool((held[at : at + len(scales)] == scales).all())])
    return {"starts": of.starts, "begins": begins}


def compute(case: str) -> list[dict[str, Any]]:
    """Every operator of a case, made ready, called and checked."""
    found = []
    for operator in registry.operators(torch, from_text(case)):
        line: dict[str, Any] = {"backend": operator.backend}
        try:
            ready = operator.ready(torch, from_text(case))
            line.update(verdict(ready.check(ready.call())), inputs=ready.inputs)
        except Exception as error:
            line["error"] = f"{type(error).__name__}: {error}"
        found.append(line)
    return found


def observed(device: str) -> dict[str, str]:
    return stack.observed(torch, device)


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    torch.set_num_threads(1)
    answer(globals())
