"""Open tensors of a dump, and a dump as a mapping from addresses to its tensors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.comparison.indexing import index, reader
from pytest_msdump.errors import ConfigError, TensorShapeError, UnknownNameError, nearest
from pytest_msdump.model.dump import Dump
from pytest_msdump.model.tensor import TensorRef, TensorView, mangle
from pytest_msdump.storage.remote import RemotePath, parse_location

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["OpenDump", "as_path", "open_dump", "open_logical", "open_view"]

# So many tensors of one name are listed where one was meant.
_TOLD = 5


def open_view(ref: TensorRef) -> TensorView:
    """Open one tensor lazily: its header is read and checked, its data is not.

    Raises
    ------
    TensorFileError
        The file is not what it claims to be: cut off, another type, not a tensor at all.
    """
    return reader(ref.reader).open(ref)


def open_logical(ref: TensorRef) -> TensorView:
    """Open one tensor in its logical shape: without its memory format and the padding that goes with it.

    Returns
    -------
    TensorView
        In stored axes where nobody tells the logical shape; then its `spec` has a memory format and no logical shape.

    Raises
    ------
    TensorFileError
        As `open_view`.
    """
    from pytest_msdump.layouts.device_layout import logical, target

    view = open_view(ref)
    try:
        shape, axes = target(view.spec, rule_format=None, rule_shape=None)
        return logical(view, logical_shape=shape, logical_format=axes)
    except TensorShapeError:
        return view
    except BaseException:
        view.close()
        raise


class OpenDump(Mapping[str, TensorRef]):
    """A dump as a mapping from address (``OP:io:slot``) to `TensorRef`, in execution order.

    Looking up accepts the true name, the mangled name, and leaves out ``:io:slot`` when the operator has one output;
    what names several tensors raises `UnknownNameError`. Where several coordinates (ranks, iterations, occurrences)
    share an address, the mapping gives the first; `refs` has them all.

    Examples
    --------
    >>> import numpy, tempfile
    >>> from pathlib import Path
    >>> from pytest_msdump.testing.builder import write_reference
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_reference(folder, {"conv1": numpy.arange(3.0)})
    >>> dump = open_dump(folder)
    >>> list(dump), dump.read("conv1").tolist()
    (['conv1:output:0'], [0.0, 1.0, 2.0])
    """

    def __init__(self, dump: Dump) -> None:
        self.dump = dump
        self._by_address: dict[str, TensorRef] = {}
        # By name and then by address: what stands for several tensors names none of them.
        self._other_names: defaultdict[str, dict[str, TensorRef]] = defaultdict(dict)
        for ref in dump.refs:
            self._by_address.setdefault(ref.key.address, ref)
            for name in _other_names(ref):
                self._other_names[name].setdefault(ref.key.address, ref)

    @property
    def refs(self) -> tuple[TensorRef, ...]:
        """Every tensor with all its coordinates, in execution order."""
        return self.dump.refs

    def __getitem__(self, address: str) -> TensorRef:
        if (ref := self._by_address.get(address)) is not None:
            return ref
        named = self._other_names.get(address, {})
        if not named:
            raise UnknownNameError(f"{self.dump.root}: no tensor '{address}'; {nearest(address, self._by_address)}")
        if len(named) > 1:
            some = ", ".join([*named][:_TOLD]) + (", …" if len(named) > _TOLD else "")
            raise UnknownNameError(
                f"{self.dump.root}: '{address}' is the name of {len(named)} tensors; say which: {some}"
            )
        return next(iter(named.values()))

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_address)

    def __len__(self) -> int:
        return len(self._by_address)

    def __fspath__(self) -> str:
        """The dump's folder, so that whatever takes a path to a dump takes an opened one."""
        return str(self.dump.root)

    def open(self, address: str) -> TensorView:
        """Open a tensor lazily, in its logical shape; see `open_logical` and `model.tensor.TensorView`."""
        return open_logical(self[address])

    def read(self, address: str) -> npt.NDArray[Any]:
        """Read a whole tensor into memory, in its logical shape. For small tensors and tests.

        Raises
        ------
        UnknownNameError
            No tensor has that address.
        TensorFileError
            Its file cannot be read.
        """
        view = self.open(address)
        try:
            values: npt.NDArray[Any] = view.read(0, view.size).reshape(view.shape).copy()
            return values
        finally:
            view.close()


def _other_names(ref: TensorRef) -> Iterator[str]:
    """Names beside its address under which a tensor is found: mangled, and without ``:io:slot`` for outputs."""
    tail = f":{ref.key.io}:{ref.key.slot}"
    yield ref.key.op.name + tail
    yield mangle(ref.key.op.label) + tail
    if ref.key.io == "output":
        yield ref.key.op.label
        yield ref.key.op.name


def open_dump(path: str | PathLike[str], *, allow_incomplete: bool = False) -> OpenDump:
    """Open a dump directory (or one tensor file) of any format a reader knows. Reads names only.

    Parameters
    ----------
    path : str or Path
        The dump's root: a path, or a URL such as ``s3://bucket/dump``.
    allow_incomplete : bool
        Open a recording that has not ended, or was broken off, as it is; its notes say so.

    Raises
    ------
    DumpNotFoundError, UnknownDumpFormatError, IncompleteRecordingError
        As `index`.
    """
    return OpenDump(index(as_path(path), allow_incomplete=allow_incomplete))


def as_path(path: str | PathLike[str]) -> Path:
    """Return the path or URL that somebody gave; an empty one, which would mean the current folder, was not meant.

    Raises
    ------
    ConfigError
        The path is empty, or a URL that cannot be meant.
    """
    if not str(path):
        raise ConfigError("the path of a dump is empty; give the directory a dump was written to")
    return path if isinstance(path, RemotePath) else parse_location(fspath(path), Path())
