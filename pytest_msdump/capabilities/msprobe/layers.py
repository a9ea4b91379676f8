"""The vendor's layer mapping: a YAML file with names of modules by the type of the module that they are in.

It has two levels of plain text, which needs no library for YAML; anything else in it is refused.

References: mindstudio-probe 26.2, ``core/compare/layer_mapping``; "Layer Mapping" in its documentation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_msdump.core.dumps.sidefiles import read_text
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching.maps import Renaming
from pytest_msdump.core.suite.documents import MOST_BYTES, path_in_messages

# The layer around all others, and what older releases call it.
TOP_LAYER = "TopLayer"
_FORMER_TOP = "Cell"
_NAME = r"""(?:"\w[^"\\]*"|'\w[^']*'|\w[\w.()/<> -]*?)"""
_LINE = re.compile(rf"(?P<indent> *)(?P<key>{_NAME}) *:(?: +(?P<value>{_NAME}))? *(?:(?<= )#.*)?")
_NOTHING = re.compile(r"\s*(?:#.*)?|---\s*|\.\.\.\s*")


@dataclass(frozen=True, slots=True)
class LayerNames:
    """The other side's names of modules, by the type of the module that they are in: a `Renaming` once types are known.

    >>> names = LayerNames({"TopLayer": {"net": "module"}, "MLP": {"up.0": "fc"}})
    >>> names.among({"net.mlp": "MLP"})("net.mlp.up.0.weight/grad")
    'module.mlp.fc.weight/grad'
    """

    layers: Mapping[str, Mapping[str, str]]

    def __call__(self, name: str) -> str | None:
        """Refuse: of a name alone it is not known what it is in."""
        raise ConfigError(f"map: a layer mapping names modules of a dump by their types, which {name} has not here")

    def among(self, types: Mapping[str, str]) -> Renaming:
        """Return the renaming of modules with these types by path; one without a type has the last part of its path."""

        def rename(name: str) -> str | None:
            path, slash, rest = name.partition("/")
            parts = path.split(".")
            found: list[str] = []
            at = 0
            while at < len(parts):
                kind = types.get(".".join(parts[:at]), parts[at - 1]) if at else TOP_LAYER
                names = self.layers.get(kind, {})
                ends = (end for end in range(len(parts) if names else at, at, -1) if ".".join(parts[at:end]) in names)
                end = next(ends, at + 1)
                part = ".".join(parts[at:end])
                found.append(names.get(part, part))
                at = end
            other = ".".join(found) + slash + rest
            return other if other != name else None

        return rename


def read_layers(path: Path, *, where: str) -> LayerNames:
    """Read a file; ConfigError, which begins with `where`, names the line that is none of a layer mapping."""
    place = f"{where}: {path_in_messages(path)}"
    text, wrong = read_text(path, MOST_BYTES)
    if wrong:
        raise ConfigError(f"{place} {wrong}; give the file that msprobe compare -lm takes")
    layers: dict[str, dict[str, str]] = {}
    layer = ""
    for number, line in enumerate(text.splitlines(), 1):
        if _NOTHING.fullmatch(line):
            continue
        found = _LINE.fullmatch(line)
        if found is None or bool(found["indent"]) != bool(found["value"]) or not (layer or not found["value"]):
            raise ConfigError(
                f"{place}, line {number}: {line.strip()!r} is no line of a layer mapping, which has the type of a "
                "module, and indented below it 'LEFT: RIGHT'; write other pairs as [[msdump.map]]"
            )
        key, value = (name.strip("\"' ") for name in (found["key"], found["value"] or ""))
        if key in (layers.get(layer, {}) if value else layers):
            raise ConfigError(f"{place}, line {number}: {key!r} is there twice; keep one of them")
        if value:
            # Behind a bracket is the type.
            layers[layer][key] = value.partition("(")[0].strip()
        else:
            layer = key
            layers[layer] = {}
    if not any(layers.values()):
        raise ConfigError(f"{place} has no names; give the file that msprobe compare -lm takes")
    if _FORMER_TOP in layers:
        layers[TOP_LAYER] = layers.pop(_FORMER_TOP)
    return LayerNames(layers)
