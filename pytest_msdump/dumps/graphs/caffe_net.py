"""The layers of a Caffe network, each name with its place in the file.

References
----------
Caffe, ``src/caffe/proto/caffe.proto``: NetParameter, LayerParameter (``layer``), V1LayerParameter (``layers``), and
NetStateRule for which layers a phase has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pytest_msdump.dumps.graphs.text_proto import refuse, tokens, unescaped
from pytest_msdump.errors import ConfigError

__all__ = ["PHASES", "CaffeLayer", "Place", "layers_in_phase", "read_layers"]

PHASES = ("TEST", "TRAIN")
_LAYERS = ("layer", "layers")
_NAMES = ("name", "type", "bottom", "top")
_RULES = ("include", "exclude")
# A rule of a rule does not exist; networks nest three deep.
_DEEPEST = 100


@dataclass(frozen=True, slots=True)
class Place:
    """A name and where its literal stands, quotes included: ``text[start:stop]``."""

    name: str
    start: int
    stop: int


@dataclass(slots=True)
class CaffeLayer:
    """One layer.

    Parameters
    ----------
    name, type : str
        As written; types of old files are words such as ``RELU``.
    bottoms, tops : list of Place
        The blobs it reads and writes, in order.
    include, exclude : list of dict
        Its rules for states of the net: field → values as written.
    """

    name: str = ""
    type: str = ""
    bottoms: list[Place] = field(default_factory=list)
    tops: list[Place] = field(default_factory=list)
    include: list[dict[str, list[str]]] = field(default_factory=list)
    exclude: list[dict[str, list[str]]] = field(default_factory=list)

    @property
    def in_place(self) -> list[int]:
        """Indexes of the tops that are written over a bottom."""
        read = {bottom.name for bottom in self.bottoms}
        return [index for index, top in enumerate(self.tops) if top.name in read]


def read_layers(text: str, *, source: str) -> list[CaffeLayer]:
    """Read the layers of a network in the order of the file.

    Parameters
    ----------
    text : str
        A prototxt file.
    source : str
        What messages call it.

    Raises
    ------
    ConfigError
        Not Protobuf's text format, cut off, without a layer, or a layer without a name.
    """
    layers: list[CaffeLayer] = []
    for path, word, start in _values(text, source):
        if path[0] not in _LAYERS:
            continue
        if len(path) == 1:
            layers.append(CaffeLayer())
        else:
            _keep(layers[-1], path[1:], word, start)
    if not layers:
        raise ConfigError(f"{source}: has no layer; give the prototxt file of a Caffe network")
    for number, layer in enumerate(layers, 1):
        if not layer.name:
            raise ConfigError(f"{source}: layer {number} has no name; give it one")
    return layers


def layers_in_phase(layers: Sequence[CaffeLayer], phase: str) -> list[CaffeLayer]:
    """Return the layers that the net has in a phase (of level 0, without stages), as Caffe chooses them."""
    return [
        layer
        for layer in layers
        if (any(_meets(rule, phase) for rule in layer.include) if layer.include else True)
        and not any(_meets(rule, phase) for rule in layer.exclude)
    ]


def _meets(rule: Mapping[str, Sequence[str]], phase: str) -> bool:
    said = {name: values[-1] for name, values in rule.items()}
    level_fits = _level(said.get("min_level", "0")) <= 0 <= _level(said.get("max_level", "0"))
    # Enumerations may be written as numbers: TRAIN is 0, TEST 1.
    phase_fits = said.get("phase", phase) in (phase, "1" if phase == "TEST" else "0")
    return level_fits and phase_fits and "stage" not in rule


def _level(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return 0


def _keep(layer: CaffeLayer, path: Sequence[str], word: str, start: int) -> None:
    """Take a value or the beginning of a message (an empty word) into its layer."""
    head = path[0]
    if len(path) == 1 and head in _NAMES and word:
        name = unescaped(word[1:-1]) if word[0] in "\"'" else word
        if head in ("name", "type"):
            setattr(layer, head, name)
        else:
            places = layer.bottoms if head == "bottom" else layer.tops
            places.append(Place(name, start, start + len(word)))
    elif head in _RULES:
        rules = layer.include if head == "include" else layer.exclude
        if len(path) == 1:
            rules.append({})
        elif len(path) == 2 and word:
            rules[-1].setdefault(path[1], []).append(word.strip("\"'"))


def _values(text: str, source: str) -> Iterator[tuple[tuple[str, ...], str, int]]:
    """Yield each value and, with an empty word, the beginning of each message, by the names that lead to it."""
    path: list[str] = []
    ends: list[str] = []
    name, in_list = "", False
    for kind, word, start in tokens(text, source=source):
        if kind == "name" and not name:
            name = word
        elif kind != "sign":
            if not name:
                refuse(text, start, source=source)
            yield (*path, name), word, start
            name = name if in_list else ""
        elif word in "{<" and name and len(path) < _DEEPEST:
            path.append(name)
            ends.append("}" if word == "{" else ">")
            yield tuple(path), "", start
            # A list of messages is not a thing of networks; its brackets would be lost here.
            name, in_list = "", False
        elif ends and word == ends[-1] and not name:
            path.pop()
            ends.pop()
        elif word in "[]" and name and in_list == (word == "]"):
            name, in_list = ("", False) if in_list else (name, True)
        elif word != ":" or not name:
            refuse(text, start, source=source)
    if ends or name:
        refuse(text, len(text), source=source)
