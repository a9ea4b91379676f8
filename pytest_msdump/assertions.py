"""Assert on two tensors or on two dumps: the same engine and text as the gate's."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from numbers import Real
from os import PathLike, fspath
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from pytest_msdump.core.compare.comparing import compare_pair, compare_views
from pytest_msdump.core.compare.opening import Tensor, as_path, index, open_tensor
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.profiles import LEAST_REPLAYED
from pytest_msdump.core.gate import problem_of
from pytest_msdump.core.lazy_names import lazy_names
from pytest_msdump.core.limits.policy import Policy, Rule
from pytest_msdump.core.model.tensor import Pair, Transform
from pytest_msdump.core.ports import offered
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.failure import failure_text, one_line
from pytest_msdump.core.report.summary import lead, summary_lines
from pytest_msdump.core.settings.options import OPTIONS
from pytest_msdump.core.storage.locations import RemotePath
from pytest_msdump.core.suite import Suite, load_suite

if TYPE_CHECKING:
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report
    from pytest_msdump.core.suite.keys import MapObject

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
    allclose: tuple[float, float] | None = None,
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
    allclose : tuple of float, optional
        ``(rtol, atol)``: no element may differ by more than ``atol + rtol * |right|``; beside the profile's limits.
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
    rules = () if allclose is None else (_tolerance_rule(allclose),)
    policy = Policy(profile=profile, nan=nan, nan_rule=f'nan="{nan}"', marker=plain, rules=rules)
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


def _tolerance_rule(allclose: Any) -> Rule:
    are_two = isinstance(allclose, (tuple, list)) and len(allclose) == 2
    if not are_two or not all(isinstance(one, Real) and not isinstance(one, bool) for one in allclose):
        raise ConfigError(f"allclose: {allclose!r} is no tolerance; give (rtol, atol), e.g. (1e-3, 1e-5)")
    rtol, atol = map(float, allclose)
    return Rule({"allclose": (0.0, None)}, rtol=rtol, atol=atol, label=f"allclose=({rtol:g}, {atol:g})")


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
    problem = problem_of(report, width=_WIDTH)
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
    replay = offered("reference")
    reference = replay.reference_of(model, inputs)
    with TemporaryDirectory(prefix="msdump-reference-") as folder:
        if right is None:
            right = Path(folder) / "reference"
            replay.record_reference(reference, index(as_path(_side(left))), right)
        planned = plan(_suite_of_dumps("assert_replay", left=left, right=right, min_replayed=min_replayed, **options))
        local, share = replay.replayed(planned, reference)
        records = {number: one.with_local(local.get(number)) for number, one in compare_plan(planned).items()}
        report = build_report(planned, records, share)
    if any(one.outcome in ("fail", "error") for one in local.values()) or not share.is_enough:
        raise AssertionError("\n".join(summary_lines(report, width=_WIDTH)))
    return report


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


# Assertions of capabilities, under the names that they have always had here.
__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "assert_no_overflow": "pytest_msdump.capabilities.overflow.device",
        "assert_unsuspicious": "pytest_msdump.capabilities.inspect.assertion",
    },
)
