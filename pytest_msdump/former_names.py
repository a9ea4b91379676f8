"""Modules that other packages import by the names they had before the core and the capabilities had folders."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any, cast

PACKAGE = __name__.partition(".")[0]
# What is not under the core's folder with its old name.
ELSEWHERE = {
    "comparison": "core.compare",
    **{name: f"capabilities.{name}" for name in ("calibrate", "causes", "compat", "record", "replay")},
}

# Modules that became a part of another one, or of a capability.
JOINED = {
    "core.compare.coverage": "core.compare.assemble",
    "core.compare.indexing": "core.compare.opening",
    "core.facts.calibration": "core.facts.profiles",
    "core.facts.kinds": "core.matching.kinds",
    "core.facts.replay": "core.facts.profiles",
    "core.matching.addresses": "core.matching.selection",
    **{
        f"capabilities.record.{name}": f"capabilities.frameworks.{name}"
        for name in ("caffe", "keras", "keras_backends", "mindspore", "onnx", "recorder", "tf_graphs")
    },
    **{f"core.dumps.{name}": f"capabilities.tensor_files.{name}" for name in ("npz", "safetensors", "torch_file")},
    "core.dumps.npy_tree": "capabilities.tensor_files.folder",
    "core.dumps.npy_file": "core.dumps.npy",
    "core.dumps.flat_steps": "core.dumps.npy_folder",
    "core.dumps.strided_reader": "core.dumps.array_reader",
    "core.matching.advice": "core.matching.rules",
    "core.metrics.hashing": "capabilities.statistics.hashing",
    "core.metrics.statistics": "capabilities.statistics.tensor_statistics",
    "core.model.graph": "core.model.dump",
    "core.model.numbers": "core.model.describe",
    "core.model.ordering": "core.model.dump",
    "core.model.pairing": "core.model.tensor",
    "core.model.statistics": "core.model.comparison",
    "core.report.json_forms": "core.forms.values",
    "core.settings.values": "core.settings.options",
    "core.storage.listings": "core.storage.files",
    "core.matching.aliases": "capabilities.fusion.fused",
    **{f"core.matching.{name}": f"capabilities.fusion.{name}" for name in ("fused", "origins")},
    "core.text.catalogue": "core.text.phrases",
    "core.text.causes": "capabilities.causes.text",
    "core.dumps.array_writer": "capabilities.arrays.writer",
    "core.dtypes.encode": "capabilities.arrays.encode",
    "core.compare.run_origins": "capabilities.run_origins.digests",
    "core.facts.checks": "capabilities.inspect.check_facts",
    "core.metrics.custom": "capabilities.user_code.algorithms",
    "core.metrics.spread": "capabilities.html.spread",
    "core.report.markdown": "capabilities.ci.markdown",
    "core.facts.dump_proto": "capabilities.ascend.dump_proto",
    "core.limits.limits_file": "capabilities.calibrate.limits_file",
    "core.text.notes": "core.text.unmatched",
    "core.text.replay": "core.text.commands",
    "core.text.rows": "core.text.message",
    "capabilities.replay.kernels": "capabilities.kernels.again",
    "capabilities.replay.command_text": "capabilities.kernels.report_text",
    **{f"capabilities.replay.{name}": f"capabilities.kernels.{name}" for name in ("conformance", "fused", "operators")},
    **{
        f"capabilities.replay.operators.{name}": f"capabilities.kernels.operators.{name}"
        for name in ("arranging", "definition", "elementwise", "linear", "normalising", "optimizers")
    },
}


class FormerNames:
    """Finds the module that now has another name, once nothing is found under the old one."""

    def find_spec(self, fullname: str, *_more: object) -> ModuleSpec | None:
        """Return where the same module is loaded from, or None: not ours, or never was."""
        package, _, rest = fullname.partition(".")
        room, _, inner = rest.partition(".")
        has_folder = room in ("core", "capabilities")
        former = room if has_folder else ELSEWHERE.get(room, f"core.{room}")
        name = f"{former}{inner and '.'}{inner}"
        if package != PACKAGE or not room or (has_folder and name not in JOINED):
            return None
        from importlib.util import find_spec

        now = f"{PACKAGE}.{JOINED.get(name, name)}"
        try:
            spec = find_spec(now)
        except ModuleNotFoundError:
            return None
        if spec is None:
            return None
        is_package = spec.submodule_search_locations is not None
        # `python -m` has its place for the name of the program.
        return ModuleSpec(fullname, cast("Any", _SameModule(spec)), origin=spec.origin, is_package=is_package)


class _SameModule:
    """Gives the module that another spec describes, not a second one; ``python -m`` asks for its code."""

    def __init__(self, spec: ModuleSpec) -> None:
        self._spec = spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:  # noqa: ARG002
        module = import_module(self._spec.name)
        return module if self._spec.submodule_search_locations is None else _SamePackage(module)

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec

    def get_code(self, fullname: str) -> CodeType | None:  # noqa: ARG002
        loader: Any = self._spec.loader
        code: CodeType | None = loader.get_code(self._spec.name)
        return code


class _SamePackage(ModuleType):
    """Has what a package has but its files: a module found there would be loaded a second time."""

    def __init__(self, same: ModuleType) -> None:
        super().__init__(same.__name__, same.__doc__)
        self.__path__: list[str] = []
        self._same = same

    def __getattr__(self, name: str) -> Any:
        return getattr(self._same, name)

    def __dir__(self) -> list[str]:
        return dir(self._same)


def install() -> None:
    """Let old names be found; once is enough."""
    if not any(isinstance(finder, FormerNames) for finder in sys.meta_path):
        sys.meta_path.append(FormerNames())
