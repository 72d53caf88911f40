"""Named case lists: what a person asks for when they do not name cases. Standard library only."""

from __future__ import annotations

from workers.bench.cases.base import Case
from workers.bench.suites import core, moe, step
from workers.bench.suites.gemms import decode, of_model, prefill, squares, sweep

#: name → (one line for people, cases)
_KNOWN: dict[str, tuple[str, list[Case]]] = {
    "cpu-smoke": (
        "bf16 and fp32 products in under a minute on two cores",
        # N = K = 1024 keeps bf16 bearable on CPUs without bf16 instructions.
        [
            *sweep((1, 16, 64, 256), 1024, 1024, "bf16"),
            *sweep((1, 16, 64, 256), 1024, 1024, "fp32"),
            *sweep((1, 16, 64, 256), 2048, 1024, "fp32"),
        ],
    ),
    "h200-first": ("bf16 products of decode batches, and squares up to 8192", core.first()),
    "h200-core": ("A short visit to an H200: products, step kernels and ceilings", core.core()),
    "decode-bf16": ("Every model's layers in bf16, 1 to 256 tokens", decode("bf16")),
    "prefill-bf16": ("Every model's layers in bf16, 512 to 8192 tokens", prefill("bf16")),
    "decode-fp8": ("Every model's layers in fp8, 1 to 256 tokens", decode("fp8")),
    "prefill-fp8": ("Every model's layers in fp8, 512 to 8192 tokens", prefill("fp8")),
    "decode-nvfp4": ("Every model's layers in nvfp4, 1 to 256 tokens", decode("nvfp4")),
    "prefill-nvfp4": ("Every model's layers in nvfp4, 512 to 8192 tokens", prefill("nvfp4")),
    "glm-5-nvfp4": ("GLM-5's layers in nvfp4, its experts grouped too", of_model("GLM-5", "nvfp4")),
    "deepseek-v3-fp8-block": (
        "DeepSeek-V3's layers in fp8_block, its experts grouped too",
        of_model("DeepSeek-V3", "fp8_block"),
    ),
    "squares": ("Square products of every format, for the peaks", squares()),
    "step": ("Kernels of a decode step beside the products, and prefill attention", step.step()),
    "moe-core": ("Layers with experts of two models in bf16: a short visit to an H200", moe.core()),
    "moe-decode": ("Every model's layer with experts in bf16, 1 to 256 tokens, and its slices", moe.decode()),
    "moe-prefill": ("The same, 512 to 16384 tokens", moe.prefill()),
    "moe-formats": ("Routed experts alone, in every format that a backend here multiplies", moe.formats()),
    "reference": ("What no library moves: a copy, two large products, empty kernels", step.reference()),
    "ceilings": ("Copy bandwidth, the best bf16 and fp8 product, empty kernels", step.ceilings()),
}  # fmt: skip

SUITES: dict[str, tuple[Case, ...]] = {
    name: tuple(dict.fromkeys(cases)) for name, (_, cases) in _KNOWN.items()
}
#: what each is for, in one line
DESCRIPTIONS: dict[str, str] = {name: words for name, (words, _) in _KNOWN.items()}
