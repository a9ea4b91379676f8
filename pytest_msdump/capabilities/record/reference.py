"""References that are made once and kept, while what they depend on stays the same."""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from datetime import datetime, timezone
from functools import partial
from os import PathLike
from pathlib import Path
from textwrap import dedent
from types import FunctionType, MethodType, ModuleType
from typing import Any, NamedTuple
from uuid import uuid4

from pytest_msdump.capabilities.record.manifest import SHA_256, digest, movable, write_manifest
from pytest_msdump.capabilities.record.variation import Control, Perturbation
from pytest_msdump.capabilities.record.writer import check_save, safe_name, sketch_dump
from pytest_msdump.capabilities.statistics.count_sketch import BUCKETS
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.dumps.manifest import MAX_BYTES, read_manifest
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.facts.profiles import COARSE_UNIT
from pytest_msdump.core.model.dump import ARCHIVE_FILE, MANIFEST_FILE, Manifest
from pytest_msdump.core.storage.files import naming, open_regular, read_regular, write_atomic

# A bool is an int, so it comes first. Types that extend these count as the builtin.
_PLAIN: tuple[Any, ...] = (str, bytes, bool, int, float, complex, type(None))
_READ_BYTES = 2**20
_CODE = (FunctionType, MethodType, ModuleType, type)
_SHOWN_DIGITS = 8


def keep_reference(
    name: str,
    build: Callable[[Path], object],
    *,
    directory: str | PathLike[str],
    key: Any = None,
    generate: bool = False,
    mark: Path | None = None,
    root: Path | None = None,
    save: str = "full",
    full: Sequence[str] = (),
    buckets: int = BUCKETS,
) -> Path:
    """Return the folder of a reference dump; make it first where there is none, or one of something else.

    Parameters
    ----------
    name : str
        One folder below `directory` for each name.
    build : callable
        Gets an empty folder and records into it. Its code is part of the key.
    directory : path
        Where references are kept, e.g. in the repository or in a cache of CI.
    key : object
        What the reference depends on, as `key_digest` takes it. It must be computable without the framework, for
        machines that use a kept reference and cannot make one.
    generate : bool
        Make it again, whatever is there.
    mark : Path, optional
        Where a session notes what it has made, a file with the path for each, so that its processes do it once.
    root : Path, optional
        The project's folder, by default the working directory. The manifest keeps paths below it relative to it, and
        no other absolute ones, so that it is the same on every machine.
    save, full, buckets
        ``"sketch"`` keeps a sketch of each tensor in its place, whatever `build` dumps, and operators of the globs
        `full` whole: see `record.writer.DumpWriter`.

    Returns
    -------
    Path
        ``directory/name``. Several processes may ask at once: one makes it, the others wait.

    Raises
    ------
    ConfigError
        It has to be made, and the framework is not installed.
    MsdumpError
        `build` wrote nothing, or the folder cannot be written.
    """
    check_save(save, buckets)
    kept = Path(directory) / safe_name(name)
    sketches = None if save == "full" else {"full": full, "buckets": buckets}
    # Keys of kept references stay as they were.
    size = () if buckets == BUCKETS else (buckets,)
    wanted = key_digest(key, build) if sketches is None else key_digest(key, build, save, full, *size)
    if not generate and _key_of(kept) == wanted:
        return kept
    with _locked(kept):
        made = mark / f"{safe_name(name)}-{key_digest(os.path.abspath(kept), wanted)}" if mark else None  # noqa: PTH100
        again = generate and not (made and made.exists())
        if again or _key_of(kept) != wanted:
            _make(kept, name, build, wanted, root or Path.cwd(), sketches)
            if mark and made:
                mark.mkdir(parents=True, exist_ok=True)
                made.write_bytes(os.fsencode(kept))
    return kept


class Variations(NamedTuple):
    """A reference and dumps of runs that differ from it on purpose: what limits are calibrated from."""

    reference: Path
    perturbed: Path
    coarse: Path
    controls: tuple[Path, ...]


def check_variations(name: str, build: Callable[..., object], controls: Sequence[str] = ()) -> None:
    """Refuse a `build` that cannot record such runs, and controls that do not exist, with a ConfigError."""
    takes = inspect.signature(build).parameters.values()
    known = {one.name for one in takes if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)}
    has_all = any(one.kind is one.VAR_KEYWORD for one in takes)
    wanted = ["perturb", *(["control"] if [Control(one) for one in controls] else [])]
    if missing := [keyword for keyword in wanted if not has_all and keyword not in known]:
        defaults = ", ".join(f"{keyword}=None" for keyword in wanted)
        raise ConfigError(
            f"reference '{name}': limits are calibrated from varied runs, and {_name(build)} takes no "
            f"{' and no '.join(missing)}; write it as def build(folder, *, {defaults}), and give "
            f"{'both' if len(wanted) > 1 else 'it'} on to the recorder"
        )


def record_variations(
    name: str, build: Callable[..., object], kept: Path, folder: Path, *, controls: Sequence[str] = ()
) -> Variations:
    """Have `build` record the runs that limits are calibrated from, each into a folder of its own below `folder`.

    Of a kept reference of sketches, which have no elements, a whole one is made there, too. `build` is called with
    `perturb`, a `record.Perturbation`, and once for each of `controls` with `control`, a `record.Control`. ConfigError
    where what it recorded is not varied so.
    """
    reference = kept
    if (kept / ARCHIVE_FILE).is_file():
        reference = folder / "reference"
        reference.mkdir()
        build(reference)
    fine, coarse = (_varied(name, build, folder, "perturb", Perturbation(1, u)) for u in (None, COARSE_UNIT))
    ran = [_varied(name, build, folder, "control", Control(control)) for control in controls]
    return Variations(reference, fine, coarse, tuple(ran))


def _varied(name: str, build: Callable[..., object], folder: Path, keyword: str, value: Perturbation | Control) -> Path:
    directory = folder / str(sum(1 for _ in folder.iterdir()))
    directory.mkdir()
    build(directory, **{keyword: value})
    dump = index(directory)
    for manifest in dump.ranks.values() or [dump.manifest]:
        if isinstance(value, Control):
            is_varied = manifest is not None and value.note in manifest.notes
        else:
            is_varied = manifest is not None and manifest.perturbation is not None
        if not is_varied:
            raise ConfigError(
                f"reference '{name}': {_name(build)} was given {keyword}={value}, and its recording does not say so; "
                f"give {keyword}={keyword} on to the recorder"
            )
    return directory


def key_digest(*values: Any) -> str:
    """Return the digest of everything that a reference depends on.

    That is texts, numbers, arrays of any framework; paths (the content of the file, or of all files of the folder);
    functions, classes and modules (their code without comments and empty lines, and without the values of names that
    it uses from outside); and lists, tuples, sets, mappings and dataclasses of these. ConfigError for something whose
    content cannot be read.
    """
    return hashlib.sha256(_describe(values).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def _describe(value: Any) -> str:
    """Return a text that differs wherever the value does."""
    for kind in _PLAIN:
        if isinstance(value, kind):
            return f"{kind.__name__} {kind.__repr__(value)}"
    if isinstance(value, Mapping):
        return "{" + ",".join(sorted(f"{_describe(name)}:{_describe(item)}" for name, item in value.items())) + "}"
    if isinstance(value, (set, frozenset)):
        return "<" + ",".join(sorted(map(_describe, value))) + ">"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_describe, value)) + "]"
    if isinstance(value, Path):
        return f"path {_content_digest(value)}"
    if isinstance(value, _CODE):
        return f"code {_source(value)}"
    if isinstance(value, partial):
        return f"partial {_describe([value.func, value.args, value.keywords])}"
    if is_dataclass(value):
        return f"{_name(type(value))} {_describe({field.name: getattr(value, field.name) for field in fields(value)})}"
    try:
        # Whatever digests this installation makes quickly: a kept reference is for all of them.
        return f"array {digest(value, algorithm=SHA_256)}"
    except (ConfigError, TypeError, ValueError) as error:
        raise ConfigError(
            f"the key of a reference holds a {type(value).__name__}, whose content is unknown; "
            "give what it is made of: texts, numbers, arrays, functions, paths"
        ) from error


def _content_digest(path: Path) -> str:
    """Return the digest of a file, or of all files below a folder with their names."""
    if path.is_dir():
        files = sorted(file for file in path.rglob("*") if file.is_file())
        listed = "".join(f"{file.relative_to(path).as_posix()}\0{_content_digest(file)}\0" for file in files)
        return hashlib.sha256(listed.encode("utf-8", "surrogateescape")).hexdigest()
    digest = hashlib.sha256()
    try:
        with open_regular(path) as file:
            while block := file.read(_READ_BYTES):
                digest.update(block)
        return digest.hexdigest()
    except OSError as error:
        raise ConfigError(f"the key of a reference names {path}, which cannot be read: {error.strerror}") from error


def _name(value: Any) -> str:
    return str(getattr(value, "__qualname__", type(value).__qualname__))


def _source(value: Any) -> str:
    """Return a function's code, dedented, without empty lines and those that hold a comment alone."""
    try:
        source = inspect.getsource(value)
    except (OSError, TypeError) as error:
        raise ConfigError(
            f"the key of a reference holds {_name(value)}, whose code cannot be found; "
            "give a text that names its version"
        ) from error
    lines = (line.rstrip() for line in dedent(source).splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#"))


def _key_of(kept: Path) -> str | None:
    """Return the key of a kept reference; ``None`` where there is nothing, or no whole dump."""
    manifest, _ = read_manifest(kept)
    if manifest is None or not manifest.complete:
        return None
    is_archive = (kept / ARCHIVE_FILE).is_file()
    return manifest.key if is_archive or all((kept / path).is_file() for path in manifest.tensors) else None


@contextmanager
def _locked(kept: Path) -> Iterator[None]:
    """Wait until no other process makes this reference. The lock of a process that dies is free."""
    lock = kept.with_name(f".{kept.name}.lock")
    with naming(kept.parent, "references cannot be kept here"):
        kept.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _open_locked(lock)
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(descriptor)


def _open_locked(lock: Path) -> int:
    """Open and lock a file that is still there once it is locked: its previous owner removes it."""
    while True:
        descriptor = os.open(lock, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if lock.exists() and os.path.samestat(os.fstat(descriptor), lock.stat()):
                return descriptor
        except FileNotFoundError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _make(
    kept: Path, name: str, build: Callable[[Path], object], key: str, root: Path, saving: Mapping[str, Any] | None
) -> None:
    """Have a reference built, and put it in its place; with `saving`, as `sketch_dump` makes sketches of it."""
    built, sketches = (kept.with_name(f".{kept.name}.{uuid4().hex}.tmp") for _ in range(2))
    # One process makes this reference at a time, so these are of processes that were killed.
    for left in [*kept.parent.glob(f".{kept.name}.*.tmp"), *kept.parent.glob(f".{kept.name}.*.old")]:
        shutil.rmtree(left, ignore_errors=True)
    try:
        with naming(kept):
            built.mkdir()
        _build(build, built, kept, name, key)
        has_sketches = saving is None or (built / ARCHIVE_FILE).exists() or not any(built.iterdir())
        if not has_sketches:
            sketch_dump(index(built), sketches, **(saving or {}))
        made = built if has_sketches else sketches
        with naming(kept):
            _sign(made, name, key, root)
            _swap(made, kept)
    finally:
        shutil.rmtree(built, ignore_errors=True)
        shutil.rmtree(sketches, ignore_errors=True)


def _build(build: Callable[[Path], object], folder: Path, kept: Path, name: str, key: str) -> None:
    try:
        build(folder)
    except (ImportError, ConfigError) as error:
        missing = error if isinstance(error, ImportError) else error.__cause__
        if not isinstance(missing, ImportError):
            raise
        before = _key_of(kept)
        found = "there is none" if before is None else f"the existing one is of something else (key {_short(before)})"
        raise ConfigError(
            f"{kept}: reference '{name}' with key {_short(key)} is needed, {found}, and it cannot be made here: "
            f"{missing}; run pytest with --msdump-generate where that is installed, and bring the folder here"
        ) from error


def _short(key: str) -> str:
    return key[:_SHOWN_DIGITS] or "unknown"


def _sign(folder: Path, name: str, key: str, root: Path) -> None:
    """Write the key into the dump's manifest; a framework's own dump gets one with nothing else."""
    manifest, _ = read_manifest(folder)
    if manifest is not None:
        if not manifest.complete:
            raise MsdumpError(f"reference '{name}': what was built is not complete; close its writer without an error")
        path = folder / MANIFEST_FILE
        values = movable(json.loads(read_regular(path, MAX_BYTES)), root) | {"key": key}
        write_atomic(path, json.dumps(values, indent=1, ensure_ascii=False).encode("utf-8", "backslashreplace"))
        return
    if not any(folder.iterdir()):
        raise MsdumpError(f"reference '{name}': nothing was recorded into the folder that build was given")
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    write_manifest(folder, Manifest(time=now, key=key))


def _swap(new: Path, kept: Path) -> None:
    """Put the whole of `new` in the place of `kept`."""
    if not kept.exists():
        new.rename(kept)
        return
    old = kept.with_name(f".{kept.name}.{uuid4().hex}.old")
    kept.rename(old)
    new.rename(kept)
    shutil.rmtree(old, ignore_errors=True)
