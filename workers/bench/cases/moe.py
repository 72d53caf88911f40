"""The routed experts of a mixture-of-experts layer, as one GPU of a gang computes its share of them."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

from workers.bench import roofline
from workers.bench.cases.base import Fields, Named, Value, Work

#: Formats by the names that aiconfigurator gives them: (weights, activations, rate). A weight-only format is
#: expanded first, and multiplies at the rate of its activations.
FORMATS: dict[str, tuple[str, str, str]] = {
    "bf16": ("bf16", "bf16", "bf16"),
    "fp8": ("fp8", "fp8", "fp8"),
    "fp8_block": ("fp8_block", "fp8_rows", "fp8"),
    "nvfp4": ("nvfp4", "nvfp4", "fp4"),
    "int4_wo": ("int4", "bf16", "bf16"),
    "w4a16_mxfp4": ("mxfp4", "bf16", "bf16"),
    "w4a8_mxfp4_mxfp8": ("mxfp4", "mxfp8", "fp8"),
}
#: gated: gate and up beside each other, as with SwiGLU; plain: up alone
ACTIVATIONS = ("gated", "plain")
OUTPUT = "bf16"
MAX_RANKS = 1024
_POWER_LAW = re.compile(r"power_law_(1\.\d{0,2}[1-9])")
_ROUTINGS = re.compile(rf"balanced|uniform|{_POWER_LAW.pattern}")


def exponent_of(distribution: str) -> float | None:
    """The exponent of "power_law_1.2", 1 < exponent < 2; None for any other text."""
    match = _POWER_LAW.fullmatch(distribution)
    return float(match[1]) if match else None


@dataclasses.dataclass(frozen=True, slots=True)
class Moe(Named):
    """FC1, activation and FC2 of the experts that `tokens` tokens are routed to, `topk` of `experts` each.

    `hidden` and `inter` are the layer's widths. One GPU of `ep` × `tp` holds experts / ep experts, and of
    each inter / tp. The tokens are those of all `ep` ranks together. `distribution` says how they are routed:
    balanced, uniform or power_law_1.2.
    """

    kind: ClassVar[str] = "moe"
    sweep: ClassVar[str] = "tokens"
    tokens: int
    hidden: int
    inter: int
    topk: int
    experts: int
    tp: int
    ep: int
    activation: str
    distribution: str
    dtype: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        tokens, hidden, inter = (fields.extent(name) for name in ("tokens", "hidden", "inter"))
        experts = fields.extent("experts", 65_536)
        topk = fields.extent("topk", experts)
        tp, ep = fields.extent("tp", MAX_RANKS), fields.extent("ep", MAX_RANKS)
        activation = fields.one_of("activation", ACTIVATIONS, ACTIVATIONS[0])
        routed = fields.word("distribution", _ROUTINGS, "one of balanced, uniform, power_law_1.2")
        dtype = fields.one_of("dtype", tuple(FORMATS))
        if experts % ep:
            raise fields.fault("ep", "a divisor of experts")
        if inter % tp:
            raise fields.fault("tp", "a divisor of inter")
        return tokens, hidden, inter, topk, experts, tp, ep, activation, routed, dtype

    @property
    def hit(self) -> float:
        """Expected distinct experts touched, of all ranks together."""
        exponent = exponent_of(self.distribution)
        if exponent is not None:
            return roofline.experts_hit_power_law(self.experts, self.topk, self.tokens, exponent)
        if self.distribution == "uniform":
            return roofline.experts_hit_uniform(self.experts, self.topk, self.tokens)
        return roofline.experts_hit_balanced(self.experts, self.topk, self.tokens)

    @property
    def work(self) -> Work:
        """An even share among the `ep` ranks. Where the busiest one is timed, it does more than this."""
        weights, activations, rate = FORMATS[self.dtype]
        width = self.inter // self.tp
        products = 3 if self.activation == "gated" else 2
        pairs = self.tokens * self.topk / self.ep
        # a rank sees a token at most once, however many of its experts are chosen
        rows = min(float(self.tokens), pairs)
        per = roofline.BYTES_PER_ELEMENT
        return Work(
            2.0 * pairs * products * width * self.hidden,
            self.hit / self.ep * products * width * self.hidden * per[weights]
            + rows * self.hidden * per[activations],
            rows * self.hidden * per[OUTPUT],
            rate,
        )

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.dtype, self.hidden, self.inter, self.experts, self.tp, self.ep)
