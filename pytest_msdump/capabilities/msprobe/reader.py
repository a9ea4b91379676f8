"""Trees of msprobe (mindstudio-probe): ``step*/rank*/dump.json`` and ``dump_tensor_data/*.pt`` or ``*.npy``."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pytest_msdump.capabilities.msprobe.dump_json import (
    MsprobeCall,
    SavedTensor,
    containers_of,
    lines_of,
    parse_file,
    tensors_of,
)
from pytest_msdump.capabilities.tensor_files.torch_file import open_only_tensor
from pytest_msdump.core.dumps.base import DumpBuilder, Reader
from pytest_msdump.core.dumps.listing import Folder, walk
from pytest_msdump.core.dumps.npy import open_npy
from pytest_msdump.core.dumps.reruns import Reruns
from pytest_msdump.core.dumps.sidefiles import parse_object, read_text
from pytest_msdump.core.errors import UnknownDumpFormatError
from pytest_msdump.core.model.describe import counted
from pytest_msdump.core.model.dump import PARAMETER, Dump, in_order
from pytest_msdump.core.model.tensor import (
    UNSEEN,
    Coordinates,
    OpKey,
    Statistics,
    TensorKey,
    TensorRef,
    TensorSource,
    TensorSpec,
    TensorView,
    mangle,
)
from pytest_msdump.core.text import Message, say

_DUMP, _STACK, _CONSTRUCT, _ERRORS = "dump.json", "stack.json", "construct.json", "dump_error_info.log"
_DEBUG = "debug.json"
_BESIDE = frozenset({_DUMP, _STACK, _CONSTRUCT, _ERRORS, _DEBUG})
_DATA = "dump_tensor_data"
# Of a process; one without a number is of a run of one.
_PROCESS = re.compile(r"(?:rank_?|proc)\d{0,18}")
_STEP, _RANK = re.compile(r"step(\d{1,18})"), re.compile(r"rank_?(\d{1,18})")
_MAX_JSON_BYTES = 2**28
_LONGEST_LABEL = 40
# Calls without tensors between a call and the module around it.
_DEEPEST = 64
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
    looks_for = "a tree of msprobe: step*/rank*/dump.json beside dump_tensor_data"
    # npy files of msprobe are none of a folder of plain names.
    precedence = 2

    def recognises(self, root: Path) -> bool:
        """Return whether a folder has dump.json beside what belongs to it, or tensors with msprobe's names."""
        return root.is_dir() and any(_is_about(root, folder) or _is_data(root, folder) for folder in walk(root))

    def index(self, root: Path) -> Dump:
        """List the tensors; reads the JSON files. UnknownDumpFormatError for two processes without a rank."""
        builder = DumpBuilder(root, self.name)
        found: dict[Coordinates, tuple[str, ...]] = {}
        keys: set[TensorKey] = set()
        for place, process in _processes(builder, root).items():
            at = Coordinates(_number(_RANK, place), iteration=_number(_STEP, place), occurrence=0)
            if at in found:
                one, other = ("/".join(parts) or "." for parts in (found[at], place))
                raise UnknownDumpFormatError(
                    f"{root}: {one} and {other} are of one step, and neither says of which rank: two runs into one "
                    "directory? Give one of them, or move the other one away"
                )
            found[at] = place
            self._add(builder, process, at, keys)
        if not builder.refs and "structure" in builder.labels["task"]:
            builder.note(say(Message("note_structure")))
        return builder.build(Reruns(tuple(builder.refs)), order=lambda refs, _: in_order(refs))

    def open(self, ref: TensorRef) -> TensorView:
        """Open a tensor lazily; see `Reader.open`."""
        if ref.source.name.endswith(_NPY):
            return open_npy(ref.source.location, ref.spec)
        return open_only_tensor(ref.source.path)

    def _add(self, builder: DumpBuilder, process: _Process, at: Coordinates, keys: set[TensorKey]) -> None:
        """Add the tensors that a process saved in one step; of two with one name the first."""
        about, data = process
        # At the level debug there is another file in place of both.
        main = _DEBUG if _DUMP not in about.files and _DEBUG in about.files else _DUMP
        values, stacks, containers = (_read(builder, about, name) for name in (main, _STACK, _CONSTRUCT))
        for label in ("framework", "task", "level"):
            if isinstance(values.get(label), str) and len(values[label]) <= _LONGEST_LABEL:
                builder.labels[label].add(values[label])
        if _ERRORS in about.files:
            builder.note(f"{about.text(_ERRORS)}: msprobe could not save everything, and says there what")
        tensors, wrong = tensors_of(values)
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
                )
            )
        builder.leave_out(data, sorted(unused - _BESIDE))
        around = containers_of(containers)
        for call, op in made.items():
            outer = around.get(call)
            for _ in range(_DEEPEST):
                if outer is None or outer in made:
                    break
                outer = around.get(outer)
            # What ends earlier contains nothing, whatever the file says: no circles.
            if outer in made and places[made[outer]] > places[op]:
                builder.around[op] = made[outer]


def _processes(builder: DumpBuilder, root: Path) -> Mapping[tuple[str, ...], _Process]:
    """Return what each process saved, by the parts of its folder; other files are left out."""
    about: dict[tuple[str, ...], Folder] = {}
    data: dict[tuple[str, ...], Folder] = {}
    for folder in walk(root):
        if _is_about(root, folder):
            about[folder.parts] = folder
            builder.leave_out(folder, [name for name in folder.files if name not in _BESIDE])
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
    return bool(is_debug) or (_DUMP in folder.files and not {_STACK, _CONSTRUCT}.isdisjoint(folder.files))


def _is_data(root: Path, folder: Folder) -> bool:
    name = folder.parts[-1] if folder.parts else root.name
    return name == _DATA and any(map(parse_file, folder.files))


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
