"""Types and shapes as MindSpore's IR writes them, of all releases.

On the host, tensors of the network: ``<Tensor[Float32], (4, 6)>``, and in 1.x
``<Tensor[Float32]x[const vector][4, 6]>`` or ``<Ref[Tensor(F32)]x[const vector][]>``. On the device, what kernels are
given: ``<Float16xNC1HWC0[const vector][2, 1, 3, 3, 16]>``, later with ``{}`` around the sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from pytest_msdump.capabilities.graphs.flow import MONAD, HostType, Monad
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.model.tensor import TensorSpec

_SIZES = re.compile(r"-?[0-9]{1,18}")
_LONGEST_SHAPE = 64
_DIMENSIONS = r"[(\[](?P<sizes>[-0-9, ]*)[)\]]"
_TENSOR = re.compile(
    r"(?:Ref\[)?Tensor[\[(](?P<dtype>\w+)[\])]\]?(?:, ?|x)(?:\[const vector\])?" + _DIMENSIONS + r"(?:, .*)?", re.DOTALL
)
_NUMBER = re.compile(r"(?P<dtype>(?:Bool|U?Int|Float|BFloat|Complex|HiFloat)\w*)(?:, ?NoShape)?(?:, .*)?", re.DOTALL)
_MONAD = re.compile(r"(?:UMonad|IOMonad)(?:, .*)?", re.DOTALL)
_TUPLE = re.compile(r"(?:Tuple|List)\[")
_TUPLE_SHAPE = re.compile(r"\], (?:Tuple|List)Shape\(")
_DEVICE = re.compile(
    r"(?P<dtype>Complex[0-9]+|[^x<>\s]+)x(?P<format>\w+)\[const vector\][\[{](?P<sizes>[-0-9, ]*)[\]}]"
)
_TIMES = re.compile(r"(?P<type>.*?)\*(?P<count>[0-9]{1,6})")

# Front-end graphs write types in short: F32, I64, U8, B.
_SHORT = re.compile(r"(?P<kind>[FIU])(?P<bits>[0-9]{1,3})")
_KINDS = {"F": "float", "I": "int", "U": "uint"}
_SEPARATOR = re.compile(r'[",()\[\]{}]')

_ARROW = ") -> ("


def dtype_name(written: str) -> str | None:
    """Return a data type's name in this package; ``None`` for what is none."""
    short = _SHORT.fullmatch(written)
    name = _KINDS[short["kind"]] + short["bits"] if short else written.lower()
    return canonical(name)


def host_types(line: str) -> tuple[tuple[HostType, ...], tuple[TensorSpec | None, ...]]:
    """Read a ``: (…) -> (…)`` line: types of operands, and of results by slot, on the host."""
    given, made = _sides(line)
    return tuple(map(_host, given)), tuple(_flat(list(map(_host, made))))


def device_types(line: str) -> tuple[tuple[TensorSpec | None, ...], tuple[TensorSpec | None, ...]]:
    """Read such a line of the device: types, sizes and memory formats by slot."""
    given, made = _sides(line)
    return tuple(map(_device, given)), tuple(map(_device, made))


def is_device(line: str) -> bool:
    """Whether a line of types is the device's."""
    start = line.find("<")
    return start >= 0 and _DEVICE.match(line, start + 1) is not None


def _sides(line: str) -> tuple[list[str], list[str]]:
    """Split a line into what is written between ``<`` and ``>``: operands, and results."""
    body = line.strip().removeprefix(":").strip()
    # Some releases separate the operands by arrows as well.
    *given, made = body.removeprefix("(").removesuffix(")").split(_ARROW)
    return [text for side in given for text in _types(side)], _types(made) if given else []


def _types(side: str) -> list[str]:
    side = side.strip()
    return side.removeprefix("<").removesuffix(">").split(">, <") if side else []


def _host(text: str) -> HostType:
    tensor = _TENSOR.fullmatch(text)
    if tensor:
        shape = _shape(tensor["sizes"])
        return None if shape is None else TensorSpec(dtype=dtype_name(tensor["dtype"]), shape=shape)
    if _MONAD.fullmatch(text):
        return MONAD
    number = _NUMBER.fullmatch(text)
    if number:
        return TensorSpec(dtype=dtype_name(number["dtype"]), shape=())
    return _tuple(text)


def _tuple(text: str) -> tuple[TensorSpec | None, ...] | None:
    """Join types and shapes of a tuple's members, without its monads and members that are tuples themselves."""
    begin, shape = _TUPLE.match(text), _TUPLE_SHAPE.search(text)
    if begin is None or shape is None:
        return None
    sizes = list(members(text[shape.end() :]))
    types = list(_repeated(text[begin.end() : shape.start()], len(sizes)))
    if len(types) != len(sizes):
        return None
    specs = [None if _TUPLE.match(of) else _host(f"{of}, {size}") for of, size in zip(types, sizes, strict=True)]
    return tuple(_flat([member for member in specs if not isinstance(member, tuple)]))


def _repeated(types: str, most: int) -> Iterator[str]:
    for text in members(types):
        times = _TIMES.fullmatch(text)
        # One more than there are shapes is as wrong as many more.
        yield from [times["type"]] * min(int(times["count"]), most + 1) if times else [text]


def members(text: str) -> Iterator[str]:
    """Split at the commas that are in no bracket and no quotes, up to a bracket that ends more than began."""
    start, end = 0, len(text)
    for position, letter, depth in separators(text):
        if depth < 0:
            end = position
            break
        if letter == "," and depth == 0:
            yield text[start:position].strip()
            start = position + 1
    if text[start:end].strip():
        yield text[start:end].strip()


def separators(text: str) -> Iterator[tuple[int, str, int]]:
    """Yield each bracket and comma that is not within quotes: where, which, and in how many brackets from there on."""
    depth, is_quoted = 0, False
    for match in _SEPARATOR.finditer(text):
        letter = match[0]
        if letter == '"':
            is_quoted = not is_quoted
        elif not is_quoted:
            depth += (letter in "([{") - (letter in ")]}")
            yield match.start(), letter, depth


def _flat(results: list[HostType]) -> Iterator[TensorSpec | None]:
    for one in results:
        if isinstance(one, tuple):
            yield from one
        elif not isinstance(one, Monad):
            yield one


def _device(text: str) -> TensorSpec | None:
    match = _DEVICE.fullmatch(text)
    shape = _shape(match["sizes"]) if match else None
    if match is None or shape is None:
        return None
    return TensorSpec(dtype=dtype_name(match["dtype"]), shape=shape, memory_format=match["format"])


def _shape(sizes: str) -> tuple[int, ...] | None:
    written = [size.strip() for size in sizes.split(",") if size.strip()]
    if len(written) > _LONGEST_SHAPE or not all(map(_SIZES.fullmatch, written)):
        return None
    return tuple(map(int, written))
