"""The laws that every reader, kind of report and definition of an operator keep, as tests to inherit."""

# These are tests, though they are shipped: they assert.
# ruff: noqa: S101

from __future__ import annotations

import builtins
import functools
import io
import os
import pickle
import shutil
import tracemalloc
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pytest

from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.dumps.base import Reader
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.lazy_names import lazy_names
from pytest_msdump.core.model.dump import Dump, in_order
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.core.report.base import ReportKind
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.settings.options import REPORT_KINDS
from pytest_msdump.core.suite import load_suite

if TYPE_CHECKING:
    from pytest_msdump.capabilities.kernels.conformance import OperatorConformance

__all__ = ["OperatorConformance", "ReaderConformance", "ReportConformance"]

__getattr__, __dir__ = lazy_names(__name__, {"OperatorConformance": "pytest_msdump.capabilities.kernels.conformance"})

_T = TypeVar("_T")
# What reading a damaged file may take beside what the file itself takes.
_BOUND_BYTES = 64 * 2**20


class ReaderConformance(ABC):
    """Inherit it, give the two fixtures, and pytest runs the laws against your reader.

    Examples
    --------
    >>> class TestMyReader(ReaderConformance):
    ...     @pytest.fixture
    ...     def reader(self):
    ...         return MyReader()
    ...
    ...     @pytest.fixture
    ...     def dump_root(self, tmp_path):
    ...         return write_my_dump(tmp_path / "dump")
    """

    @pytest.fixture
    @abstractmethod
    def reader(self) -> Reader:
        """Return the reader under test."""

    @pytest.fixture
    @abstractmethod
    def dump_root(self) -> Path:
        """Return a dump that the reader knows, with at least one tensor; it is not written to."""

    def is_side_file(self, relative: Path) -> bool:  # noqa: ARG002
        """Return whether a file of `dump_root` is known but no tensor. Override it when there are such files."""
        return False

    def test_reader_recognises_its_dump(self, reader: Reader, dump_root: Path) -> None:
        """The reader knows its own format."""
        assert reader.recognises(dump_root)
        assert reader.name
        assert reader.looks_for

    def test_reader_does_not_recognise_other_files(self, reader: Reader, tmp_path: Path) -> None:
        """A folder of something else is left to other readers."""
        other = tmp_path / "other"
        other.mkdir()
        (other / "notes.txt").write_text("no tensors here")
        assert not reader.recognises(other)

    def test_index_finds_tensors(self, reader: Reader, dump_root: Path) -> None:
        """The dump of the fixture is a real test of the other laws."""
        dump = reader.index(dump_root)
        assert dump.reader == reader.name
        assert dump.root == dump_root
        assert dump.refs

    def test_index_opens_no_tensor_file(self, reader: Reader, dump_root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Indexing costs as much as listing names, however large the tensors are."""
        tensors = {str(ref.source.path) for ref in _all_refs(reader.index(dump_root))}
        opened: list[str] = []
        for module in (builtins, io, os):
            monkeypatch.setattr(module, "open", _recording(module.open, opened))
        reader.recognises(dump_root)
        reader.index(dump_root)
        monkeypatch.undo()
        assert not tensors & set(opened)

    def test_index_does_not_depend_on_the_content(self, reader: Reader, dump_root: Path, tmp_path: Path) -> None:
        """Tensor files that are cut, empty or garbage are still listed; opening them is where that shows."""
        copy = tmp_path / "copy" / dump_root.name
        copy.parent.mkdir()
        if dump_root.is_file():
            shutil.copy(dump_root, copy)
        else:
            shutil.copytree(dump_root, copy)
        before = reader.index(copy)
        for ref in _all_refs(before):
            ref.source.path.chmod(0o600)
            ref.source.path.write_bytes(b"")
        assert reader.index(copy) == before

    def test_index_is_deterministic(self, reader: Reader, dump_root: Path) -> None:
        """Two processes that look at one dump see the same tensors in the same order."""
        dump = reader.index(dump_root)
        assert reader.index(dump_root) == dump
        assert dump.refs == in_order(dump.refs)

    def test_every_file_is_accounted_for(self, reader: Reader, dump_root: Path) -> None:
        """A file is a tensor, one of an older run, a known side file, or unexplained. Nothing is dropped in silence."""
        dump = reader.index(dump_root)
        explained = {path for ref in _all_refs(dump) for path in _files_of(ref)}
        explained |= {dump_root / path for path in dump.unexplained}
        files = [dump_root] if dump_root.is_file() else sorted(filter(Path.is_file, dump_root.rglob("*")))
        missed = [path for path in files if path not in explained]
        assert all(self.is_side_file(path.relative_to(dump_root)) for path in missed), missed

    def test_keys_are_unique(self, reader: Reader, dump_root: Path) -> None:
        """Two tensors of one dump differ in their operator, coordinates, io or slot."""
        refs = reader.index(dump_root).refs
        assert len({ref.key for ref in refs}) == len(refs)

    def test_every_tensor_opens(self, reader: Reader, dump_root: Path) -> None:
        """What the index lists can be opened, and holds what it claims to hold."""
        for ref in reader.index(dump_root).refs:
            view = reader.open(ref)
            try:
                assert view.read(0, view.size).size == view.size
                assert ref.spec.dtype in (None, view.dtype)
                assert ref.spec.shape in (None, view.spec.shape)
            finally:
                view.close()

    def test_a_tensor_file_that_is_cut_anywhere_is_refused_or_as_it_was(
        self, reader: Reader, dump_root: Path, tmp_path: Path
    ) -> None:
        """What a killed run or a broken copy left never gives other numbers."""
        dump = _Damaged(reader, dump_root, tmp_path)
        for place in dump.places:
            assert dump.is_refused_or_as_it_was(dump.whole[:place]), f"cut after {place} bytes"

    def test_bytes_behind_a_tensor_file_change_no_value(self, reader: Reader, dump_root: Path, tmp_path: Path) -> None:
        """They are refused, or passed over."""
        dump = _Damaged(reader, dump_root, tmp_path)
        for more in (b"\0", b"garbage" * 9, dump.whole[:100]):
            assert dump.is_refused_or_as_it_was(dump.whole + more), more

    def test_a_byte_that_is_changed_anywhere_gives_a_tensor_or_one_line(
        self, reader: Reader, dump_root: Path, tmp_path: Path
    ) -> None:
        """No other error than one of this package comes of a damaged file, and no number in it takes much memory."""
        dump = _Damaged(reader, dump_root, tmp_path)
        for place in dump.places:
            for value in (255, dump.whole[place] ^ 1):
                dump.told(dump.whole[:place] + bytes([value]) + dump.whole[place + 1 :])
        assert dump.peak_bytes <= _BOUND_BYTES + 16 * len(dump.whole)

    def test_index_is_picklable(self, reader: Reader, dump_root: Path) -> None:
        """Dumps travel between the processes of a parallel run."""
        dump = reader.index(dump_root)
        assert pickle.loads(pickle.dumps(dump)) == dump  # noqa: S301


class ReportConformance(ABC):
    """Inherit it, give the fixture, and pytest runs the laws against your kind of report.

    Examples
    --------
    >>> class TestMyReport(ReportConformance):
    ...     @pytest.fixture
    ...     def kind(self):
    ...         return MyReport()
    """

    @pytest.fixture
    @abstractmethod
    def kind(self) -> ReportKind:
        """Return the kind under test."""

    @pytest.fixture
    def report(self, tmp_path: Path) -> Report:
        """Return a report of pairs that pass and fail, of a hostile name, and of a tensor without a partner."""
        right = {"conv1": [1.0, 2.0], "relu1": [0.0, 2.0], "a\x1b[2J::error::b<b>": [1.0, 1.0], "fc": [3.0]}
        left = {name: values for name, values in right.items() if name != "fc"} | {"relu1": [0.0, -2.0]}
        for side, tensors in (("left", left), ("right", right)):
            (tmp_path / side).mkdir()
            for time, (name, values) in enumerate(tensors.items()):
                np.save(tmp_path / side / f"{name}.0.{time}.npy", values)
        sides = {side: str(tmp_path / side) for side in ("left", "right")}
        planned = plan(load_suite(file=None, options=sides, directory=tmp_path))
        return build_report(planned, compare_plan(planned))

    def test_it_has_a_name_and_a_file_of_its_own(self, kind: ReportKind) -> None:
        """It takes no name or file of the kinds that are there."""
        assert kind.name
        assert kind.name not in REPORT_KINDS
        assert kind.file == Path(kind.file).name
        assert kind.file not in {"results.json", "ops.csv", "index.html", "summary.md", "gl-code-quality.json"}

    def test_it_writes_its_file_and_nothing_else(self, kind: ReportKind, report: Report, tmp_path: Path) -> None:
        """The folder may not be there before."""
        written = kind.write(report, tmp_path / "out")
        assert written == tmp_path / "out" / kind.file
        # A report directory that is made gets a .gitignore.
        assert {path.name for path in written.parent.iterdir()} - {".gitignore"} == {kind.file}
        assert written.stat().st_size

    def test_it_replaces_its_file(self, kind: ReportKind, report: Report, tmp_path: Path) -> None:
        """A report is that of one run, and two reports of one run are alike."""
        content = kind.write(report, tmp_path).read_bytes()
        (tmp_path / kind.file).write_bytes(b"of an earlier run")
        assert kind.write(report, tmp_path).read_bytes() == content

    def test_no_name_drives_a_terminal(self, kind: ReportKind, report: Report, tmp_path: Path) -> None:
        """Names come from dumps; `pytest_msdump.core.escape` makes them safe."""
        content = kind.write(report, tmp_path).read_bytes()
        assert b"\x1b" not in content
        assert b"::error::" not in content

    def test_an_unwritable_folder_is_one_error(self, kind: ReportKind, report: Report, tmp_path: Path) -> None:
        """Of this package's kind, so that the gate can say it in a line."""
        (tmp_path / "file").write_text("no folder")
        with pytest.raises(MsdumpError):
            kind.write(report, tmp_path / "file")


def _all_refs(dump: Dump) -> Iterator[TensorRef]:
    yield from dump.refs
    yield from dump.older


def _files_of(ref: TensorRef) -> tuple[Path, ...]:
    """The files of a tensor: of one that was saved in slices, all of them."""
    return ref.source.path, *ref.source.pieces


class _Damaged:
    """A copy of a dump whose shortest tensor file can be given another content."""

    def __init__(self, reader: Reader, root: Path, folder: Path) -> None:
        self.reader, self.root = reader, folder / "damaged" / root.name
        self.root.parent.mkdir()
        shutil.copy(root, self.root) if root.is_file() else shutil.copytree(root, self.root)
        files = {path for ref in reader.index(self.root).refs for path in _files_of(ref)}
        self.file = min(files, key=lambda path: (path.stat().st_size, path))
        self.file.chmod(0o600)
        self.whole = self.file.read_bytes()
        # Every byte of a short file; of a long one so many, the first among them.
        size, most = len(self.whole), 64
        spread = np.linspace(0, size - 1, most // 2).astype(int).tolist()
        self.places = range(size) if size <= most else sorted({*range(most // 2), *spread})
        self.peak_bytes = 0
        self.before = self.told(self.whole)

    def told(self, content: bytes) -> dict[str, tuple[object, ...]]:
        """Return what the tensors of the file hold, by their keys; those that are refused in a line are left out."""
        self.file.write_bytes(content)
        told: dict[str, tuple[object, ...]] = {}
        for ref in self._unless_refused(lambda: self.reader.index(self.root).refs) or ():
            of_file = self.file in _files_of(ref)
            held = self._unless_refused(functools.partial(self._held, ref)) if of_file else None
            if held is not None:
                told[str(ref.key)] = held
        return told

    def is_refused_or_as_it_was(self, content: bytes) -> bool:
        return all(self.before[key] == held for key, held in self.told(content).items() if key in self.before)

    def _held(self, ref: TensorRef) -> tuple[object, ...]:
        tracemalloc.start()
        try:
            view = self.reader.open(ref)
            try:
                return view.dtype, view.shape, view.read(0, view.size).tobytes()
            finally:
                view.close()
        finally:
            self.peak_bytes = max(self.peak_bytes, tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    @staticmethod
    def _unless_refused(call: Callable[[], _T]) -> _T | None:
        try:
            return call()
        except MsdumpError as error:
            if "\n" in str(error):
                raise AssertionError(f"an error of several lines: {error}") from error
            return None


def _recording(function: Any, opened: list[str]) -> Any:
    """Wrap an `open` so that it writes down what it opens."""

    def recorded(file: Any, *args: Any, **kwargs: Any) -> Any:
        opened.append(os.fspath(file) if isinstance(file, (str, os.PathLike)) else str(file))
        return function(file, *args, **kwargs)

    return recorded
