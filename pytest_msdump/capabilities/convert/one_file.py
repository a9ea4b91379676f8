"""Convert the files of dumps to files of arrays; a tensor or a file that fails stops no other."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import lru_cache, partial
from pathlib import Path

from pytest_msdump.capabilities.arrays.writer import text_bytes, whole_file, write_npz, write_view
from pytest_msdump.capabilities.ascend.dump_file import RAW_WORDS, raw_bytes, read_header
from pytest_msdump.capabilities.convert.formats import Relabelled, bring
from pytest_msdump.capabilities.convert.sources import SUFFIXES, SourceFile, WantedTensor, short_name, stem_of
from pytest_msdump.capabilities.overflow.opdebug import read_overflow_file
from pytest_msdump.core.compare.opening import open_logical, open_view
from pytest_msdump.core.dumps.array_files import is_named_array
from pytest_msdump.core.dumps.file_names import parse_ascend, parse_opdebug
from pytest_msdump.core.dumps.sidefiles import MAPPING, read_mapping
from pytest_msdump.core.errors import ConfigError, MsdumpError, TensorFileError
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.layouts.converters import Converters, load_converters
from pytest_msdump.core.model.tensor import TensorRef, TensorView
from pytest_msdump.core.processes import Workers
from pytest_msdump.core.storage.files import in_utf8, make_folder

_FAILURES = (MsdumpError, OSError, MemoryError)
# A process takes longer to start than so many small files to convert.
_WORTH_PROCESSES = 64
_MOST_JOBS = 8
_KILLED = "the process that converted it was killed, perhaps out of memory; convert it alone, or free memory"


@dataclass(frozen=True)
class ConvertOptions:
    """How to convert every tensor, into files of the folder `out`."""

    out: Path
    to: str = "npy"
    memory_format: str | None = None
    from_format: str | None = None
    shape: tuple[int, ...] | None = None
    code: Path | None = None
    protected: frozenset[tuple[int, int]] = frozenset()


@dataclass
class Outcome:
    """The result of converting one file: the files that were written, and what failed."""

    path: Path
    written: list[Path] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    names: list[tuple[Path, str, str]] = field(default_factory=list)
    opened: int = 0


def default_jobs(files: int) -> int:
    """Return how many processes pay for so many files."""
    available = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(available, _MOST_JOBS) if files >= _WORTH_PROCESSES else 1


def convert_files(
    sources: Sequence[SourceFile], options: ConvertOptions, *, jobs: int
) -> Generator[Outcome, None, None]:
    """Yield the outcome of each file, converted in `jobs` processes; a process that is killed costs one file."""
    return Workers(partial(_convert_file, options=options), sources, jobs=jobs, died=_killed).results()


def _killed(source: SourceFile) -> Outcome:
    return Outcome(source.path, failures=[("", _KILLED)])


def _convert_file(source: SourceFile, *, options: ConvertOptions) -> Outcome:
    conversion = _Conversion(source, options)
    try:
        conversion.run()
    except _FAILURES as error:
        conversion.outcome.failures.append(("", _reason(error, source.path)))
    return conversion.outcome


class _Conversion:
    """The conversion of one file."""

    def __init__(self, source: SourceFile, options: ConvertOptions) -> None:
        self.source, self.options = source, options
        self.folder = options.out / source.folder
        self.outcome = Outcome(source.path)

    def run(self) -> None:
        """Write everything that the file has."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.source.is_overflow:
            self._write_overflow()
        elif self.options.to == "npz":
            self._write_archive()
        else:
            for tensor in self.source.tensors:
                self._write_tensor(tensor)
        has_untyped = self.source.with_untyped and self.options.memory_format is None
        if has_untyped and parse_ascend(self.source.name) is not None:
            self._write_untyped()

    def _write_tensor(self, tensor: WantedTensor) -> None:
        options = self.options
        try:
            _refuse_taken_name(tensor)
            with closing(self._opened(tensor.ref)) as view:
                self.outcome.opened += 1
                converted = self._converted(view)
                name = tensor.stem.file_name(
                    options.to,
                    shape=converted.shape,
                    dtype=converted.dtype,
                    memory_format=options.memory_format or options.from_format or view.spec.memory_format or "ND",
                    converted=options.memory_format is not None,
                )
                kind = "npy" if options.to == "msnpy" else options.to
                self.outcome.written.append(write_view(converted, self._target(name), to=kind))
        except _FAILURES as error:
            self._fail(tensor, error)

    def _opened(self, ref: TensorRef) -> TensorView:
        """Open a tensor as it is stored; for text, which no reader takes back, as it is meant."""
        options = self.options
        as_meant = options.to == "txt" and options.memory_format is None and options.from_format is None
        return open_logical(ref) if as_meant else open_view(ref)

    def _write_archive(self) -> None:
        """Put all tensors that can be opened into one archive."""
        self._refuse_taken()
        members = [tensor for tensor in self.source.tensors if self._is_convertible(tensor)]
        if members:
            name = self.source.name.removesuffix(".npy").removesuffix(SUFFIXES["npz"])
            path = self._target(name + SUFFIXES["npz"])
            self.outcome.written.append(write_npz(self._open_members(members), path))

    def _is_convertible(self, tensor: WantedTensor) -> bool:
        """Return whether a tensor can be opened and brought to its format; note why not."""
        try:
            _refuse_taken_name(tensor)
            with closing(open_view(tensor.ref)) as view:
                self.outcome.opened += 1
                self._converted(view)
        except _FAILURES as error:
            self._fail(tensor, error)
            return False
        return True

    def _open_members(self, tensors: Iterable[WantedTensor]) -> Iterator[tuple[str, TensorView]]:
        for tensor in tensors:
            with closing(open_view(tensor.ref)) as view:
                key = tensor.ref.key
                name = tensor.stem.whole if is_named_array(tensor.ref) else f"{key.io}.{key.slot}"
                yield name, self._converted(view)

    def _write_overflow(self) -> None:
        self._refuse_taken()
        source = self.source
        parsed = parse_opdebug(source.name)
        if parsed is None:
            raise TensorFileError(f"{source.path}: its name is not that of an overflow file")
        record = read_overflow_file(source.path, parsed)
        if record.problem:
            raise TensorFileError(record.problem)
        for slot, document in record.documents.items():
            self._write(f"{source.name}.output.{slot}.json", [json.dumps(document, indent=4).encode()])

    def _write_untyped(self) -> None:
        source = self.source
        try:
            parts = read_header(source.path)[0].raw
        except TensorFileError:
            # Its tensors have failed for that already.
            return
        for part in parts:
            word = RAW_WORDS[part.kind]
            try:
                self._refuse_taken()
                self._write(f"{source.name}.{word}.{part.slot}.bin", raw_bytes(source.path, part))
            except (MsdumpError, OSError) as error:
                self.outcome.failures.append((f"{word}:{part.slot}", _reason(error, source.path)))

    def _write(self, name: str, pieces: Iterable[bytes | bytearray]) -> None:
        path = self._target(name)
        with whole_file(path) as stream:
            stream.writelines(pieces)
        self.outcome.written.append(path)

    def _converted(self, view: TensorView) -> TensorView:
        options = self.options
        if options.from_format is not None:
            view = Relabelled(view, options.from_format)
        if options.memory_format is None:
            return view
        return bring(view, options.memory_format, shape=options.shape, converters=_converters(options.code))

    def _target(self, name: str) -> Path:
        """Return the path of a target, by its short name where it is too long; one that is a source is refused."""
        short = short_name(name)
        if short is not None:
            self.outcome.names.append((self.folder, short, name))
        path = self.folder / (short or name)
        try:
            status = path.stat()
        except OSError:
            return path
        if (status.st_dev, status.st_ino) in self.options.protected:
            raise MsdumpError(f"{path}: is one of the files to convert and stays as it is; choose another folder")
        return path

    def _refuse_taken(self) -> None:
        if self.source.taken_by is not None:
            raise _taken(self.source.name, self.source.taken_by)

    def _fail(self, tensor: WantedTensor, error: BaseException) -> None:
        # A file of one tensor fails as a whole, as does one whose header does not say which tensors it has.
        key, source = tensor.ref.key, tensor.ref.source
        label = "" if source.part is None else key.address if is_named_array(tensor.ref) else f"{key.io}:{key.slot}"
        reason = _reason(error, source.path)
        for prefix in (f"{label.replace(':', ' ')}: ", f"{key.op.name}: "):
            reason = reason.removeprefix(prefix)
        self.outcome.failures.append((label, reason))


def _refuse_taken_name(tensor: WantedTensor) -> None:
    if tensor.taken_by == tensor.ref.source.path:
        raise MsdumpError(f"another array of it becomes {tensor.stem.whole}, too; convert this one alone with --select")
    if tensor.taken_by is not None:
        raise _taken(tensor.stem.numbered or tensor.stem.whole, tensor.taken_by)


def _taken(name: str, owner: Path) -> MsdumpError:
    return MsdumpError(f"{name}: a file of that name is made of {owner} already; give this one a folder of its own")


def _reason(error: BaseException, path: Path) -> str:
    """Return an error in one line, without the path of the file, which is printed above it."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text.removeprefix(f"{path}: ")


@lru_cache(maxsize=1)
def _converters(code: Path | None) -> Converters:
    return {} if code is None else load_converters(code)[0]


FAILED_LIST = "convert_failed_file_list.txt"


def write_failed_list(outcomes: Iterable[Outcome], out: Path) -> Path | None:
    """List what could not be converted, and return the list; without failures, remove that of an earlier run."""
    failed = sorted((outcome for outcome in outcomes if outcome.failures), key=lambda outcome: outcome.path)
    path = out / FAILED_LIST
    if not failed:
        with suppress(OSError):
            path.unlink()
        return None
    with whole_file(path) as stream:
        for outcome in failed:
            labels = [label for label, _ in outcome.failures if label and outcome.opened]
            lines = [",".join([str(outcome.path), *labels])]
            lines += [f"# {label}: {reason}" if label else f"# {reason}" for label, reason in outcome.failures]
            # A name with a line break in it would look like two.
            stream.write("".join(f"{terminal_text(line)}\n" for line in lines).encode())
    return path


def write_mappings(names: Sequence[tuple[Path, str, str]]) -> None:
    """Add the long names of short ones to each folder's ``mapping.csv``."""
    by_folder: defaultdict[Path, dict[str, str]] = defaultdict(dict)
    for folder, short, name in names:
        by_folder[folder][short] = name
    for folder, rows in by_folder.items():
        path = folder / MAPPING
        if path.exists():
            known, note = read_mapping(path)
            if note:
                raise MsdumpError(f"{path} {note}; move it away, it would have to be written over")
            rows = {**known, **rows}
        with whole_file(path) as stream:
            stream.write(in_utf8("".join(f"{short},{name}\n" for short, name in rows.items())))


def save_text(path: Path, refs: Sequence[TensorRef], out: Path, *, with_header: bool = False) -> Iterator[Path]:
    """Write the tensors of a file as text, in C order of its logical shape, and yield the files written."""
    if not refs:
        raise ConfigError(f"{path}: holds no tensor that could be written as text")
    is_file = out.suffix.lower() == ".txt" and not out.is_dir()
    if is_file and len(refs) > 1:
        raise ConfigError(f"{out}: is one file, and {path.name} holds {len(refs)} tensors; name a folder")
    folder = out.parent if is_file else out
    make_folder(folder, kind=MsdumpError)
    written: set[Path] = set()
    for ref in refs:
        target = out if is_file else out / f"{stem_of(ref, path.name).whole}.txt"
        if target in written:
            raise MsdumpError(f"{target}: two arrays of {path} would be written there; convert one with --select")
        written.add(target)
        with closing(open_logical(ref)) as view, whole_file(target) as stream:
            stream.writelines(text_bytes(view, with_header=with_header))
        yield target
