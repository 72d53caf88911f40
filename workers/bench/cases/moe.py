"""A mixture-of-experts layer, as one GPU of a gang computes its share: routed experts alone, or all of it."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

from workers.bench import roofline
from workers.bench.cases.base import Fields, Named, Value, Work
from workers.bench.models import Model, models, tiny
from workers.bench.models import model as model_of

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
_FP32 = 4.0
_POWER_LAW = re.compile(r"power_law_(1\.\d{0,2}[1-9])")
_ROUTINGS = re.compile(rf"balanced|uniform|worst|{_POWER_LAW.pattern}")
_ROUTED = "one of balanced, uniform, worst, power_law_1.2"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9.\-]{0,39}")


def exponent_of(distribution: str) -> float | None:
    """The exponent of "power_law_1.2", 1 < exponent < 2; None for any other text."""
    match = _POWER_LAW.fullmatch(distribution)
    return float(match[1]) if match else None


@dataclasses.dataclass(frozen=True, slots=True)
class Moe(Named):
    """FC1, activation and FC2 of the experts that `tokens` tokens are routed to, `topk` of `experts` each.

    `hidden` and `inter` are the layer's widths. One GPU of `ep` × `tp` holds experts / ep experts, and of
    each inter / tp. The tokens are those of all `ep` ranks together. `distribution` says how they are routed:
    balanced, uniform, power_law_1.2, or worst: all to the same experts.
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
        routed = fields.word("distribution", _ROUTINGS, _ROUTED)
        dtype = fields.one_of("dtype", tuple(FORMATS))
        if experts % ep:
            raise fields.fault("ep", "a divisor of experts")
        if inter % tp:
            raise fields.fault("tp", "a divisor of inter")
        return tokens, hidden, inter, topk, experts, tp, ep, activation, routed, dtype

    @property
    def hit(self) -> float:
        """Expected distinct experts touched, of all ranks together."""
        return expected_hit(self.distribution, self.experts, self.topk, self.tokens)

    @property
    def work(self) -> Work:
        """An even share among the `ep` ranks. Where the busiest one is timed, it does more than this."""
        pairs = self.tokens * self.topk / self.ep
        # a rank sees a token at most once, however many of its experts are chosen
        return self.work_of(pairs, self.hit / self.ep, min(float(self.tokens), pairs))

    def work_of(self, pairs: float, hit: float, rows: float) -> Work:
        """Of one rank that got `pairs` pairs of token and expert, of `rows` tokens and `hit` experts."""
        weights, activations, rate = FORMATS[self.dtype]
        expert = self.products * (self.inter // self.tp) * self.hidden
        per = roofline.BYTES_PER_ELEMENT
        return Work(
            2.0 * pairs * expert,
            hit * expert * per[weights] + rows * self.hidden * per[activations],
            rows * self.hidden * per[OUTPUT],
            rate,
        )

    @property
    def products(self) -> int:
        """Matrices of an expert."""
        return 3 if self.activation == "gated" else 2

    @property
    def held_bytes(self) -> float:
        """Of one rank: weights as they are drawn and as they are multiplied, and rows between products."""
        width = self.inter // self.tp
        weights = self.experts // self.ep * self.products * width * self.hidden
        rows = self.tokens * self.topk * (self.products * width + 2 * self.hidden)
        own = 0.0 if self.dtype == "bf16" else roofline.BYTES_PER_ELEMENT[FORMATS[self.dtype][0]]
        return weights * (roofline.BYTES_PER_ELEMENT["bf16"] + own) + rows * _FP32

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.dtype, self.hidden, self.inter, self.experts, self.tp, self.ep)


@dataclasses.dataclass(frozen=True, slots=True)
class MoeLayer(Named):
    """Router, routed experts and shared experts of one layer of `model`, from hidden state to hidden state.

    `tokens` are those of all `ep` groups of GPUs: the router and the routed experts see each of them, the
    shared experts an even share. An expert's width on one of `tp` GPUs is rounded up to WIDTH_MULTIPLE.
    Collectives are no part of it.
    """

    kind: ClassVar[str] = "moe_layer"
    sweep: ClassVar[str] = "tokens"
    model: str
    tokens: int
    tp: int
    ep: int
    distribution: str
    dtype: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        known = {each.name: each for each in (*models(), *tiny())}
        name = fields.word("model", _NAME, f"one of {', '.join(known)}")
        if name not in known:
            raise fields.fault("model", f"one of {', '.join(known)}")
        tokens = fields.extent("tokens")
        tp, ep = fields.extent("tp", MAX_RANKS), fields.extent("ep", MAX_RANKS)
        routed = fields.word("distribution", _ROUTINGS, _ROUTED)
        dtype = fields.one_of("dtype", tuple(FORMATS), "bf16")
        if known[name].experts % ep:
            raise fields.fault("ep", f"a divisor of the {known[name].experts} experts of {name}")
        return name, tokens, tp, ep, routed, dtype

    @property
    def of(self) -> Model:
        return model_of(self.model)

    @property
    def routed(self) -> Moe:
        """Its routed experts alone, at the width that is multiplied."""
        of = self.of
        return Moe(
            self.tokens, of.hidden, of.expert_width(self.tp) * self.tp, of.top_k, of.experts, self.tp,
            self.ep, ACTIVATIONS[0], self.distribution, self.dtype,
        )  # fmt: skip

    @property
    def own_tokens(self) -> int:
        """Of one group of GPUs."""
        return -(-self.tokens // self.ep)

    @property
    def work(self) -> Work:
        return self.with_rest(self.routed.work)

    def with_rest(self, routed: Work) -> Work:
        """`routed` and the work of router and shared experts, whose products are in bf16."""
        of, per = self.of, roofline.BYTES_PER_ELEMENT["bf16"]
        router = of.experts * of.hidden
        shared = 3 * of.shared_experts * of.expert_width(self.tp) * of.hidden
        tokens = self.tokens * of.hidden * per
        return Work(
            routed.flops + 2.0 * self.tokens * router + 2.0 * self.own_tokens * shared,
            # the experts' tokens are the router's
            max(routed.read_bytes, tokens) + (router + shared) * per,
            max(routed.write_bytes, tokens),
            routed.rate,
        )

    @property
    def held_bytes(self) -> float:
        return self.routed.held_bytes

    @property
    def weight(self) -> tuple[Value, ...]:
        return (self.model, self.dtype, self.tp, self.ep)


def expected_hit(distribution: str, experts: int, top_k: int, tokens: int) -> float:
    """Distinct experts that `tokens` tokens touch, expected."""
    exponent = exponent_of(distribution)
    if exponent is not None:
        return roofline.experts_hit_power_law(experts, top_k, tokens, exponent)
    if distribution == "uniform":
        return roofline.experts_hit_uniform(experts, top_k, tokens)
    if distribution == "worst":
        return float(top_k)
    return roofline.experts_hit_balanced(experts, top_k, tokens)
