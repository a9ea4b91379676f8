"""Assert on two tensors, on two dumps, or on one dump alone: the same engine and text as the gate's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pytest_msdump.capabilities.inspect.check_text import check_lines, summary_line
from pytest_msdump.capabilities.inspect.checks import Checked, check_dump
from pytest_msdump.capabilities.inspect.hits import parse_settings
from pytest_msdump.capabilities.inspect.measure import Contents, contents
from pytest_msdump.capabilities.overflow.device import scan_ref
from pytest_msdump.capabilities.overflow.indexing import reported_overflows
from pytest_msdump.core.compare.comparing import compare_pair, compare_views
from pytest_msdump.core.compare.indexing import index
from pytest_msdump.core.compare.opening import OpenDump, Tensor, as_path, open_tensor
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.limits.policy import Policy
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.pairing import Pair, Transform
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.model.tensor import TensorRef
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.coverage import coverage_problems, coverage_text
from pytest_msdump.core.report.failure import failure_text, one_line
from pytest_msdump.core.report.summary import header_lines, lead, summary_lines
from pytest_msdump.core.settings.options import OPTIONS
from pytest_msdump.core.storage.locations import RemotePath
from pytest_msdump.core.suite import Suite, load_suite
from pytest_msdump.core.suite.keys import MapObject
from pytest_msdump.core.text import say
from pytest_msdump.dumps.opdebug import overflow_files
from pytest_msdump.facts.replay import LEAST_REPLAYED

if TYPE_CHECKING:
    from pytest_msdump.core.model.record import Record

_WIDTH = 100
_OF_DUMPS = frozenset(option.name for option in OPTIONS) | {"map"}


def compare(
    left: Tensor | Pair,
    right: Tensor | None = None,
    *,
    profile: str = "default",
    nan: str = "match",
    transpose: tuple[int, ...] | None = None,
    reshape: bool = False,
    name: str = "tensor",
    **limits: float,
) -> Record:
    """Measure and judge two tensors. Says nothing by itself: read `verdict` and `comparison`.

    Parameters
    ----------
    left, right : array_like, TensorView, TensorRef, str or Path
        The value under test and its reference. A `Pair` (of the fixture ``msdump_pairs``) stands for both.
    profile : str
        Named limits.
    nan : str
        ``"match"`` or ``"forbid"``.
    transpose : tuple of int, optional
        Axes of the right side, to meet the left.
    reshape : bool
        Whether the right side may have another shape with the same values in C order.
    name : str
        What messages call arrays that have no name of their own.
    **limits : float
        Limits by metric id or short form, e.g. ``cosine=0.9999``; they win over the profile.

    Returns
    -------
    Record
        Its verdict is ``error`` when shapes or files cannot be brought together.

    Raises
    ------
    ConfigError
        An unknown profile or metric, or a limit that cannot be meant.

    Examples
    --------
    >>> compare([1.0, 2.0], [1.0, 2.5], max_abs=0.6, norm_max=1, rel_euclid=1, cosine=0).verdict.outcome
    'pass'
    """
    if of_dumps := _OF_DUMPS.intersection(limits):
        raise ConfigError(f"{min(of_dumps)}: is of whole dumps, and these are two tensors; take assert_dumps_close")
    # Numbers of an array library are numbers; what is none is refused where limits are checked.
    plain = {metric: bound.item() if hasattr(bound, "item") else bound for metric, bound in limits.items()}
    policy = Policy(profile=profile, nan=nan, nan_rule=f'nan="{nan}"', marker=plain)
    if isinstance(left, Pair):
        if right is not None:
            raise ConfigError("a Pair is both sides; give no right side with it")
        return compare_pair(left, policy)
    if right is None:
        raise ConfigError("the right side is missing; give the reference as the second argument")
    with ExitStack() as stack:
        left_ref, left_view = open_tensor(left, name, stack)
        right_ref, right_view = open_tensor(right, name, stack)
        pair = Pair(left_ref, right_ref, how="file", transform=Transform(transpose=transpose, reshape=reshape))
        return compare_views(pair, left_view, right_view, policy)


def assert_close(left: Tensor | Pair, right: Tensor | None = None, **options: Any) -> None:
    """Fail, with the gate's failure text, unless the two tensors are within the limits.

    Parameters
    ----------
    left, right, **options
        As `compare` takes them.

    Raises
    ------
    AssertionError
        The verdict is ``fail``, ``undefined`` or ``error``.

    Examples
    --------
    >>> import numpy
    >>> assert_close(numpy.ones(3), numpy.ones(3))
    """
    __tracebackhide__ = True
    record = compare(left, right, **options)
    if record.fails:
        raise AssertionError(f"{one_line(record)}\n\n{failure_text([record], operators=1, width=_WIDTH)}")


_SHOWN_OPERATORS = 3
_PATHS = ("left", "right", "golden", "third", "fusion")


def assert_dumps_close(
    left: str | PathLike[str],
    right: str | PathLike[str],
    *,
    map: MapObject = None,  # noqa: A002 - the suite file's word
    profile: str = "default",
    min_coverage: float | None = None,
    limits: Mapping[str, float] | str | PathLike[str] | None = None,
    fusion: str | PathLike[str] | None = None,
    golden: str | PathLike[str] | None = None,
    third: str | PathLike[str] | None = None,
    **options: Any,
) -> Report:
    """Fail unless every matched tensor of two dumps is within the limits. One test for a whole dump.

    Parameters
    ----------
    left, right : str or Path
        The run under test and the reference.
    map : mapping, callable, list of mappings or path, optional
        ``{left address: right address}``, a function of the left name that returns the right one or ``None``, entries
        as ``[[msdump.map]]`` has them, or a TOML file that has some.
    profile : str
        Named limits.
    min_coverage : float, optional
        Least share of the right side that must be compared, 0 to 1; 0.5 by default.
    limits : mapping, str or Path, optional
        Limits of all tensors by metric id or short form, which win over the profile and over rules; or a limits file of
        ``msdump calibrate``, which wins over the profile.
    fusion : str or Path, optional
        Fusion-mapping JSON: the compiled model of the left side.
    golden, third : str or Path, optional
        A more exact run of the reference, and another run of it.
    **options
        Any other key of a suite file: ``rule``, ``known_drift``, ``quant_fusion``, ``io``, ``nan``, ``select``, …

    Returns
    -------
    Report
        When nothing failed.

    Raises
    ------
    AssertionError
        A tensor drifts, a mapped tensor is missing, nothing could be paired, or too little was.
    ConfigError
        A dump is missing or unknown, or an option cannot be meant.
    """
    __tracebackhide__ = True
    options |= {"map": map, "profile": profile, "min_coverage": min_coverage, "limits": limits}
    options |= {"fusion": fusion, "golden": golden, "third": third}
    planned = plan(_suite_of_dumps("assert_dumps_close", left=left, right=right, **options))
    report = build_report(planned, compare_plan(planned))
    problem = _dumps_problem(report)
    if problem:
        raise AssertionError(f"{lead(report)}\n\n{problem}")
    return report


def assert_replay(
    model: Any,
    left: Any,
    inputs: Any = None,
    *,
    right: Any = None,
    min_replayed: float = LEAST_REPLAYED,
    **options: Any,
) -> Report:
    """Fail where a module of a port is wrong by itself: where the reference makes something else of the left's inputs.

    The reference runs once in float64, and each of its modules goes on with what the left had in its place; see
    ``docs/explanation/replay.md``.

    Parameters
    ----------
    model : torch.nn.Module
        The reference, in the mode that was recorded. It stays as it is.
    left : str, Path or OpenDump
        The run under test.
    inputs : tensor, tuple, dict or callable, optional
        What the model is given: arguments, keywords, or a function of the model that runs what was recorded, with its
        backward pass. By default what a recording with ``inputs=True`` has.
    right : str, Path or OpenDump, optional
        A recording of the reference. By default one is made for the time of the call.
    min_replayed : float
        Least share of the reference's operators that must be judged, of those that can be, 0 to 1.
    **options
        As of `assert_dumps_close`; ``limits`` and ``profile`` are of the comparison from end to end, which is in the
        report and fails nothing here.

    Returns
    -------
    Report
        When no module is wrong by itself; `Record.local` says of each what was found, or why it was not replayed.

    Raises
    ------
    AssertionError
        A module is wrong by itself, a tensor of the left is damaged, or too few modules could be judged.
    ConfigError
        The model cannot be replayed, or a dump or an option cannot be used.
    """
    __tracebackhide__ = True
    # Needs a framework.
    from pytest_msdump.replay.reference_model import record_reference, reference_of, replay_plan, share_of

    reference = reference_of(model, inputs)
    with TemporaryDirectory(prefix="msdump-reference-") as folder:
        if right is None:
            right = Path(folder) / "reference"
            record_reference(reference, index(as_path(_side(left))), right)
        planned = plan(_suite_of_dumps("assert_replay", left=left, right=right, min_replayed=min_replayed, **options))
        local = replay_plan(planned, reference)
        records = {number: one.with_local(local.get(number)) for number, one in compare_plan(planned).items()}
        share = share_of(planned, local)
        report = build_report(planned, records, share)
    if any(one.outcome in ("fail", "error") for one in local.values()) or not share.is_enough:
        raise AssertionError("\n".join(summary_lines(report, width=_WIDTH)))
    return report


def _dumps_problem(report: Report) -> str | None:
    """What is wrong with a whole report, for a person; ``None`` when nothing is."""
    failing = [record for record in report.records if record.fails]
    problems = coverage_problems(report)
    if not failing and not problems:
        return None
    about: dict[str, Any] = {"profile": report.profile, "further": report.further}
    lines = header_lines(report.left, report.right, pairs=len(report.records), **about)
    lines += summary_lines(report, width=_WIDTH)
    for order in sorted({record.order for record in failing})[:_SHOWN_OPERATORS]:
        records = [record for record in report.records if record.order == order]
        lines += ["", failure_text(records, operators=report.left.operators, by_name=report.left.by_name, width=_WIDTH)]
    if problems:
        lines += ["", coverage_text(report, width=_WIDTH)]
    return "\n".join(lines)


def _suite_of_dumps(
    name: str, *, limits: Mapping[str, float] | str | PathLike[str] | None = None, **options: Any
) -> Suite:
    """Return the suite of keys of a suite file; ``None`` is a key not given."""
    thresholds = None
    if isinstance(limits, Mapping):
        thresholds = [f"{metric}={float(bound)!r}" for metric, bound in limits.items()]
    elif limits is not None:
        options["limits"] = fspath(limits)
    paths = {key: _side(options[key]) for key in _PATHS if options.get(key) is not None}
    return load_suite(
        file=None,
        table={key: value for key, value in options.items() if value is not None} | paths,
        options={"threshold": thresholds or None},
        directory=Path.cwd(),
        name=name,
        spelled={"threshold": "limits"},
    )


def _side(given: Any) -> Path | str:
    """A side as a suite file has it; an opened dump stands for its folder."""
    return given if isinstance(given, RemotePath) else fspath(given)


_SHOWN_OVERFLOWS = 10


def assert_no_overflow(dump_or_array: OpenDump | Dump | Tensor) -> None:
    """Fail when a dump, a tensor file or an array holds NaN, Inf, or values at their dtype's maximum.

    So do overflow files (Opdebug) of the device's own check that lie in a dump.

    Parameters
    ----------
    dump_or_array : OpenDump, str or Path of a dump or tensor file, TensorView, array_like
        One side alone; there is nothing to compare with.

    Raises
    ------
    AssertionError
        Names each tensor with its counts and first position, in execution order.
    """
    __tracebackhide__ = True
    dump = _dump_of(dump_or_array)
    reported = [] if dump is None else list(_reported(dump))
    found: list[str] = []
    seen = 0
    for name, side in _scanned(dump.refs) if dump else _of_tensor(dump_or_array):
        seen += 1
        if isinstance(side, str):
            found.append(f"{name}: {side}")
        elif side.nan or side.inf or side.saturated:
            found.append(f"{name}: {say(side.overflow)}")
    if not seen:
        raise AssertionError(f"nothing was checked: {dump_or_array!s:.80} holds no element")
    lines = [*reported, *found]
    if lines:
        more = [f"and {len(lines) - _SHOWN_OVERFLOWS} more"] if len(lines) > _SHOWN_OVERFLOWS else []
        heads = [f"the device's own check has {len(reported)} to report"] if reported else []
        heads += [f"{len(found)} of {seen} tensors overflow or cannot be read"] if found else []
        head = f"{'; '.join(heads)}; first in execution order:"
        raise AssertionError("\n  ".join([head, *lines[:_SHOWN_OVERFLOWS], *more]))


def _dump_of(given: OpenDump | Dump | Tensor) -> Dump | None:
    """The dump that was given, if it is one; a tensor file is a dump, too."""
    if isinstance(given, (str, PathLike)):
        return index(as_path(given))
    dump = given.dump if isinstance(given, OpenDump) else given
    return dump if isinstance(dump, Dump) else None


def _of_tensor(given: Tensor) -> Iterable[tuple[str, Contents | str]]:
    with ExitStack() as stack:
        _, view = open_tensor(given, "tensor", stack)
        return [("tensor", contents(view, ranges=None))] if view.size else []


def _reported(dump: Dump) -> Iterator[str]:
    """What the device's own check says, and its files that cannot be read."""
    files = overflow_files(dump.root)
    for report in reported_overflows(dump, files):
        name = report.refs[0].key.op.label if report.refs else "an operator that was not dumped"
        yield f"{name}: {report.entry.sentence}"
    yield from (f"{file.path.name}: {file.problem}" for file in files if file.problem)


def _scanned(refs: Sequence[TensorRef]) -> Iterable[tuple[str, Contents | str]]:
    """Open, scan and close one tensor after the other."""
    for ref in refs:
        yield ref.key.address, scan_ref(ref)


_SWITCHES: Mapping[bool, str] = {True: "on", False: "off"}


def assert_unsuspicious(
    dump: Dump | OpenDump | str | PathLike[str], settings: Mapping[str, float | str | bool] | None = None
) -> Checked:
    """Fail when a check of one dump alone hits, a tensor of it cannot be read, or there is none.

    Parameters
    ----------
    dump : str, Path, OpenDump or Dump
        The run to look at; the fixtures ``msdump_left`` and ``msdump_right`` will do.
    settings : mapping of str to number, bool or str, optional
        Thresholds by ``"CHECK.PARAMETER"``, and ``"CHECK"`` with true or false, e.g.
        ``{"gradient_vanishing.abs_mean_lt": 1e-7, "tensor_all_zero": False}``.

    Returns
    -------
    Checked
        What was looked at, and what could not be checked.

    Raises
    ------
    AssertionError
        Its text is that of ``msdump inspect --check``.
    ConfigError
        A check or a parameter does not exist, or there is no such dump.

    Examples
    --------
    >>> import numpy, tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> numpy.save(folder / "conv1.0.1700000000000000.npy", numpy.ones(3))
    >>> assert_unsuspicious(folder).tensors
    1
    """
    __tracebackhide__ = True
    chosen = parse_settings(f"{name}={_text(value)}" for name, value in (settings or {}).items())
    if isinstance(dump, OpenDump):
        dump = dump.dump
    checked = check_dump(dump if isinstance(dump, Dump) else index(as_path(dump)), chosen)
    if not checked.is_clean:
        head = f"{summary_line(checked)}; in {terminal_text(str(checked.dump.root))}"
        raise AssertionError("\n".join((head, "", *check_lines(checked))))
    return checked


def _text(value: float | str | bool) -> str:
    return _SWITCHES[value] if isinstance(value, bool) else str(value)
