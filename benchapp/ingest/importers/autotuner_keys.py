"""Keys of FlashInfer's autotuner cache: `str()` of a Python tuple, read without evaluating anything.

Old keys have three fields: (operation, runner, shapes); newer ones a fourth, what else the runner was made
with. The operations of the CUTLASS fused MoE runner have the shapes
((tokens, width of the activation), FC1 weights, FC1 bias, FC2 weights, FC2 bias), where weights are
(experts, rows, packed columns). Source: `flashinfer/fused_moe/core.py` and `autotuner.py`, 0.5.3 to 0.7.4.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from typing import Any

LONGEST = 20_000
DEEPEST = 30
_OPERATION = re.compile(r"\(\s*'([^'\\]{1,200})'\s*,\s*'([^'\\]{1,200})'\s*,")
#: Lengths of the fourth field: empty, 0.6.18's (with ranks) and 0.7.4's (without). It begins with the types
#: of activation, weight and output and ends with deepseek_fp8, w4_group_scaling, mxfp8_act_scaling, humming,
#: min_latency, pdl, activation, packed_weights, fused_finalize.
_EXTRAS = frozenset({0, 17, 20})
_DTYPES = {"torch.bfloat16": "bf16", "torch.float16": "f16", "torch.float32": "f32"}
_FP8 = "torch.float8_e4m3fn"
_PACKED = frozenset({"torch.uint8", "torch.int64"})


def operation_of(key: str) -> tuple[str, str] | None:
    """(operation, runner) of a key of any operation, or None where it is no such key."""
    found = _OPERATION.match(key)
    return (found[1], found[2]) if found else None


@dataclasses.dataclass(frozen=True, slots=True)
class Shapes:
    """One call of the fused MoE: `hidden` in elements, `fc1` rows of an expert's first weight."""

    tokens: int
    experts: int
    hidden: int
    fc1: int


@dataclasses.dataclass(frozen=True, slots=True)
class Key:
    """`inputs` and `output` are None where the key does not tell; `fused_finalize` False where it was off."""

    shapes: Shapes
    inputs: str | None
    output: str | None
    fused_finalize: bool


def parse(key: str) -> Key | None:
    """A key of the fused MoE operations, or None where it has another form."""
    fields = _literal(key)
    if not isinstance(fields, tuple) or len(fields) not in (3, 4):
        return None
    try:
        (tokens, width), (experts, fc1, packed), _, (_, hidden, _), _ = fields[2]
    except (TypeError, ValueError):
        return None
    numbers = (tokens, width, experts, fc1, packed, hidden)
    if not all(type(number) is int and 0 < number < 2**31 for number in numbers):
        return None
    shapes = Shapes(tokens, experts, hidden, fc1)
    # two FP4 values in each byte of the activation: no other input type has half the width
    half_width = 2 * width == hidden
    extras = fields[3] if len(fields) == 4 else ()
    if not isinstance(extras, tuple) or len(extras) not in _EXTRAS:
        return None
    if not extras:
        return Key(shapes, "nvfp4xnvfp4" if half_width else None, None, True)
    x, weight, output = (str(dtype) for dtype in extras[:3])
    deepseek, w4_groups, mxfp8 = extras[-9:-6]
    inputs = None if deepseek or w4_groups else _inputs(x, weight, bool(mxfp8), half_width)
    return Key(shapes, inputs, _DTYPES.get(output), bool(extras[-1]))


def _inputs(x: str, weight: str, mxfp8: bool, half_width: bool) -> str | None:
    if x in _PACKED and weight in _PACKED and half_width:
        return "nvfp4xnvfp4"
    if x == _FP8 and weight in _PACKED and mxfp8:
        return "mxfp8xmxfp4"
    if x == weight == _FP8:
        return "mxfp8xmxfp8" if mxfp8 else "fp8xfp8"
    if x == weight and x in ("torch.bfloat16", "torch.float16"):
        return f"{_DTYPES[x]}x{_DTYPES[x]}"
    return None


def _literal(text: str) -> Any:
    """`ast.literal_eval` that also knows dtypes (as "torch.uint8"); None for anything else."""
    # no such key escapes anything, and Python warns of escapes that it does not know
    if len(text) > LONGEST or "\\" in text or _depth(text) > DEEPEST:
        return None
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _depth(text: str) -> int:
    depth = deepest = 0
    for character in text:
        if character in "([{-+~":
            # a chain of signs nests as deep as brackets do
            depth += 1
            deepest = max(deepest, depth)
        elif character in ")]},":
            depth = max(0, depth - 1)
    return deepest


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if (
        isinstance(node, ast.UnaryOp)
        and isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
    ):
        return -node.operand.value if type(node.operand.value) is int else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "torch":
        return f"torch.{node.attr}"
    raise ValueError("no literal")
