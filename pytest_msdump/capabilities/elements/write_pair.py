"""Write pairs element by element: one pair, two tensors, or the first failing ones of a run."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from os import PathLike
from pathlib import Path

from pytest_msdump.capabilities.elements.writing import (
    MOST_ROWS,
    MOST_TOP,
    Detail,
    DetailOptions,
    detail_views,
    file_stem,
    note_stem,
)
from pytest_msdump.core.compare.align import align, axis_letters
from pytest_msdump.core.compare.opening import Tensor, as_path, open_tensor, open_view
from pytest_msdump.core.compare.planning import Plan
from pytest_msdump.core.compare.user_code import NO_EXTRAS, Extras
from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.record import Record
from pytest_msdump.core.model.tensor import COORDINATES, Pair, TensorView, Transform
from pytest_msdump.core.storage.files import make_directory
from pytest_msdump.core.text import Message, plain_text

FOLDER = "detail"


def detail_pair(
    pair: Pair,
    folder: Path,
    *,
    stem: str | None = None,
    names: tuple[str, str] | None = None,
    options: DetailOptions = DetailOptions(),  # noqa: B008 - frozen
    extras: Extras = NO_EXTRAS,
) -> Detail:
    """Open a pair and write it in detail into `folder`; where that raises MsdumpError, no file is written."""
    if pair.left.is_unseen or pair.right.is_unseen:
        raise MsdumpError(f"{pair.left.key.address}: only statistics were saved, so there are no elements to look at")
    try:
        with closing(open_view(pair.left)) as left, closing(open_view(pair.right)) as right:
            return _write(pair, left, right, folder, stem, names, options, extras)
    except OSError as error:
        where = error.filename or pair.left.source.path
        raise MsdumpError(f"{where}: cannot be read ({error.strerror or error}); check the file") from error


def write_detail(
    left: Tensor | Pair,
    right: Tensor | None = None,
    *,
    directory: str | PathLike[str],
    name: str = "tensor",
    top: int = 20,
    rows: int = MOST_ROWS,
    every_element: bool = True,
    transpose: tuple[int, ...] | None = None,
    reshape: bool = False,
) -> Detail:
    """Write two tensors element by element: a summary, the largest errors, and CSV files with everything.

    Parameters
    ----------
    left, right : array_like, TensorView, TensorRef, str or Path
        The value under test and its reference. A `Pair` stands for both.
    directory : str or Path
        Where to; made when it is not there.
    name : str
        What files call arrays that have no name of their own.
    top : int
        How many of the largest errors are listed.
    rows : int
        The most elements in one file.
    every_element : bool
        Whether CSV files with every element are written.
    transpose : tuple of int, optional
        Axes of the right side, to meet the left.
    reshape : bool
        Whether the right side may have another shape with the same values in C order.

    Returns
    -------
    Detail
        Its `files`, and `summary` with the numbers as text.

    Raises
    ------
    ConfigError
        A number that cannot be meant, or no right side.
    TensorShapeError
        The shapes cannot be brought together.
    MsdumpError
        A tensor cannot be read, or a file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> found = write_detail([1.0, 2.0], [1.0, 2.5], directory=tempfile.mkdtemp(), name="conv1")
    >>> [file.name for file in found.files][:2]
    ['conv1_output_0_summary.txt', 'conv1_output_0_absolute_error_topn.csv']
    >>> found.summary["MaxAbsoluteError"], found.top_absolute[1]
    ('0.500000', '1,1,2.000000,2.500000,0.500000,0.200000')
    """
    options = DetailOptions(
        top=_within("top", top, MOST_TOP), rows=_within("rows", rows, MOST_ROWS), every_element=every_element
    )
    folder = as_path(directory)
    if isinstance(left, Pair):
        if right is not None:
            raise ConfigError("a Pair is both sides; give no right side with it")
        return detail_pair(left, folder, options=options)
    if right is None:
        raise ConfigError("the right side is missing; give the reference as the second argument")
    with ExitStack() as stack:
        left_ref, left_view = open_tensor(left, name, stack)
        right_ref, right_view = open_tensor(right, name, stack)
        pair = Pair(left_ref, right_ref, how="file", transform=Transform(transpose=transpose, reshape=reshape))
        return _write(pair, left_view, right_view, folder, None, None, options, NO_EXTRAS)


def detail_stems(pairs: Sequence[Pair]) -> list[str]:
    """Return the beginning of the names of each pair's files, no two equal: with coordinates where that needs them."""
    alike: dict[str, list[int]] = {}
    for number, pair in enumerate(pairs):
        alike.setdefault(_stem(pair), []).append(number)
    stems = [""] * len(pairs)
    for numbers in alike.values():
        values = {name: {getattr(pairs[number].left.key.op.at, name) for number in numbers} for name in COORDINATES}
        varying = [name for name in COORDINATES if len(values[name]) > 1]
        seen: Counter[str] = Counter()
        for number in numbers:
            stem = _stem(pairs[number], varying)
            seen[stem] += 1
            stems[number] = stem if seen[stem] == 1 else f"{stem}_{seen[stem]}"
    return stems


def _stem(pair: Pair, coordinate_names: Sequence[str] = ()) -> str:
    key = pair.left.key
    known = ((name, getattr(key.op.at, name)) for name in coordinate_names)
    coordinates = "".join(f"_{name}{value}" for name, value in known if value is not None)
    return file_stem(key.op.label, key.io, key.slot, coordinates=coordinates)


def _write(
    pair: Pair,
    left: TensorView,
    right: TensorView,
    folder: Path,
    stem: str | None,
    names: tuple[str, str] | None,
    options: DetailOptions,
    extras: Extras,
) -> Detail:
    aligned = align(pair, left, right, extras.converters)
    stem = stem or _stem(pair)
    operators = names or (pair.left.key.op.label, pair.right.key.op.label)
    letters = axis_letters(left, aligned.left.shape, aligned.transform)
    both = aligned.first(extras.first)
    detail = detail_views(*both, folder, stem, names=operators, letters=letters, options=options)
    note_stem(folder, stem, pair.left.key.op.label)
    return detail


def _within(name: str, number: int, most: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= most:
        raise ConfigError(f"{name} is {number!r}; give a whole number from 1 to {most}")
    return number


def details_of_failing(
    plan: Plan, records: Mapping[int, Record], directory: Path, run: str
) -> list[tuple[str, Path | Message]]:
    """Write failing records in detail until the run, which `run` names, has written as many as its suite asks for."""
    failing = [number for number, record in sorted(records.items()) if record.fails]
    if not plan.suite.options["detail"] or not failing:
        return []
    done: list[tuple[str, Path | Message]] = []
    for number in failing:
        pair = plan.pairing.pairs[number]
        try:
            outcome: Path | Message = _write_failing(plan, number, directory, run)
        except (MsdumpError, OSError) as error:
            outcome = plain_text(terminal_text(str(error)))
        done.append((pair.left.key.address, outcome))
    return done


def _write_failing(plan: Plan, number: int, directory: Path, run: str) -> Path | Message:
    count = plan.suite.options["detail"]
    slot = _take_slot(directory, run, count)
    if slot is None:
        return Message("details_left_out", {"n": count, "more": count * 2})
    stem = detail_stems(plan.pairing.pairs)[number]
    try:
        return detail_pair(plan.pairing.pairs[number], directory / FOLDER, stem=stem, extras=plan.extras).files[0]
    except BaseException:
        # A tensor that cannot be written leaves its slot to another one.
        slot.unlink()
        raise


def _slots(directory: Path, run: str) -> Path:
    return directory / FOLDER / f".{run}"


def _take_slot(directory: Path, run: str, count: int) -> Path | None:
    """Take one of the `count` slots of a run; ``None`` if all are taken."""
    make_directory(directory)
    folder = _slots(directory, run)
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        path = folder / str(number)
        # Several processes may want the same slot; only one of them makes the file.
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
            return path
    return None


def close_slots(directory: Path, run: str) -> int:
    """Remove the slots of a run, and return how many were taken."""
    folder = _slots(directory, run)
    if not folder.is_dir():
        return 0
    count = len(list(folder.iterdir()))
    shutil.rmtree(folder, ignore_errors=True)
    return count
