"""What hooks of other projects write: SGLang's dumper, the forward hooks of SGLang and vLLM, Transformers' debug trees.

References: SGLang 0.5.23, ``srt/debug_utils/dumper.py`` and ``tensor_dump_forward_hook.py``; Hugging Face transformers
5, ``model_debugging_utils.py``.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pytest_msdump.capabilities.tensor_files.safetensors import SafetensorsReader
from pytest_msdump.capabilities.tensor_files.torch_file import TorchFileReader, saved_value
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.array_files import ArrayFileReader
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.reruns import Reruns
from pytest_msdump.core.dumps.sidefiles import parse_object, read_text
from pytest_msdump.core.errors import TensorFileError, UnknownDumpFormatError
from pytest_msdump.core.model.dump import PARAMETER, DistributedRank, Dump, Manifest, in_order
from pytest_msdump.core.model.tensor import (
    UNSEEN,
    Coordinates,
    OpKey,
    Statistic,
    Statistics,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
    mangle,
)

_UNKNOWN = TensorSpec()


class _Saved(NamedTuple):
    """A tensor of an operator; `keys` say where in its inputs or outputs, `order` when it was made, as far as is known.

    `run` is what no two runs share: a folder, or a name in it.
    """

    op: str
    source: TensorSource
    run: str
    io: str = "output"
    keys: tuple[str, ...] = ()
    op_type: str | None = None
    rank: int | None = None
    step: int = 0
    order: int | None = None
    spec: TensorSpec = _UNKNOWN
    statistics: Statistics | None = None

    @property
    def part(self) -> tuple[str, str, int | None, int]:
        """What slots are counted in."""
        return self.op, self.io, self.rank, self.step


class _HookReader(Reader):
    """A reader of a tree whose files, by their names and folders, say which tensor of which module they are."""

    # Names of such files are none of a folder of plain names.
    precedence = 1
    files: ClassVar[ArrayFileReader]

    @abstractmethod
    def knows(self, folder: Folder, root: Path) -> bool:
        """Return whether a folder has files of this format."""

    @abstractmethod
    def saved_in(self, folder: Folder, root: Path, builder: DumpBuilder) -> Iterable[_Saved]:
        """Return the tensors of a folder that `knows`; what is no tensor is left out."""

    def recognises(self, root: Path) -> bool:
        """Return whether some folder has files of this format."""
        return root.is_dir() and any(self.knows(folder, root) for folder in walk(root))

    def index(self, root: Path) -> Dump:
        """List the tensors. UnknownDumpFormatError for two runs in one tree."""
        builder = DumpBuilder(root, self.name)
        saved: list[_Saved] = []
        for folder in walk(root):
            if self.knows(folder, root):
                saved += self.saved_in(folder, root, builder)
            else:
                builder.leave_out(folder, folder.files)
        _refuse_two_runs(root, saved)
        builder.refs += self._refs(saved)
        return builder.build(Reruns(tuple(builder.refs)), order=lambda refs, _: in_order(refs))

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        path, part, arrays = ref.source.path, ref.source.part, list(self.files.arrays(ref.source.path))
        if part is None:
            # SGLang's dumper repeats what it was called with beside the value.
            arrays = [one for one in arrays if one.keys[:1] != ("meta",)]
        if len(arrays) != 1 if part is None else part >= len(arrays):
            raise TensorFileError(f"{path}: has {len(arrays)} tensors, not the one that is expected; dump it again")
        return self.files.opened_view(path, arrays[part or 0])

    def _refs(self, saved: Iterable[_Saved]) -> Iterator[TensorRef]:
        """Yield tensors: a slot is the place of a tensor's keys among those of its part, numbers first."""
        parts: defaultdict[tuple[str, str, int | None, int], set[tuple[str, ...]]] = defaultdict(set)
        ordered = sorted(saved, key=lambda one: (one.rank or 0, one.step, one.order is None, one.order or 0))
        for one in ordered:
            parts[one.part].add(one.keys)
        slots = {
            part: {keys: slot for slot, keys in enumerate(sorted(found, key=_by_number))}
            for part, found in parts.items()
        }
        repeats: Counter[tuple[Any, ...]] = Counter()
        places: dict[OpKey, int] = {}
        for one in ordered:
            occurrence = repeats[one.part, one.keys]
            repeats[one.part, one.keys] += 1
            name = mangle(one.op)
            at = Coordinates(one.rank, iteration=one.step, occurrence=occurrence)
            op = OpKey(name, at, one.op_type, one.op if one.op != name else None)
            has_place = one.order is not None and one.op_type != PARAMETER
            yield TensorRef(
                TensorKey(op, one.io, slots[one.part][one.keys]),
                one.spec,
                one.source,
                UNSEEN if one.statistics else self.name,
                place=places.setdefault(op, len(places)) if has_place else None,
                statistics=one.statistics,
            )


def _refuse_two_runs(root: Path, saved: Iterable[_Saved]) -> None:
    runs: dict[tuple[int | None, int], str] = {}
    for one in saved:
        if (other := runs.setdefault((one.rank, one.step), one.run)) != one.run:
            raise UnknownDumpFormatError(
                f"{root}: {other[:100]} and {one.run[:100]} are of one rank and step: two runs into one directory? "
                "Give one of them, or move the other one away"
            )


def _by_number(keys: tuple[str, ...]) -> list[tuple[bool, int, str]]:
    return [(not key.isdecimal(), len(key) if key.isdecimal() else 0, key) for key in keys]


# -- SGLang's dumper -------------------------------------------------------------------------------------------------

# Keys of a file's name that do not say which tensor it is.
_COORDINATES = frozenset(
    {"name", "step", "forward_pass_id", "rank", "dump_index", "recompute_status", "duplicate_index"}
    | {f"{axis}_rank" for axis in ("pp", "tp", "cp", "ep", "etp", "dp", "vpp")}
)
_HOOKED = re.compile(r"(?:(?P<path>.+)\.)?(?P<io>inputs|output)(?:\.(?P<keys>.+))?", re.DOTALL)
_GRADIENT, _WEIGHT, _MODULE = "grad__", "param__", "non_intrusive__"
# Along which axis ranks have batches of their own, where it is not ``dp``.
_DATA_AXIS = re.compile(r"#.*\bdp:=(\w+)")
# Of virtual stages a process has several; the others are axes together.
_NO_AXES = frozenset({"vpp", "tcp", "etmp"})
_LONGEST_DIMS, _MOST_RANKS = 2**12, 2**20
# The whole model has no path, and its class is not written.
_WHOLE_MODEL = "(model)"


def parse_dumper_name(name: str) -> dict[str, str]:
    """Return keys and values of a file's name; an empty dict where SGLang's dumper did not give it.

    >>> parse_dumper_name("step=0___rank=1___dump_index=7___name=logits___layer_id=3.pt")["layer_id"]
    '3'
    """
    if not name.endswith(".pt"):
        return {}
    parts = name.removesuffix(".pt").split("___")
    found = {key: value for key, _, value in (part.partition("=") for part in parts)}
    is_whole = len(found) == len(parts) and all("=" in part for part in parts) and found.get("name")
    numbers = (found.get("rank", ""), found.get("dump_index", ""), found.get("step", found.get("forward_pass_id", "")))
    is_counted = all(number.isascii() and number.isdigit() and len(number) < 19 for number in numbers)
    return found if is_whole and is_counted else {}


class SglangDumperReader(_HookReader):
    """What SGLang's dumper wrote, which Megatron and others use, too: one file for each tensor."""

    name = "sglang-dumper"
    looks_for = "a folder of step=…___rank=…___dump_index=…___name=….pt files"
    files = TorchFileReader()

    def knows(self, folder: Folder, root: Path) -> bool:  # noqa: ARG002
        """Return whether a folder has such names."""
        return any(map(parse_dumper_name, folder.files))

    def saved_in(self, folder: Folder, root: Path, builder: DumpBuilder) -> Iterable[_Saved]:
        """Yield a tensor for each name."""
        path, run = folder.below(root), folder.text("") or "."
        for name in folder.files:
            if keys := parse_dumper_name(name):
                yield _dumped(keys, TensorSource(path, name), run)
        builder.leave_out(folder, [name for name in folder.files if not parse_dumper_name(name)])

    def with_placements(self, dump: Dump) -> Dump:
        """Take the mesh, and how each tensor is cut, from `meta` beside each value; see `Reader.with_placements`."""
        refs: list[TensorRef] = []
        idle: list[TensorRef] = []
        ranks: dict[int, DistributedRank] = {}
        for ref in dump.refs:
            try:
                value = saved_value(ref.source.path)
            except TensorFileError as error:
                raise UnknownDumpFormatError(str(error)) from error
            meta, rank = _mapping(_mapping(value).get("meta")), ref.key.op.at.rank or 0
            dims, said = _dims(meta), DistributedRank(rank, numbers=_numbers(meta))
            if ranks.setdefault(rank, said) != said:
                raise UnknownDumpFormatError(
                    f"{ref.source.path}: says that rank {rank} is elsewhere than other files do: two runs into one "
                    "directory? Give one of them, or move the other one away"
                )
            data = found[1] if (found := _DATA_AXIS.search(dims)) else "dp"
            is_idle = data in said.numbers and 0 in getattr(_mapping(value).get("value"), "shape", ())
            (idle if is_idle else refs).append(replace(ref, placement=dims))
        busy = {_of_any_rank(ref.key) for ref in refs}
        refs += [ref for ref in idle if _of_any_rank(ref.key) not in busy]
        manifests = {rank: Manifest(distributed=one) for rank, one in ranks.items()}
        return replace(dump, refs=in_order(refs), ranks=manifests)


def _of_any_rank(key: TensorKey) -> TensorKey:
    return key._replace(op=key.op._replace(at=key.op.at._replace(rank=None)))


def _dims(meta: Mapping[Any, Any]) -> str:
    dims = meta.get("dims")
    return dims if isinstance(dims, str) and len(dims) <= _LONGEST_DIMS else ""


def _mapping(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}


def _numbers(meta: Mapping[Any, Any]) -> Mapping[str, tuple[int, int]]:
    """Return the number of a rank along each axis and the size of that axis, as SGLang and Megatron say them."""
    found = {}
    for info in (_mapping(meta.get(f"{project}_parallel_info")) for project in ("sglang", "megatron")):
        for name, number in info.items():
            axis = str(name).removesuffix("_rank")
            size = info.get(f"{axis}_size") if axis != name else None
            if axis in _NO_AXES or type(number) is not int or type(size) is not int:
                continue
            # One of a single rank cuts nothing.
            if 0 <= number < size <= _MOST_RANKS and size > 1:
                found[axis] = number, size
    return found


def _dumped(keys: Mapping[str, str], source: TensorSource, run: str) -> _Saved:
    name = keys["name"].removeprefix(_GRADIENT)
    is_gradient = name != keys["name"]
    step = int(keys.get("step", keys.get("forward_pass_id", "")))
    found = _Saved(name, source, run, rank=int(keys["rank"]), step=step, order=int(keys["dump_index"]))
    hooked = _HOOKED.fullmatch(name.removeprefix(_MODULE)) if name.startswith(_MODULE) else None
    if hooked:
        io = "input" if hooked["io"] == "inputs" else "output"
        own = (hooked["keys"],) if hooked["keys"] else ()
        found = found._replace(op=hooked["path"] or _WHOLE_MODEL, io=io, keys=own)
        return found._replace(op=f"{found.op}/grad_{io}", io="output") if is_gradient else found
    if name.startswith(_WEIGHT):
        found = found._replace(op=name.removeprefix(_WEIGHT), op_type=None if is_gradient else PARAMETER)
    else:
        found = found._replace(
            op="/".join((name, *(f"{key}={value}" for key, value in keys.items() if key not in _COORDINATES)))
        )
    return found._replace(op=f"{found.op}/grad") if is_gradient else found


# -- Forward hooks of SGLang and vLLM --------------------------------------------------------------------------------

_RANK_FOLDER = re.compile(r"TP\d{1,9}_PP\d{1,9}_Rank(\d{1,9})_pid\d{1,18}", re.ASCII)
_PASS = re.compile(r"Pass(\d{1,18})\.pt", re.ASCII)


class ForwardPassReader(_HookReader):
    """Outputs of modules by name in one file for each forward pass: what is in a file is in the order of the calls."""

    name = "forward-passes"
    looks_for = "TP…_PP…_Rank…_pid…/Pass….pt"
    files = TorchFileReader()

    def knows(self, folder: Folder, root: Path) -> bool:
        """Return whether it is the folder of a rank, and has passes."""
        name = folder.parts[-1] if folder.parts else root.name
        return bool(_RANK_FOLDER.fullmatch(name)) and any(map(_PASS.fullmatch, folder.files))

    def saved_in(self, folder: Folder, root: Path, builder: DumpBuilder) -> Iterable[_Saved]:
        """Yield the tensors of all passes. UnknownDumpFormatError for a file that cannot be read."""
        path, run = folder.below(root), folder.text("") or "."
        rank = _RANK_FOLDER.fullmatch(path.name)
        passes = {name: int(found[1]) for name in folder.files if (found := _PASS.fullmatch(name))}
        builder.leave_out(folder, [name for name in folder.files if name not in passes])
        begins, order = None, 0
        for name, step in sorted(passes.items(), key=lambda one: one[1]):
            try:
                arrays = self.files.arrays(path / name)
            except TensorFileError as error:
                # Nothing else names the tensors that should have been compared.
                raise UnknownDumpFormatError(str(error)) from error
            if begins is None and not step:
                begins = next((one.name for one in arrays), None)
            # The hooks save a pass before the model itself has given its output: that, and what runs after it, come at
            # the beginning of the next file.
            late = [one.name for one in arrays].index(begins) if step and begins in {one.name for one in arrays} else 0
            for part, array in enumerate(arrays):
                op, *keys = array.keys or (array.name,)
                source, at = TensorSource(path, name, part=part), int(rank[1]) if rank else None
                saved = _Saved(op, source, run, keys=tuple(keys), rank=at, step=step - (part < late))
                yield saved._replace(order=order + part, spec=array.spec)
            order += len(arrays)


# -- Debug trees of Transformers -------------------------------------------------------------------------------------

_TREE, _SUMMARY = "_debug_tree_FULL_TENSORS.json", "_debug_tree_SUMMARY.json"
_ARRAYS = ".safetensors"
_INPUT = re.compile(r"(?P<path>.+?)_inputs_(?:args_(?P<place>[\d_]+)|kwargs_(?P<name>.+))", re.DOTALL)
_OUTPUT = re.compile(r"(?P<path>.+)_outputs(?:_(?P<place>.+))?", re.DOTALL)
_NUMBER = re.compile(r"tensor\(([^,()]{1,40})[,)]")
_MAX_JSON_BYTES = 2**28
_MOST_NODES = 2**20
_DEEPEST = 100
# As many as PyTorch prints, and one before the point.
_DIGITS = 5
_TEXTS = "note_few_digits"


class _Leaf(NamedTuple):
    """A tensor in the tree: what it is of, and what the tree says of it."""

    path: str
    io: str
    keys: tuple[str, ...]
    entry: Mapping[str, Any]


class DebugTreeReader(_HookReader):
    """What `model_addition_debugger_context` of Transformers wrote: a tree of modules, and arrays beside it."""

    name = "debug-tree"
    looks_for = "…_debug_tree_FULL_TENSORS.json of Transformers"
    files = SafetensorsReader()

    def knows(self, folder: Folder, root: Path) -> bool:  # noqa: ARG002
        """Return whether a folder has a tree."""
        return any(name.endswith((_TREE, _SUMMARY)) for name in folder.files)

    def saved_in(self, folder: Folder, root: Path, builder: DumpBuilder) -> Iterable[_Saved]:
        """Yield the arrays of all trees of the folder, or their statistics where they are without arrays."""
        trees = sorted(
            {name.removesuffix(_TREE).removesuffix(_SUMMARY) for name in folder.files if "_debug_tree_" in name}
        )
        others = set(folder.files)
        for model in trees:
            name = next(one for one in (model + _TREE, model + _SUMMARY) if one in others)
            leaves = _leaves(builder, folder, name)
            others -= {model + _TREE, model + _SUMMARY}
            files = {one: leaf for one in sorted(others) if (leaf := _parse_file(one, model))}
            others -= files.keys()
            order = {str(leaf.entry.get("value")).removeprefix("./"): place for place, leaf in enumerate(leaves, 1)}
            run, path = folder.text(model), folder.below(root)
            for one, leaf in files.items():
                yield _hooked(leaf, model, TensorSource(path, one), run, order.get(one))
            if not files and leaves:
                builder.note_file(_TEXTS, folder.text(name))
                for place, leaf in enumerate(leaves):
                    source = TensorSource(path, name)
                    spec, values = _described(leaf.entry)
                    found = _hooked(leaf, model, source, run, place)
                    statistics = Statistics(values, digits=_DIGITS, spec=spec, source=source)
                    yield found._replace(spec=spec, statistics=statistics)
        builder.leave_out(folder, sorted(others))


def _hooked(leaf: _Leaf, model: str, source: TensorSource, run: str, order: int | None) -> _Saved:
    return _Saved(leaf.path.removeprefix(f"{model}."), source, run, leaf.io, leaf.keys, order=order)


def _parse_file(name: str, model: str) -> _Leaf | None:
    if not name.endswith(_ARRAYS) or not name.startswith((f"{model}.", f"{model}_")):
        return None
    stem = name.removesuffix(_ARRAYS)
    if found := _INPUT.fullmatch(stem):
        keys = tuple(found["place"].split("_")) if found["place"] else (found["name"],)
        return _Leaf(found["path"], "input", keys, {})
    if found := _OUTPUT.fullmatch(stem):
        return _Leaf(found["path"], "output", tuple(found["place"].split("_")) if found["place"] else (), {})
    return None


def _leaves(builder: DumpBuilder, folder: Folder, name: str) -> list[_Leaf]:
    """Return the tensors of a tree in the order of the calls; none, and a note, where it cannot be read."""
    text, wrong = read_text(folder.below(builder.root) / name, _MAX_JSON_BYTES)
    tree, wrong = ({}, wrong) if wrong else parse_object(text)
    if wrong:
        builder.note(f"{folder.text(name)} {wrong}")
    found: list[_Leaf] = []
    waiting: list[Any] = [tree]
    while waiting and len(found) < _MOST_NODES:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        path = str(node.get("module_path", "")).removesuffix(" (top-level)")
        inputs = node.get("inputs")
        for values in (inputs.get("args"), inputs.get("kwargs")) if isinstance(inputs, dict) else ():
            found += [_Leaf(path, "input", keys, entry) for keys, entry in _entries(values)]
        found += [_Leaf(path, "output", keys, entry) for keys, entry in _entries(node.get("outputs"))]
        children = node.get("children")
        waiting += reversed(children) if isinstance(children, list) else ()
    return found


def _entries(value: Any, depth: int = 0) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    if isinstance(value, dict) and isinstance(value.get("shape"), str) and isinstance(value.get("dtype"), str):
        yield (), value
    elif depth < _DEEPEST:
        parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
        for key, part in parts:
            yield from (((str(key), *keys), entry) for keys, entry in _entries(part, depth + 1))


def _described(entry: Mapping[str, Any]) -> tuple[TensorSpec, dict[str, Statistic]]:
    """Return what the tree says of a tensor: ``torch.Size([2, 4])``, ``torch.float32``, ``tensor(1.0000e+00)``."""
    lengths = re.findall(r"\d{1,18}", entry["shape"][:1000])[:64]
    shape = tuple(map(int, lengths))
    spec = TensorSpec(canonical(entry["dtype"][:40].removeprefix("torch.")), shape, None, shape)
    values: dict[str, Statistic] = {"count": prod(shape)}
    for theirs, ours in (("max", "maximum"), ("min", "minimum"), ("mean", "mean")):
        found = _NUMBER.match(str(entry.get(theirs, ""))[:100])
        try:
            values |= {ours: float(found[1])} if found else {}
        except ValueError:
            continue
    return spec, values
