"""Runs in a child: calls a wheel's own function that writes the units of a module; notes what it asked for.

The function's file imports torch, jinja2 and the package around it. Everything that is not of the standard
library gets a stand-in here, so that neither has to be installed.
Called as: run_module.py FILE FUNCTION TEMPLATES OUTPUT; writes the units and OUTPUT/module.json.
"""

import importlib.abc
import importlib.machinery
import importlib.util
import json
import re
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_NAME = "flashinfer.jit.gemm.core"


class Anything(list[Any]):
    """An empty list of options that can be called and has every attribute: each is another one."""

    def __getattr__(self, name: str) -> "Anything":
        return Anything()

    def __call__(self, *arguments: object, **named: object) -> "Anything":
        return Anything()


class Template:
    """What the templates of units need of jinja2.Template: names in double braces."""

    def __init__(self, text: str) -> None:
        if re.search(r"\{[%#]", text):
            raise ValueError("a template of units has more in it than names to fill in")
        self._text = text

    def render(self, **values: object) -> str:
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda match: str(values[match[1]]), self._text)


class StandIn(types.ModuleType):
    __path__: list[str] = []

    def __getattr__(self, name: str) -> Anything:
        if name.startswith("__"):
            raise AttributeError(name)
        return Anything()


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds a stand-in for every module outside the standard library."""

    def __init__(self, known: dict[str, dict[str, object]]) -> None:
        self._known = known

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in sys.stdlib_module_names:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        vars(module).update(self._known.get(module.__name__, {}))


def main() -> None:
    file, function, templates, output = sys.argv[1:]
    sys.dont_write_bytecode = True
    asked: list[dict[str, list[str]]] = []

    def gen_jit_spec(name: str, sources: Sequence[object], **options: Any) -> Anything:
        flags = [str(flag) for flag in options.get("extra_cuda_cflags") or ()]
        asked.append({"sources": [str(source) for source in sources], "flags": flags})
        return Anything()

    folders = {"FLASHINFER_CSRC_DIR": Path(templates), "FLASHINFER_GEN_SRC_DIR": Path(output)}
    sys.meta_path.insert(
        0,
        StandIns(
            {
                "jinja2": {"Template": Template},
                "flashinfer.jit": {"env": types.SimpleNamespace(**folders)},
                "flashinfer.jit.core": {"gen_jit_spec": gen_jit_spec},
                "flashinfer.jit.utils": {
                    "write_if_different": lambda path, text: Path(path).write_text(text)
                },
            }
        ),
    )
    spec = importlib.util.spec_from_file_location(_NAME, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    getattr(module, function)()
    if len(asked) != 1:
        raise ValueError(f"{function} asked for {len(asked)} modules instead of one")
    Path(output, "module.json").write_text(json.dumps(asked[0]))


if __name__ == "__main__":
    main()
