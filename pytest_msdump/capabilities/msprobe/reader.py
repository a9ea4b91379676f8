"""Trees of msprobe (mindstudio-probe): ``step*/rank*/dump.json`` and ``dump_tensor_data/*.pt`` or ``*.npy``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capabilities.msprobe.placements import PlacedShard, placed
from pytest_msdump.capabilities.tensor_files.torch_file import open_only_tensor
from pytest_msdump.core.dtypes import canonical
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.reruns import Reruns
from pytest_msdump.core.dumps.sidefiles import parse_object, read_text
from pytest_msdump.core.errors import UnknownDumpFormatError
from pytest_msdump.core.facts.dtypes import DTYPES
from pytest_msdump.core.model.describe import counted
from pytest_msdump.core.model.dump import PARAMETER, DistributedRank, Dump, Manifest, in_order
from pytest_msdump.core.model.tensor import (
    UNSEEN,
    Coordinates,
    OpKey,
    SourceFrame,
    Statistic,
    Statistics,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
    mangle,
)
from pytest_msdump.core.storage.files import open_regular
from pytest_msdump.core.text import Message, say

_MODULE = re.compile(
    r"(?:Module|Cell)\.(?:(?P<path>.+)\.)?(?P<type>[^.]+)\.(?P<pass>forward|backward|parameters_grad)(?:\.(?P<call>\d{1,9}))?"
)
_API = re.compile(r"(?P<path>[A-Za-z]\w*\..*?(?P<type>[^.]+))\.(?P<call>\d{1,9})\.(?P<pass>forward|backward)")
# What the program saved by a name of its own.
_VARIABLE = re.compile(r"(?P<path>.+)\.(?P<call>\d{1,9})\.(?P<pass>debug)")
_FILE = re.compile(
    r"(?P<call>.+?\.(?:forward|backward)(?:\.\d{1,9})?)\.(?P<part>input|output|parameters)(?:\.(?P<index>.+))?"
    r"|(?P<variable>.+?\.\d{1,9}\.debug)(?:\.(?P<key>.+))?"
    r"|(?P<grad>.+?\.parameters_grad(?:\.\d{1,9})?)\.(?P<weight>.+)"
)
_FRAME = re.compile(r"File (?P<file>.+?), line (?P<line>\d{1,9}), in [^\n]*(?:\n(?P<text>.*))?", re.DOTALL)
# msprobe from its sources lies in no such folder.
_FRAMEWORK = re.compile(r"(?:^|[/\\])(?:(?:site|dist)-packages|msprobe[/\\](?:core|pytorch|mindspore))[/\\]|^<")
# Keys of an entry of dump.json that hold tensors, and which part of the call they are.
_PARTS = {
    "input_args": "input",
    "input_kwargs": "input",
    "input": "input",
    "output": "output",
    "parameters": "parameters",
}
_STATISTICS = {"Max": "maximum", "Min": "minimum", "Mean": "mean", "Norm": "l2_norm"}
_DIGESTS = (("crc32", re.compile(r"([0-9a-f]{8})")), ("xor64", re.compile(r"0x([0-9a-f]{16})")))
# MindSpore's have no array of numpy: they are saved, and the digest is made, as float32.
_WIDENED = ("mindspore.Tensor", "bfloat16")
_SUFFIXES = (".pt", ".npy")
_DEEPEST = 16
_LONGEST_NAME = 2**12
_MOST_AXES = 64


class MsprobeCall(NamedTuple):
    """One call of an API or a module: its operator's name, its type, which call it is, and in which pass."""

    name: str
    op_type: str | None
    number: int
    way: str


class SavedTensor(NamedTuple):
    """A tensor of a call: `part` is input, output, parameters or weight; `keys` where in it."""

    call: MsprobeCall
    part: str
    keys: tuple[str, ...]
    file: str = ""
    spec: TensorSpec = TensorSpec()
    statistics: Mapping[str, Statistic] = {}
    is_listed: bool = True
    placed: PlacedShard | None = None

    def named(self, place: int) -> tuple[str, str | None, str, int]:
        """Return name, type, input or output, and slot, as our recordings have them; `place` is where in its part."""
        weight = ".".join((self.call.name, *self.keys)) if self.call.name else ".".join(self.keys)
        if self.part == "parameters":
            return weight, PARAMETER, "output", 0
        if self.part == "weight":
            return f"{weight}/grad", None, "output", 0
        if self.call.way in ("forward", "debug"):
            return self.call.name, self.call.op_type, self.part, place
        # The input of a backward pass is the gradient of what the forward pass gave. What has no gradient has a place.
        gradient = "grad_output" if self.part == "input" else "grad_input"
        slot = int(self.keys[0]) if len(self.keys) == 1 and self.keys[0].isdecimal() else place
        return f"{self.call.name}/{gradient}", None, "output", slot


def parse_call(text: str) -> MsprobeCall | None:
    """Read ``Module.fc2.Linear.forward.1``, ``Functional.relu.0.backward``; a whole model has the name of its class.

    >>> parse_call("Module.layers.0.fc.Linear.forward.1")
    MsprobeCall(name='layers.0.fc', op_type='Linear', number=1, way='forward')
    >>> parse_call("Functional.relu.3.backward").name
    'Functional.relu'
    """
    if len(text) > _LONGEST_NAME:
        return None
    module = _MODULE.fullmatch(text)
    found = module or _API.fullmatch(text) or _VARIABLE.fullmatch(text)
    if found is None or not text.isprintable():
        return None
    way = found["pass"]
    if way == "debug":
        return MsprobeCall(found["path"], None, int(found["call"]), way)
    if module is not None and way != "parameters_grad":
        name = found["path"] or found["type"]
        return MsprobeCall(name, found["type"], int(found["call"]), way) if found["call"] else None
    return MsprobeCall(found["path"] or "", found["type"], int(found["call"] or 0), way)


def parse_file(name: str) -> SavedTensor | None:
    """Read the name of a file of ``dump_tensor_data``; ``None`` where it is none of msprobe's."""
    stem = next((name.removesuffix(suffix) for suffix in _SUFFIXES if name.endswith(suffix)), "")
    found = _FILE.fullmatch(stem)
    call = parse_call(found["call"] or found["variable"] or found["grad"]) if found else None
    if found is None or call is None:
        return None
    if found["grad"]:
        return SavedTensor(call, "weight", (found["weight"],), name, is_listed=False)
    part, index = found["part"] or "output", found["index"] or found["key"] or ""
    # A weight may have dots in its name; what is nested in lists has one number for each.
    return SavedTensor(
        call, part, (index,) if part == "parameters" else tuple(filter(None, index.split("."))), name, is_listed=False
    )


def tensors_of(values: Mapping[str, Any], rank: int | None = None) -> tuple[list[SavedTensor], int]:
    """Return the tensors of a rank's ``dump.json`` in the order of its calls, and how many of its entries are none."""
    data = values.get("data")
    found: list[SavedTensor] = []
    wrong = 0
    for name, entry in _in_order(data) if isinstance(data, dict) else ():
        call = parse_call(name)
        if call is not None and call.way == "debug":
            found += [_saved(call, "output", index, leaf, rank) for index, leaf in _leaves(entry)]
        elif call is None or not isinstance(entry, dict):
            wrong += entry is not None
        elif call.way == "parameters_grad":
            # By weight, each in a list of one.
            found += [_saved(call, "weight", index[:1], leaf, rank) for index, leaf in _leaves(entry)]
        else:
            parts = ((part, _leaves(entry.get(key))) for key, part in _PARTS.items())
            found += [_saved(call, part, index, leaf, rank) for part, leaves in parts for index, leaf in leaves]
    return found, wrong


def _in_order(data: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Return entries in the order of their calls: 8.3 has gradients of weights with the forward pass."""
    entries = list(data.items())
    first = next((place for place, (name, _) in enumerate(entries) if ".backward" in name), len(entries))
    last = next((place for place in reversed(range(first)) if ".forward" in entries[place][0]), 0)
    order = sorted(range(len(entries)), key=lambda place: place < last and ".parameters_grad" in entries[place][0])
    return [entries[place] for place in order]


def _leaves(value: Any, depth: int = 0) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict) and isinstance(value.get("dtype"), str) and isinstance(value.get("shape"), list):
        yield (), value
        return
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        if (text := str(key)).isprintable() and len(text) <= _LONGEST_NAME:
            yield from (((text, *index), leaf) for index, leaf in _leaves(part, depth + 1))


def _saved(
    call: MsprobeCall, part: str, index: tuple[str, ...], leaf: Mapping[str, Any], rank: int | None
) -> SavedTensor:
    dtype = canonical(leaf["dtype"].removeprefix("torch.")) if len(leaf["dtype"]) <= _LONGEST_NAME else None
    shape = tuple(leaf["shape"])
    if len(shape) > _MOST_AXES or not all(type(length) is int and 0 <= length < 2**63 for length in shape):
        return SavedTensor(call, part, index)
    spec = TensorSpec(dtype, shape, None, shape)
    statistics: dict[str, Statistic] = {"count": prod(shape)}
    # msprobe's are of the absolute values of complex numbers.
    if dtype is None or DTYPES[dtype].kind != "complex":
        numbers = {
            ours: leaf[theirs] for theirs, ours in _STATISTICS.items() if isinstance(leaf.get(theirs), int | float)
        }
        statistics |= {name: int(value) if isinstance(value, bool) else value for name, value in numbers.items()}
    digest = leaf.get("md5")
    if isinstance(digest, str) and (leaf.get("type"), dtype) != _WIDENED:
        known = {name: found[1] for name, pattern in _DIGESTS if (found := pattern.fullmatch(digest))}
        # Of a tensor without axes msprobe gives the number itself in place of an XOR.
        statistics |= known if shape or "xor64" not in known else {}
    file = leaf.get("data_name")
    # Others would lead to another folder, or cannot be names.
    is_name = isinstance(file, str) and file.isprintable() and "/" not in file and file not in (".", "..")
    return SavedTensor(call, part, index, str(file) if is_name else "", spec, statistics, placed=placed(leaf, rank))


def containers_of(values: Mapping[str, Any]) -> dict[MsprobeCall, MsprobeCall]:
    """Return by call of ``construct.json`` the call of a module that it ran inside of."""
    parsed = ((parse_call(name), parse_call(outer)) for name, outer in values.items() if isinstance(outer, str))
    return {call: outer for call, outer in parsed if call is not None and outer is not None}


def lines_of(values: Mapping[str, Any]) -> dict[MsprobeCall, SourceFrame]:
    """Return by call of ``stack.json`` the innermost line of the program that is in no installed package."""
    lines: dict[MsprobeCall, SourceFrame] = {}
    for name, entry in values.items():
        # Calls with one stack share it; older releases have a list of lines for each call.
        is_shared = isinstance(entry, list) and len(entry) == 2 and all(isinstance(part, list) for part in entry)
        names, stack = entry if is_shared else ([name], entry)
        texts = [text for text in stack if isinstance(text, str)] if isinstance(stack, list) else []
        line = innermost(filter(None, (_FRAME.fullmatch(text) for text in texts if len(text) <= 4 * _LONGEST_NAME)))
        calls = [parse_call(one) for one in names if isinstance(one, str)] if line is not None else []
        lines |= {call: line for call in calls if call is not None and line is not None}
    return lines


def innermost(frames: Iterable[re.Match[str]]) -> SourceFrame | None:
    """Return the first line of a program that is in no installed package; a frame has `file`, `line` and `text`."""
    for found in frames:
        if not _FRAMEWORK.search(found["file"]) and 0 < int(found["line"]) < 2**31:
            return SourceFrame(found["file"], int(found["line"]), (found["text"] or "").strip())
    return None


_DUMP, _STACK, _CONSTRUCT, _ERRORS = "dump.json", "stack.json", "construct.json", "dump_error_info.log"
_DEBUG = "debug.json"
_BESIDE = frozenset({_DUMP, _STACK, _CONSTRUCT, _ERRORS, _DEBUG})
_DATA = "dump_tensor_data"
_HEAD_BYTES = 2**12
_KEYS = (rb'"task"\s*:', rb'"(?:dump_data_dir|data)"\s*:')
# Of a process; one without a number is of a run of one.
_PROCESS = re.compile(r"(?:rank_?|proc)\d{0,18}")
_STEP, _RANK = re.compile(r"step(\d{1,18})"), re.compile(r"rank_?(\d{1,18})")
_MAX_JSON_BYTES = 2**28
_LONGEST_LABEL = 40
# Calls without tensors between a call and the module around it.
_DEEPEST_MODULE = 64
_NPY = ".npy"
_UNKNOWN = TensorSpec()
_UNNAMED = "note_unnamed"


class _Process(NamedTuple):
    """What one process saved in one step: the folder with dump.json, and that with its tensors."""

    about: Folder
    data: Folder


class MsprobeReader(Reader):
    """What msprobe saved of PyTorch and MindSpore, at the levels L0, L1, mix and debug: tensors, or statistics alone.

    A module is an operator with its path as name, as in our recordings, and so are its gradients, its weights and
    theirs. An API is ``Functional.relu``, and which call of it is its occurrence; so is a variable that the program
    saved at the level debug. Where ``dump.json`` is missing, names
    of files are all that is known.
    """

    name = "msprobe"
    looks_for = "a tree of msprobe, step*/rank*/dump.json beside dump_tensor_data, or one dump.json of it"
    # npy files of msprobe are none of a folder of plain names.
    precedence = 2
    one_file_is_whole = True

    def recognises(self, root: Path) -> bool:
        """Return whether this is a dump.json of msprobe by any name, or has one in it, or tensors with its names."""
        if root.is_file():
            return root.suffix.lower() == ".json" and _is_of_msprobe(root)
        return root.is_dir() and any(_is_about(root, folder) or _is_data(root, folder) for folder in walk(root))

    def index(self, root: Path) -> Dump:
        """List the tensors; reads the JSON files. UnknownDumpFormatError for two processes without a rank.

        Of a file the folder that it is in, without others below it.
        """
        main, root = (root.name, root.parent) if root.is_file() else ("", root)
        builder = DumpBuilder(root, self.name)
        found: dict[Coordinates, tuple[str, ...]] = {}
        keys: set[TensorKey] = set()
        groups: defaultdict[int, dict[str, Sequence[int]]] = defaultdict(dict)
        for place, process in _processes(builder, root, main).items():
            at = Coordinates(_number(_RANK, place), iteration=_number(_STEP, place), occurrence=0)
            if at in found:
                one, other = ("/".join(parts) or "." for parts in (found[at], place))
                raise UnknownDumpFormatError(
                    f"{root}: {one} and {other} are of one step, and neither says of which rank: two runs into one "
                    "directory? Give one of them, or move the other one away"
                )
            found[at] = place
            self._add(builder, process, at, keys, groups, main)
        if not builder.refs and "structure" in builder.labels["task"]:
            builder.note(say(Message("note_structure")))
        dump = builder.build(Reruns(tuple(builder.refs)), order=lambda refs, _: in_order(refs))
        ranks = {rank: Manifest(distributed=DistributedRank(rank, groups=own)) for rank, own in groups.items()}
        return replace(dump, ranks=ranks)

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        if ref.source.name.endswith(_NPY):
            return open_npy(ref.source.location, ref.spec)
        return open_only_tensor(ref.source.path)

    def _add(
        self,
        builder: DumpBuilder,
        process: _Process,
        at: Coordinates,
        keys: set[TensorKey],
        groups: defaultdict[int, dict[str, Sequence[int]]],
        main: str,
    ) -> None:
        """Add the tensors that a process saved in one step, of two with one name the first, and the groups of ranks."""
        about, data = process
        # At the level debug there is another file in place of both.
        main = main or (_DEBUG if _DUMP not in about.files and _DEBUG in about.files else _DUMP)
        values, stacks, containers = (_read(builder, about, name) for name in (main, _STACK, _CONSTRUCT))
        for label in ("framework", "task", "level"):
            if isinstance(values.get(label), str) and len(values[label]) <= _LONGEST_LABEL:
                builder.labels[label].add(values[label])
        if _ERRORS in about.files:
            builder.note(f"{about.text(_ERRORS)}: msprobe could not save everything, and says there what")
        tensors, wrong = tensors_of(values, at.rank)
        if wrong:
            builder.note(f"{about.text(main)} has {counted(wrong, 'call')} of a kind that is not known, left out")
        alone = _unnamed(data, tensors)
        for one in alone:
            builder.note_file(_UNNAMED, data.text(one.file))
        lines, places, unused = lines_of(stacks), dict[OpKey, int](), set(data.files)
        made: dict[MsprobeCall, OpKey] = {}
        for saved, key in _keyed((*tensors, *alone), at):
            if key in keys:
                continue
            keys.add(key)
            unused.discard(saved.file)
            has_place = saved.is_listed and key.op.op_type != PARAMETER
            is_made = saved.call.way == "forward" and key.op.op_type != PARAMETER
            if has_place and saved.part == "output":
                made[saved.call] = key.op
            folder, name, reader = (about, main, UNSEEN) if not saved.file else (data, saved.file, self.name)
            source = TensorSource(folder.below(builder.root), name)
            builder.refs.append(
                TensorRef(
                    key,
                    _UNKNOWN if saved.file else saved.spec,
                    source,
                    reader,
                    place=places.setdefault(key.op, len(places)) if has_place else None,
                    line=lines.get(saved.call) if is_made else None,
                    statistics=None if saved.file else Statistics(saved.statistics, spec=saved.spec, source=source),
                    computed=_computed(saved),
                    placement=_placement(saved.placed, groups[at.rank or 0]) if saved.placed else "",
                )
            )
        builder.leave_out(data, sorted(unused - _BESIDE))
        around = containers_of(containers)
        for call, op in made.items():
            outer = around.get(call)
            for _ in range(_DEEPEST_MODULE):
                if outer is None or outer in made:
                    break
                outer = around.get(outer)
            # What ends earlier contains nothing, whatever the file says: no circles.
            if outer in made and places[made[outer]] > places[op]:
                builder.around[op] = made[outer]


def _processes(builder: DumpBuilder, root: Path, main: str) -> Mapping[tuple[str, ...], _Process]:
    """Return what each process saved, by the parts of its folder; other files are left out.

    With `main`, a file of the root, it is the process that wrote that file.
    """
    about: dict[tuple[str, ...], Folder] = {}
    data: dict[tuple[str, ...], Folder] = {}
    for folder in walk(root):
        if main and folder.parts not in ((), (_DATA,)):
            continue
        if _is_about(root, folder) or (main and not folder.parts):
            about[folder.parts] = folder
            builder.leave_out(folder, [name for name in folder.files if name not in (*_BESIDE, main)])
        elif _is_data(root, folder):
            data[folder.parts[:-1]] = folder
        else:
            builder.leave_out(folder, folder.files)
    return {
        parts: _Process(about.get(parts, Folder(parts, (), ())), data.get(parts, Folder((*parts, _DATA), (), ())))
        for parts in sorted({*about, *data})
    }


def _is_about(root: Path, folder: Folder) -> bool:
    name = folder.parts[-1] if folder.parts else root.name
    is_debug = _DEBUG in folder.files and _PROCESS.fullmatch(name)
    # Where msprobe's other files are there, names are enough.
    is_tree = _DUMP in folder.files and not {_STACK, _CONSTRUCT}.isdisjoint(folder.files)
    return bool(is_debug) or is_tree or (_DUMP in folder.files and _is_of_msprobe(folder.below(root) / _DUMP))


def _is_of_msprobe(path: Path) -> bool:
    """Whether a JSON file begins with keys of msprobe's."""
    try:
        with open_regular(path) as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return False
    return all(re.search(key, head) for key in _KEYS)


def _is_data(root: Path, folder: Folder) -> bool:
    name = folder.parts[-1] if folder.parts else root.name
    return name == _DATA and any(map(parse_file, folder.files))


def _placement(shard: PlacedShard, groups: dict[str, Sequence[int]]) -> str:
    """Return how a tensor is cut, and add the groups of its mesh; of two meshes that contradict the first counts."""
    if any(groups.setdefault(axis, own) != own for axis, own in shard.groups.items()):
        return "?"
    return shard.dims


def _computed(saved: SavedTensor) -> str | None:
    """Return the type of what has no array of numpy, which MindSpore saves as float32."""
    return saved.spec.dtype if saved.file.endswith(_NPY) and saved.spec.dtype == "bfloat16" else None


def _number(pattern: re.Pattern[str], parts: Sequence[str]) -> int | None:
    return next((int(found[1]) for part in parts if (found := pattern.fullmatch(part))), None)


def _read(builder: DumpBuilder, folder: Folder, name: str) -> Mapping[str, Any]:
    """Return the object of a JSON file; an empty one, and a note, where it cannot be read."""
    if name not in folder.files:
        return {}
    text, wrong = read_text(folder.below(builder.root) / name, _MAX_JSON_BYTES)
    values, wrong = ({}, wrong) if wrong else parse_object(text)
    if wrong:
        builder.note(f"{folder.text(name)} {wrong}")
    return values


def _unnamed(data: Folder, tensors: Iterable[SavedTensor]) -> list[SavedTensor]:
    """Return the files of calls that no dump.json has, in the order of their places in a call."""
    calls, files = {one.call for one in tensors}, {one.file for one in tensors}
    parsed = [one for name in data.files if name not in files and (one := parse_file(name)) and one.call not in calls]
    return sorted(parsed, key=lambda one: [(not part.isdecimal(), len(part), part) for part in one.keys])


def _keyed(tensors: Sequence[SavedTensor], at: Coordinates) -> Iterator[tuple[SavedTensor, TensorKey]]:
    """Yield tensors with their keys; slots are places among the tensors of a part, as in our recordings."""
    backward: defaultdict[str, set[int]] = defaultdict(set)
    for one in tensors:
        if one.call.way == "backward":
            backward[one.call.name].add(one.call.number)
    # The backward pass begins with the last call, so that its gradient comes first.
    arrived = {
        (name, number): place for name, found in backward.items() for place, number in enumerate(sorted(found)[::-1])
    }
    places: Counter[tuple[MsprobeCall, str]] = Counter()
    for one in tensors:
        name, op_type, io, slot = one.named(places[one.call, one.part])
        places[one.call, one.part] += 1
        occurrence = arrived.get((one.call.name, one.call.number), 0) if one.call.way == "backward" else one.call.number
        mangled = mangle(name)
        op = OpKey(mangled, at._replace(occurrence=occurrence), op_type, name if name != mangled else None)
        yield one, TensorKey(op, io, slot)
