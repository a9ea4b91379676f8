"""What a file or a folder seems to be that no reader knows, by its name and its first bytes, and what to do with it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from pytest_msdump.core.dumps.base import reader_of
from pytest_msdump.core.dumps.listing import walk
from pytest_msdump.core.dumps.stored_file import LFS_POINTER, StoredFile
from pytest_msdump.core.errors import TensorFileError
from pytest_msdump.core.escape import shell_word
from pytest_msdump.core.storage.locations import RemotePath

_GIVE = "give a dump, or a file of tensors: .npy, .npz, .pt, .safetensors, … (docs/reference/dump_formats.md)"
_NUMPY, _RUN = "import sys, numpy as np", "run the model, and give what it computed"
_UNPACK, _RENAME = "unpack it, and give what was in it", "give it that name"
_SAVED_MODEL = "saved_model.pb"
_HEAD_BYTES, _MOST_FILES, _MOST_FOLDERS, _MOST_KINDS = 300, 10_000, 32, 3


class _Kind(NamedTuple):
    """One kind of file, and several: what they are called, and what to do; `{file}` and `{npz}` stand for paths."""

    one: str
    many: str
    advice: str = _GIVE


def _converted(imports: str, arrays: str) -> str:
    return f"make an archive of it: python -c '{_NUMPY}{imports}; np.savez(sys.argv[2], **{arrays})' {{file}} {{npz}}"


_HDF5 = _Kind(
    "a file of HDF5",
    "files of HDF5",
    f"make an archive of it: python -c '{_NUMPY}, h5py; d = {{{{}}}}; h5py.File(sys.argv[1]).visititems(lambda n, v: "
    "d.update({{n: v[()]}}) if isinstance(v, h5py.Dataset) else None); np.savez(sys.argv[2], **d)' {file} {npz}",
)
_PICKLE = _Kind(
    "a pickle, which is never loaded, since that may run any code",
    "pickles",
    "if you trust it and it is a dict of arrays, "
    + _converted(", pathlib, pickle", "pickle.loads(pathlib.Path(sys.argv[1]).read_bytes())"),
)
_CHECKPOINT = _Kind(
    "part of a checkpoint of TensorFlow",
    "files of a checkpoint of TensorFlow",
    _converted(
        ", tensorflow as tf",
        '{{n: tf.train.load_variable(sys.argv[1], n) for n, _ in tf.train.list_variables(sys.argv[1]) if n[0] != "_"}}',
    ),
)
_MODEL = _Kind("a model, and no tensors that it computed", "models", _RUN)
_PICTURE = _Kind("a picture", "pictures")
_FILM = _Kind("a film or a sound", "films or sounds")
_TEXT = _Kind("a text file", "text files")
_DATA = _Kind("a file of another program", "files of another program", "save its arrays with numpy.savez")
_RECORDS = _Kind(
    "a file of records of TensorFlow", "files of records of TensorFlow", "save the arrays in them with numpy.savez"
)
_GGUF = _Kind("a model of llama.cpp", "models of llama.cpp", "give the checkpoint that it was made of")
_ZIP = _Kind("a zip archive", "zip archives", f"name it .npz or .pt if numpy or PyTorch wrote it, else {_UNPACK}")
_ARCHIVE = _Kind("an archive", "archives", _UNPACK)
_NPY = _Kind("an array of numpy whose name does not end in .npy", "arrays without the ending .npy", _RENAME)
_TENSORBOARD = _Kind("a log of TensorBoard", "logs of TensorBoard", "save the tensors themselves with numpy.save")
_STORE = _Kind(
    "part of a store of Zarr or Orbax", "files of a store of Zarr or Orbax", "save its arrays with numpy.savez"
)
_JSON = _Kind("a JSON file", "JSON files")
_UNKNOWN = _Kind("of no kind that is known here", "files of no kind that is known here")
_PLAIN = frozenset({_TEXT, _UNKNOWN})

# How files begin; the first row that fits counts, before any name.
_BEGINNINGS = (
    (b"\x89HDF\r\n\x1a\n", _HDF5),
    (b"\x93NUMPY", _NPY),
    (b"GGUF", _GGUF),
    (LFS_POINTER[0], _Kind("a Git LFS pointer, not the file itself", "Git LFS pointers", "run `git lfs pull`")),
    (b"\x1f\x8b", _ARCHIVE),
    (b"\xfd7zXZ", _ARCHIVE),
    (b"BZh", _ARCHIVE),
    (b"7z\xbc\xaf", _ARCHIVE),
    (b"\x28\xb5\x2f\xfd", _ARCHIVE),
    (b"Rar!", _ARCHIVE),
    (b"MATLAB", _DATA),
    (b"PAR1", _DATA),
)
_ENDINGS = {
    ending: kind
    for endings, kind in (
        (".h5 .hdf5 .he5", _HDF5),
        (".pkl .pickle .p .pdparams .dill", _PICKLE),
        (".onnx .ort .om .mindir .ms .tflite .caffemodel .prototxt .engine .plan .trt .pdmodel .pdiparams", _MODEL),
        (".mlmodel .mlpackage .dlc .keras .pb .pbtxt .air .rknn", _MODEL),
        (".png .jpg .jpeg .gif .bmp .tif .tiff .webp .svg .pdf", _PICTURE),
        (".mp4 .mov .avi .mkv .webm .mp3 .wav .flac .ogg .m4a", _FILM),
        (".txt .log .md .rst .py .ipynb .yaml .yml .toml .ini .cfg .sh .c .cpp .h .html .dot .out .err", _TEXT),
        (".csv .tsv .xlsx .parquet .arrow .feather .mat .msgpack .joblib", _DATA),
        (".jsonl .json", _JSON),
        (".tfrecord .tfrecords", _RECORDS),
        (".gguf .ggml", _GGUF),
        (".zip", _ZIP),
        (".tar .gz .tgz .bz2 .xz .7z .zst .rar", _ARCHIVE),
        (".zarray .zgroup .ocdbt", _STORE),
    )
    for ending in endings.split()
}
_NAMES = (
    (re.compile(r"checkpoint|.+\.(?:index|meta|data-[0-9]{5}-of-[0-9]{5})"), _CHECKPOINT),
    (re.compile(r"(?:.+\.)?tfevents\..+|events\.out\..+"), _TENSORBOARD),
    (re.compile(r"_METADATA|\.zattrs|zarr\.json"), _STORE),
)


def described(root: Path) -> str:
    """Return what a path without a reader seems to be, and what to do with it, as the end of a sentence about it.

    Empty where it is text, or nothing that is known here.
    """
    return _folder(root) if root.is_dir() else _file(root)


def _file(path: Path) -> str:
    kind, head = _kind(path)
    if head == b"":
        return "is empty (0 bytes); the run was probably killed while writing: dump it again"
    if kind is _CHECKPOINT:
        # TensorFlow takes how the names of all its files begin, or their folder.
        path = path.parent if path.name == "checkpoint" else path.with_suffix("")
    return "" if kind in _PLAIN else f"is {kind.one}; {_advice(kind, path)}"


def _folder(root: Path) -> str:
    if inside := [*_dumps_below(root)]:
        path, name = inside[0]
        return (
            f"is no dump itself, but has {len(inside)} below it; give one of them, e.g. {shell_word(str(path))} "
            f"(reader {name})"
        )
    kinds: defaultdict[_Kind, list[Path]] = defaultdict(list)
    for path in islice((folder.below(root) / name for folder in walk(root) for name in folder.files), _MOST_FILES):
        if not path.name.startswith(".git"):
            kinds[_kind(path)[0]].append(path)
    if kinds.keys() <= _PLAIN:
        return ""
    listed = sorted(kinds.items(), key=lambda one: -len(one[1]))
    said = [
        f"{f'{len(paths)} {kind.many}' if len(paths) > 1 else kind.one} ({paths[0].relative_to(root)})"
        for kind, paths in listed[:_MOST_KINDS]
    ]
    more = " and others" if len(listed) > _MOST_KINDS else ""
    kind, paths = listed[0]
    if root / _SAVED_MODEL in kinds.get(_MODEL, ()):
        return f"is {_MODEL.one}; {_RUN}"
    if kind is _CHECKPOINT:
        return f"is a checkpoint of TensorFlow; {_advice(kind, root)}"
    return f"holds no dump but {', '.join(said)}{more}; {_advice(kind, paths[0]) if len(listed) == 1 else _GIVE}"


def _dumps_below(root: Path) -> Iterator[tuple[Path, str]]:
    """Yield folders below the root that a reader knows, none of them inside of another."""
    found: list[tuple[str, ...]] = []
    for folder in islice(walk(root), _MOST_FOLDERS):
        if folder.parts and not any(folder.parts[: len(one)] == one for one in found):
            path = folder.below(root)
            if (one := reader_of(path)) is not None:
                found.append(folder.parts)
                yield path, one.name


def _kind(path: Path) -> tuple[_Kind, bytes | None]:
    """Return what a file seems to be, and its first bytes, where they can be read."""
    head = _head(path)
    by_head = next((kind for start, kind in _BEGINNINGS if head and head.startswith(start)), None)
    by_name = next((kind for name, kind in _NAMES if name.fullmatch(path.name)), None)
    ending = path.suffix.lower() or path.name.lower()
    kind = by_head or by_name or _ENDINGS.get(ending)
    if kind is None and head and head.startswith(b"PK\x03\x04"):
        kind = _ZIP
    if kind is None and head and head[:1] == b"\x80" and head[1:2] < b"\x06":
        kind = _PICKLE
    if kind is None and head and all(32 <= byte < 127 or byte in b"\t\r\n" for byte in head):
        kind = _TEXT
    return kind or _UNKNOWN, head


def _head(path: Path) -> bytes | None:
    if isinstance(path, RemotePath):
        return None
    try:
        with closing(StoredFile(path)) as file:
            return file.read_bytes(0, min(file.size, _HEAD_BYTES))
    except TensorFileError:
        return None


def _advice(kind: _Kind, path: Path) -> str:
    return kind.advice.format(file=shell_word(str(path)), npz=shell_word(f"{path.name.partition('.')[0]}.npz"))
