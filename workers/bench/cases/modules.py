"""A JIT module of FlashInfer, as a case: what building it ahead costs, and how large it is."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from workers.bench.cases.base import Fields, Params, Value, Work

_MODULE = re.compile(r"[a-z0-9_]{1,20}")
#: "sm90", or of a host with GPUs of two architectures "sm120_sm90"
_ARCH = re.compile(r"sm[0-9]{2,3}(_sm[0-9]{2,3})?")


@dataclasses.dataclass(frozen=True, slots=True)
class JitModule:
    """The module that Tilewatch calls `module`, built for `arch`. It is built, never called."""

    kind: ClassVar[str] = "jit_module"
    sweep: ClassVar[str] = "module"
    module: str
    arch: str

    @classmethod
    def read(cls, params: Mapping[str, Any], where: str) -> JitModule:
        fields = Fields(params, where)
        module = fields.word("module", _MODULE, "a short name such as norm")
        case = cls(module, fields.word("arch", _ARCH, "an architecture such as sm90"))
        fields.end()
        return case

    @property
    def params(self) -> Params:
        return {"module": self.module, "arch": self.arch}

    @property
    def work(self) -> Work:
        return Work(0.0, 0.0, 0.0, None)

    @property
    def weight(self) -> tuple[Value, ...]:
        return ()

    def __str__(self) -> str:
        return f"jit_module:module={self.module},arch={self.arch}"
