"""What ``data.pkl`` in a file of `torch.save` describes: tensors by name, with where their elements lie.

Nothing is unpickled. `pickletools` splits the bytes into operations, and those that build lists, dicts, numbers, texts
and tensors are followed here; a name that is not in the tables below is refused.

References: PyTorch 2.13, ``torch/_utils.py`` and ``torch/serialization.py``: what the functions take, and what a
storage is.
"""

from __future__ import annotations

import pickletools
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

# Half a million tensors; each operation makes at most one small object.
MAX_PICKLE_BYTES = 2**26
_MAX_OPERATIONS = 2**22
_MAX_NAMES = 2**19
_MAX_DEPTH = 64
_MAX_AXES = 64
_LARGEST = 2**63


class UnreadablePickleError(ValueError):
    """Why a pickle is not read, as the end of a sentence that begins with its file."""


class PickledStorage(NamedTuple):
    """The elements of some tensors: the member ``data/KEY``, and how many elements of `dtype` it has."""

    dtype: str
    key: str
    elements: int


class PickledTensor(NamedTuple):
    """A tensor as a view of a storage, in elements. `conj` and `neg` are still to be done to what is stored."""

    storage: PickledStorage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    conj: bool = False
    neg: bool = False
    scale: float | None = None
    zero_point: int = 0
    problem: str = ""


class _Name(NamedTuple):
    """A name that the pickle takes from a module; what it means is in the tables below."""

    text: str


_NO_STORAGE = PickledStorage("uint8", "", 0)

_STORAGES = {
    "Double": "float64",
    "Float": "float32",
    "Half": "float16",
    "BFloat16": "bfloat16",
    "Long": "int64",
    "Int": "int32",
    "Short": "int16",
    "Char": "int8",
    "Byte": "uint8",
    "Bool": "bool",
    "Untyped": "uint8",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
    "QInt8": "int8",
    "QUInt8": "uint8",
    "QInt32": "int32",
}
_SPARSE = "is sparse; save its .to_dense()"
_OTHER_CLASS = "is of a class of its own; save the plain tensor"


def _storage(persistent: Any) -> PickledStorage:
    kind, name, key, _, elements = _given(persistent, 5)
    found = name.text.rpartition(".")[2].removesuffix("Storage") if isinstance(name, _Name) else ""
    if kind != "storage" or found not in _STORAGES or not isinstance(key, str) or not _is_count(elements):
        raise UnreadablePickleError("names a storage in a way that PyTorch does not")
    return PickledStorage(_STORAGES[found], key, elements)


def _tensor(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> PickledTensor:
    if (
        not isinstance(storage, PickledStorage)
        or not _is_count(offset)
        or not _are_counts(shape)
        or not _are_counts(strides)
    ):
        raise UnreadablePickleError("describes a tensor in a way that PyTorch does not")
    if len(shape) != len(strides) or len(shape) > _MAX_AXES:
        raise UnreadablePickleError(f"describes a tensor with {len(shape)} lengths and {len(strides)} strides")
    about = next((one for one in rest if isinstance(one, dict) and one), {})
    return PickledTensor(storage, offset, shape, strides, conj=about.get("conj") is True, neg=about.get("neg") is True)


def _tensor_of_dtype(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> PickledTensor:
    """Return a tensor over a storage without a type, which counts bytes; its type stands behind its other arguments."""
    dtype = next((one.text.removeprefix("torch.") for one in rest if isinstance(one, _Name)), "")
    found = _tensor(storage, offset, shape, strides, *rest)
    return found._replace(storage=found.storage._replace(dtype=dtype))


def _quantised(storage: Any, offset: Any, shape: Any, strides: Any, how: Any, *_: Any) -> PickledTensor:
    found = _tensor(storage, offset, shape, strides)
    scheme, *parameters = how if isinstance(how, tuple) and how else (None,)
    if scheme != _Name("torch.per_tensor_affine"):
        return found._replace(problem="has a scale for each channel; save its .dequantize()")
    scale, zero_point = _given(tuple(parameters), 2)
    if not isinstance(scale, float) or not isinstance(zero_point, int):
        raise UnreadablePickleError("describes a quantised tensor in a way that PyTorch does not")
    return found._replace(scale=scale, zero_point=zero_point)


def _of_class(function: Any, _: Any, given: Any, *__: Any) -> Any:
    """Return what the tensor is without the class that it was given, and without attributes of its own."""
    return _call(function, given)


def _without_values(why: str) -> Callable[..., PickledTensor]:
    return lambda *_: PickledTensor(_NO_STORAGE, 0, (0,), (1,), problem=why)


def _pairs(given: Any = ()) -> dict[Any, Any]:
    return {_key(key): value for key, value in (_given(tuple(pair), 2) for pair in given)}


def _no_tensor(*_: Any) -> None:
    """Stand for a value that is no tensor and holds none."""


# By protocol.
_BUILTINS = ("builtins", "__builtin__")
# What a pickle may call, and what that gives.
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "collections.OrderedDict": _pairs,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _tensor_of_dtype,
    "torch._utils._rebuild_qtensor": _quantised,
    "torch._utils._rebuild_parameter": lambda tensor, *_: tensor,
    "torch._utils._rebuild_parameter_with_state": lambda tensor, *_: tensor,
    "torch._tensor._rebuild_from_type_v2": _of_class,
    "torch._utils._rebuild_sparse_tensor": _without_values(_SPARSE),
    "torch._utils._rebuild_sparse_csr_tensor": _without_values(_SPARSE),
    "torch._utils._rebuild_meta_tensor_no_storage": _without_values("is on the device meta, which holds no values"),
    "torch._utils._rebuild_nested_tensor": _without_values("is nested; save its parts"),
    "torch._utils._rebuild_wrapper_subclass": _without_values(_OTHER_CLASS),
    **dict.fromkeys(("torch.Size", "torch.device", "torch.serialization._get_layout", "_codecs.encode"), _no_tensor),
    **{f"{module}.{name}": list for module in _BUILTINS for name in ("set", "frozenset")},
    **{f"{module}.{name}": _no_tensor for module in _BUILTINS for name in ("bytearray", "complex")},
}
# What it may name without calling it: types of elements and layouts, and storages.
_PLAIN_NAMES = ("torch.nn.parameter.Parameter", "torch.nn.parameter.Buffer", "torch.Tensor", "torch._tensor.Tensor")
_SCHEMES = ("torch.per_tensor_affine", "torch.per_channel_affine", "torch.per_channel_affine_float_qparams")


def _is_known(name: str) -> bool:
    module, _, last = name.rpartition(".")
    if name in _FUNCTIONS or name in _PLAIN_NAMES or name in _SCHEMES:
        return True
    if module in ("torch", "torch.storage", "torch.cuda") and last.endswith("Storage"):
        return last.removesuffix("Storage") in _STORAGES
    kinds = ("float", "bfloat", "int", "uint", "bool", "complex", "qint", "quint", "bits")
    return module == "torch" and last.startswith(kinds) and last.isidentifier()


def _call(function: Any, given: Any) -> Any:
    if not isinstance(function, _Name) or function.text not in _FUNCTIONS or not isinstance(given, tuple):
        raise UnreadablePickleError("calls what is no function of PyTorch that makes a tensor")
    try:
        return _FUNCTIONS[function.text](*given)
    except TypeError as error:
        raise UnreadablePickleError(f"calls {function.text} in a way that PyTorch does not") from error


class _Machine:
    """The stack of a pickle. A memo is a dict, so that a high number in it takes no room."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._marks: list[int] = []
        self._memo: dict[int, Any] = {}

    def run(self, content: bytes) -> Any:
        for count, (operation, argument, _) in enumerate(pickletools.genops(content)):
            if count > _MAX_OPERATIONS:
                raise UnreadablePickleError(f"has more than {_MAX_OPERATIONS} operations; save fewer tensors in a file")
            name = operation.name
            if name == "STOP":
                value = self._stack.pop()
                if self._stack or self._marks:
                    raise UnreadablePickleError("is damaged (it has more values than one)")
                return value
            if name in _CONSTANTS:
                self._stack.append(_CONSTANTS[name])
            elif name in _LITERALS:
                self._stack.append(argument)
            elif name not in _DONE:
                raise UnreadablePickleError(f"has the operation {name}, which no file of tensors needs")
            elif name not in _PASSED:
                getattr(self, f"_{name.lower()}")(argument)
        raise UnreadablePickleError("has no end")

    def _top(self, kind: type) -> Any:
        if not isinstance(self._stack[-1], kind):
            raise UnreadablePickleError("adds to what is no list and no table")
        return self._stack[-1]

    def _marked(self) -> list[Any]:
        start = self._marks.pop()
        found = self._stack[start:]
        del self._stack[start:]
        return found

    def _mark(self, _: object) -> None:
        self._marks.append(len(self._stack))

    def _pop(self, _: object) -> None:
        self._stack.pop()

    def _empty_list(self, _: object) -> None:
        self._stack.append([])

    _empty_set = _empty_list

    def _empty_dict(self, _: object) -> None:
        self._stack.append({})

    def _binput(self, number: int) -> None:
        self._memo[number] = self._stack[-1]

    _long_binput = _binput

    def _memoize(self, _: object) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _binget(self, number: int) -> None:
        self._stack.append(self._memo[number])

    _long_binget = _binget

    def _tuple(self, _: object) -> None:
        self._stack.append(tuple(self._marked()))

    def _tuple1(self, _: object, length: int = 1) -> None:
        if len(self._stack) < length:
            raise IndexError
        self._stack[-length:] = [tuple(self._stack[-length:])]

    def _tuple2(self, _: object) -> None:
        self._tuple1(_, 2)

    def _tuple3(self, _: object) -> None:
        self._tuple1(_, 3)

    def _append(self, _: object) -> None:
        value = self._stack.pop()
        self._top(list).append(value)

    def _appends(self, _: object) -> None:
        values = self._marked()
        self._top(list).extend(values)

    _additems = _appends

    def _frozenset(self, _: object) -> None:
        self._stack.append(self._marked())

    def _setitem(self, _: object) -> None:
        value, key = self._stack.pop(), self._stack.pop()
        self._top(dict)[_key(key)] = value

    def _setitems(self, _: object) -> None:
        values = self._marked()
        if len(values) % 2:
            raise IndexError
        self._top(dict).update(zip(map(_key, values[::2]), values[1::2], strict=True))

    def _global(self, text: str) -> None:
        self._name(*text.split(" ", 1))

    def _stack_global(self, _: object) -> None:
        last, module = self._stack.pop(), self._stack.pop()
        self._name(module, last)

    def _name(self, module: Any, last: Any) -> None:
        name = f"{module}.{last}" if isinstance(module, str) and isinstance(last, str) else "what is no name"
        if not _is_known(name):
            raise UnreadablePickleError(
                f"names {name[:100]!r}, which is no tensor, list, dict, number or text and is never loaded; "
                "save the tensors alone, e.g. model.state_dict()"
            )
        self._stack.append(_Name(name))

    def _binpersid(self, _: object) -> None:
        self._stack.append(_storage(self._stack.pop()))

    def _reduce(self, _: object) -> None:
        given, function = self._stack.pop(), self._stack.pop()
        self._stack.append(_call(function, given))

    def _build(self, _: object) -> None:
        # Attributes, such as `_metadata` of a state_dict.
        state = self._stack.pop()
        if not self._stack:
            raise IndexError
        if any(True for _ in _named(state)):
            raise UnreadablePickleError("has tensors as attributes of an object; save them in a dict")


_CONSTANTS: Mapping[str, Any] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_LITERALS = frozenset(
    {"BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"}
    | {"BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"}
)
_PASSED = frozenset({"PROTO", "FRAME"})
_DONE = _PASSED | {name[1:].upper() for name in vars(_Machine) if name.startswith("_") and name[1:].islower()}


def value_in(content: bytes) -> Any:
    """Return what a pickle holds: lists, dicts, numbers, texts, `PickledTensor`; UnreadablePickleError for others."""
    try:
        with warnings.catch_warnings():
            # Of an escape in a text of protocol 0, which is refused once it has been read.
            warnings.simplefilter("ignore", DeprecationWarning)
            return _Machine().run(content)
    except UnreadablePickleError:
        raise
    # What a damaged pickle does to the stack, and what pickletools says of one that ends early.
    except (IndexError, KeyError, ValueError, TypeError, RecursionError, OverflowError) as error:
        raise UnreadablePickleError(f"is damaged ({error!s:.80})") from error


def tensors_in(value: Any) -> list[tuple[tuple[str, ...], PickledTensor]]:
    """Return the tensors of a value, each with the keys of dicts and places in lists that lead to it."""
    return list(_named(value))


def _named(value: Any) -> Iterator[tuple[tuple[str, ...], PickledTensor]]:
    """Yield tensors in their order; a pickle may hold one list in many places, or in itself."""
    waiting: list[tuple[tuple[str, ...], Any]] = [((), value)]
    seen = 0
    while waiting:
        keys, one = waiting.pop()
        seen += 1
        if seen > _MAX_NAMES or len(keys) > _MAX_DEPTH:
            raise UnreadablePickleError("holds lists within lists beyond any file of tensors; save fewer in a file")
        if isinstance(one, PickledTensor):
            yield keys, one
            continue
        parts = one.items() if isinstance(one, dict) else enumerate(one) if type(one) in (list, tuple) else ()
        waiting += reversed([((*keys, str(key)), part) for key, part in parts])


def _key(value: Any) -> Any:
    if not isinstance(value, (str, int, float)):
        raise UnreadablePickleError(f"has a {type(value).__name__} as key of a dict; give its tensors names")
    return value


def _given(value: Any, count: int) -> tuple[Any, ...]:
    if not isinstance(value, tuple) or len(value) != count:
        raise UnreadablePickleError("describes a tensor in a way that PyTorch does not")
    return value


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < _LARGEST


def _are_counts(values: Any) -> bool:
    return isinstance(values, tuple) and all(map(_is_count, values))
