"""The layers of a Caffe network, each name with its place in the file.

References
----------
Caffe, ``src/caffe/proto/caffe.proto``: NetParameter, LayerParameter (``layer``), V1LayerParameter (``layers``), and
NetStateRule for which layers a phase has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pytest_msdump.capabilities.graphs.text_proto import messages, refuse, unescaped
from pytest_msdump.core.errors import ConfigError

PHASES = ("TEST", "TRAIN")
_LAYERS = ("layer", "layers")
# Networks nest three deep.
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class BlobPlace:
    """A name and where its literal stands, quotes included: ``text[start:stop]``."""

    name: str
    start: int
    stop: int


@dataclass(slots=True)
class CaffeLayer:
    """One layer: types of old files are words such as ``RELU``; `bottoms` and `tops` are the blobs it reads and writes.

    `include` and `exclude` are its rules for states of the net: field → values as written.
    """

    name: str = ""
    type: str = ""
    bottoms: list[BlobPlace] = field(default_factory=list)
    tops: list[BlobPlace] = field(default_factory=list)
    include: list[dict[str, list[str]]] = field(default_factory=list)
    exclude: list[dict[str, list[str]]] = field(default_factory=list)

    @property
    def in_place(self) -> list[int]:
        """Indexes of the tops that are written over a bottom."""
        read = {bottom.name for bottom in self.bottoms}
        return [index for index, top in enumerate(self.tops) if top.name in read]


def read_layers(text: str, *, source: str) -> list[CaffeLayer]:
    """Read the layers of a prototxt file in its order; messages call it `source`."""
    layers: list[CaffeLayer] = []
    path: list[str] = []
    for kind, name, word, start in messages(text, source=source):
        if kind == "open" and len(path) >= _DEEPEST:
            refuse(text, start, source=source)
        if kind == "close":
            path.pop()
        elif kind == "open":
            path.append(name)
            if path[0] in _LAYERS:
                if len(path) == 1:
                    layers.append(CaffeLayer())
                elif path[1:] == ["include"]:
                    layers[-1].include.append({})
                elif path[1:] == ["exclude"]:
                    layers[-1].exclude.append({})
        elif path and path[0] in _LAYERS:
            _keep(layers[-1], path[1:], name, word, start)
        elif not path and name in _LAYERS:
            layers.append(CaffeLayer())
    if not layers:
        raise ConfigError(f"{source}: has no layer; give the prototxt file of a Caffe network")
    for number, layer in enumerate(layers, 1):
        if not layer.name:
            raise ConfigError(f"{source}: layer {number} has no name; give it one")
    return layers


def _keep(layer: CaffeLayer, path: Sequence[str], name: str, word: str, start: int) -> None:
    plain = unescaped(word[1:-1]) if word[0] in "\"'" else word
    if not path and name in ("name", "type"):
        setattr(layer, name, plain)
    elif not path and name in ("bottom", "top"):
        (layer.bottoms if name == "bottom" else layer.tops).append(BlobPlace(plain, start, start + len(word)))
    elif not path and name in ("include", "exclude"):
        (layer.include if name == "include" else layer.exclude).append({})
    elif list(path) in (["include"], ["exclude"]):
        rules = layer.include if path[0] == "include" else layer.exclude
        rules[-1].setdefault(name, []).append(word.strip("\"'"))


def layers_in_phase(layers: Sequence[CaffeLayer], phase: str) -> list[CaffeLayer]:
    """Return the layers that the net has in a phase (of level 0, without stages), as Caffe chooses them."""
    return [
        layer
        for layer in layers
        if (not layer.include or any(_applies(rule, phase) for rule in layer.include))
        and not any(_applies(rule, phase) for rule in layer.exclude)
    ]


def _applies(rule: Mapping[str, Sequence[str]], phase: str) -> bool:
    last = {name: values[-1] for name, values in rule.items()}
    level_fits = _level(last.get("min_level", "0")) <= 0 <= _level(last.get("max_level", "0"))
    # Enumerations may be written as numbers: TRAIN is 0, TEST 1.
    phase_fits = last.get("phase", phase) in (phase, "1" if phase == "TEST" else "0")
    return level_fits and phase_fits and "stage" not in rule


def _level(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0
