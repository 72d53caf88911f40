"""A JIT module of FlashInfer, as a case: what building it ahead costs, and how large it is."""

from __future__ import annotations

import dataclasses
import re
from typing import ClassVar

from workers.bench.cases.base import Fields, Named, Value, Work

_MODULE = re.compile(r"[a-z0-9_]{1,20}")
#: "sm90", or of a host with GPUs of two architectures "sm120_sm90"
_ARCH = re.compile(r"sm[0-9]{2,3}(_sm[0-9]{2,3})?")


@dataclasses.dataclass(frozen=True, slots=True)
class JitModule(Named):
    """The module that Tilewatch calls `module`, built for `arch`. It is built, never called."""

    kind: ClassVar[str] = "jit_module"
    sweep: ClassVar[str] = "module"
    module: str
    arch: str

    @classmethod
    def _values(cls, fields: Fields) -> tuple[Value, ...]:
        module = fields.word("module", _MODULE, "a short name such as norm")
        return module, fields.word("arch", _ARCH, "an architecture such as sm90")

    @property
    def work(self) -> Work:
        return Work(0.0, 0.0, 0.0, None)
