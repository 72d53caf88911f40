"""Reads the instantiations out of a generated unit."""

from __future__ import annotations

import dataclasses
import re

_MACRO = re.compile(r"\bINSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM\s*\(([^()]*)\)\s*;")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ARGUMENTS = 17

_ACTIVATIONS = {"SafeFP4": "fp4", "__nv_fp4_e2m1": "fp4", "__nv_fp8_e4m3": "fp8", "SafeFP8": "fp8"}
#: (activation, weight, MX scaling) of the families that the survey covers
_INPUTS = {("fp4", "fp4", False): "nvfp4xnvfp4", ("fp8", "fp4", True): "mxfp8xmxfp4"}
_OUTPUTS = {"half": "f16", "__nv_bfloat16": "bf16", "SafeBF16": "bf16"}


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """One kernel as the generator asks for it; `tile` is (M, N, K) in elements."""

    inputs: str
    output: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    fusion: str
    swap_ab: bool
    schedule: str


@dataclasses.dataclass(frozen=True, slots=True)
class Instantiation:
    """A variant and the lines, counted from 1, that ask for it."""

    variant: Variant
    first_line: int
    last_line: int


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """One generated file, unchanged."""

    name: str
    text: str
    instantiations: tuple[Instantiation, ...]


def parse(name: str, text: str, arch_tag: str) -> Unit:
    """`text` of a file `name`. Instantiations of other architectures or input types are left out."""
    code = _without_comments(text)
    found = []
    for match in _MACRO.finditer(code):
        variant = _variant([argument.strip() for argument in match[1].split(",")], arch_tag)
        if variant is not None:
            first = code.count("\n", 0, match.start()) + 1
            found.append(Instantiation(variant, first, first + match[0].count("\n")))
    return Unit(name, text, tuple(found))


def without(text: str, removed: list[Instantiation]) -> str:
    """The unit's text with some instantiations blanked out, line numbers kept."""
    lines = text.split("\n")
    for instantiation in removed:
        for number in range(instantiation.first_line, instantiation.last_line + 1):
            lines[number - 1] = ""
    return "\n".join(lines)


def alone(unit: Unit, kept: Instantiation) -> Unit:
    """The unit with this one instantiation only, line numbers kept; those not surveyed go too."""
    code = _without_comments(unit.text)
    lines = unit.text.split("\n")
    for match in _MACRO.finditer(code):
        first = code.count("\n", 0, match.start()) + 1
        if first != kept.first_line:
            for number in range(first, first + match[0].count("\n") + 1):
                lines[number - 1] = ""
    return Unit(unit.name, "\n".join(lines), (kept,))


def _without_comments(text: str) -> str:
    """Blanks instead of comments keep every offset and line."""
    return _COMMENT.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def _variant(arguments: list[str], arch_tag: str) -> Variant | None:
    if len(arguments) != _ARGUMENTS or arguments[0] != arch_tag:
        return None
    activation, weight, output, schedule, _, fusion = arguments[1:7]
    flags = {"true": True, "false": False}
    if any(argument not in flags for argument in arguments[13:]) or not all(
        a.isdecimal() for a in arguments[7:13]
    ):
        return None
    m, n, k, cluster_m, cluster_n, cluster_k = (int(argument) for argument in arguments[7:13])
    is_mx, _, _, swap_ab = (flags[argument] for argument in arguments[13:])
    inputs = _INPUTS.get((_ACTIVATIONS.get(activation, activation), _ACTIVATIONS.get(weight, weight), is_mx))
    if inputs is None or output not in _OUTPUTS:
        return None
    return Variant(
        inputs=inputs,
        output=_OUTPUTS[output],
        tile=(m, n, k),
        cluster=(cluster_m, cluster_n, cluster_k),
        fusion=fusion.lower(),
        swap_ab=swap_ab,
        schedule="auto" if schedule == "void" else schedule.rsplit("::", 1)[-1],
    )
