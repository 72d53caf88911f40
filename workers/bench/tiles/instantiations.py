"""Reads the instantiations out of a generated unit."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection

_MACRO = re.compile(r"\bINSTANTIATE_TMA_WARP_SPECIALIZED_MOE_GEMM\s*\(([^()]*)\)\s*;")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_TEMPLATE = re.compile(r"^\s*template\s+void\b", re.MULTILINE)
# before 0.5.3 without the epilogue's schedule, dynamic clusters and a choice of operands: always swapped
_ARGUMENTS, _ARGUMENTS_BEFORE_0_5_3 = 17, 14

_ELEMENTS = {
    "SafeFP4": "fp4",
    "__nv_fp4_e2m1": "fp4",
    "SafeFP8": "fp8",
    "__nv_fp8_e4m3": "fp8",
    "SafeBF16": "bf16",
    "__nv_bfloat16": "bf16",
}
_FAMILIES = {
    ("fp4", "fp4", False): "nvfp4xnvfp4",
    ("fp8", "fp4", True): "mxfp8xmxfp4",
    ("fp8", "fp8", False): "fp8xfp8",
    ("fp8", "fp8", True): "mxfp8xmxfp8",
    ("bf16", "bf16", False): "bf16xbf16",
}
#: activation x weight of the families that the survey covers, and the bits of an activation element
ACTIVATION_BITS = {
    "nvfp4xnvfp4": 4,
    "mxfp8xmxfp4": 8,
    "fp8xfp8": 8,
    "bf16xbf16": 16,
    "mxfp8xmxfp8": 8,
}
INPUTS = tuple(ACTIVATION_BITS)
_OUTPUTS = {"half": "f16", "__nv_bfloat16": "bf16", "SafeBF16": "bf16"}
#: Others are chosen by the model's activation function and not by a tactic.
_FUSIONS = {"NONE": "none", "FINALIZE": "finalize"}
_SCHEDULES = {
    "void": "auto",
    "PtrArrayTmaWarpSpecialized": "tma",
    "PtrArrayNoSmemWarpSpecialized": "nosmem",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Form:
    """A variant whatever its output type: what a tactic chooses, and what a dispatch table knows."""

    inputs: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    fusion: str
    swap_ab: bool
    schedule: str

    def __str__(self) -> str:
        """E.g. nvfp4xnvfp4 128x256x128 finalize swap_ab; what never varies on an architecture is left out."""
        words = [self.inputs, "x".join(map(str, self.tile))]
        if self.cluster != (1, 1, 1):
            words.append("cluster " + "x".join(map(str, self.cluster)))
        if self.schedule != "auto":
            words.append(self.schedule)
        return " ".join((*words, self.fusion, *(("swap_ab",) if self.swap_ab else ())))


@dataclasses.dataclass(frozen=True, slots=True)
class Variant:
    """One kernel as the generator asks for it; `tile` is (M, N, K) in elements, of one block.

    On SM100 a cluster of M = 2 stands for a pair of blocks that share a tile of twice that M.
    """

    inputs: str
    output: str
    tile: tuple[int, int, int]
    cluster: tuple[int, int, int]
    fusion: str
    swap_ab: bool
    schedule: str

    @classmethod
    def of(cls, form: Form, output: str) -> Variant:
        return cls(form.inputs, output, form.tile, form.cluster, form.fusion, form.swap_ab, form.schedule)

    @property
    def form(self) -> Form:
        return Form(self.inputs, self.tile, self.cluster, self.fusion, self.swap_ab, self.schedule)


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


def parse(name: str, text: str, *tags: str, inputs: Collection[str] = INPUTS) -> Unit:
    """`text` of a file `name`. Instantiations of other ArchTags or input types are left out."""
    code = _without_comments(text)
    found = []
    for match in _MACRO.finditer(code):
        variant = _variant([argument.strip() for argument in match[1].split(",")], tags)
        if variant is not None and variant.inputs in inputs:
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


def written(text: str) -> int:
    """Kernels that a generated file asks for, surveyed or not."""
    code = _without_comments(text)
    return len(_MACRO.findall(code)) + len(_TEMPLATE.findall(code))


def schedule_word(schedule: str, *, dynamic: bool, tag: str) -> str:
    """`auto`, or of SM100 and SM103 the epilogue and whether the cluster's size is chosen at run time.

    SM103's own kernels are told from SM100's, which it runs too.
    """
    word = _SCHEDULES.get(schedule, schedule)
    return f"{'sm103_' if tag == 'Sm103' else ''}{word}{'_dynamic' if dynamic else ''}"


def _variant(arguments: list[str], tags: Collection[str]) -> Variant | None:
    if len(arguments) == _ARGUMENTS_BEFORE_0_5_3:
        arguments = [*arguments[:4], "void", *arguments[4:13], "false", arguments[13], "true"]
    if len(arguments) != _ARGUMENTS or arguments[0] not in tags:
        return None
    activation, weight, output, schedule, _, fusion = arguments[1:7]
    flags = {"true": True, "false": False}
    if any(argument not in flags for argument in arguments[13:]) or not all(
        a.isdecimal() for a in arguments[7:13]
    ):
        return None
    m, n, k, cluster_m, cluster_n, cluster_k = (int(argument) for argument in arguments[7:13])
    is_mx, dynamic, _, swap_ab = (flags[argument] for argument in arguments[13:])
    inputs = _FAMILIES.get((_ELEMENTS.get(activation, ""), _ELEMENTS.get(weight, ""), is_mx))
    if inputs is None or output not in _OUTPUTS or fusion not in _FUSIONS:
        return None
    return Variant(
        inputs=inputs,
        output=_OUTPUTS[output],
        tile=(m, n, k),
        cluster=(cluster_m, cluster_n, cluster_k),
        fusion=_FUSIONS[fusion],
        swap_ab=swap_ab,
        schedule=schedule_word(schedule.rsplit("::", 1)[-1], dynamic=dynamic, tag=arguments[0]),
    )
