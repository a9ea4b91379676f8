"""Hooks of this plugin, for ``conftest.py``: choose partners, set limits, add notes. Each is called by pytest alone.

Implementations are collected once per plan; none is called through pluggy for each pair. What they add is named in
records and reports. They clear no verdict by themselves: a limit they set is a permission, which the summary names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_msdump.core.errors import ConfigError, MsdumpError

if TYPE_CHECKING:
    import pytest

    from pytest_msdump.core.compare.additions import Hooks
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report
    from pytest_msdump.core.model.tensor import Pair


def pytest_msdump_pair(left: Dump, right: Dump) -> object:
    """Choose partners that no file and no name gives; called once per plan.

    Parameters
    ----------
    left, right : Dump
        Both sides; `refs` are their tensors, each with a `key` that has `op.label`, `io` and `slot`.

    Returns
    -------
    mapping of str to str, or list of dict
        Left address → right address; or tables as ``[[msdump.map]]`` has them, with `reshape`, `transpose` and so on.
        They are entries of the map: they win over names, and a second entry for a left tensor is exit code 4.

    Examples
    --------
    >>> def pytest_msdump_pair(left, right):
    ...     ours, theirs = ({ref.key.op.label for ref in dump.refs} for dump in (left, right))
    ...     return {name: f"model.{name}" for name in sorted(ours) if f"model.{name}" in theirs}
    """


def pytest_msdump_limits(pair: Pair) -> Mapping[str, float] | None:
    """Set limits of one pair; called once for each at planning. The first implementation that returns some wins.

    Parameters
    ----------
    pair : Pair
        Two tensors of which names, types and shapes are known; nothing is measured yet.

    Returns
    -------
    mapping of str to float, optional
        Metric → limit, as ``[[msdump.rule]]`` has them. Rules of the suite, the command line and markers win over it;
        it wins over a limits file and the profile.

    Examples
    --------
    >>> def pytest_msdump_limits(pair):
    ...     return {"cosine": 0.99} if pair.left.key.op.op_type == "Softmax" else None
    """


def pytest_msdump_record(pair: Pair, record: Record) -> str | Record | None:
    """Add a note to a record, or worsen its verdict; called for each when its test item has compared it.

    Parameters
    ----------
    pair : Pair
        What was compared.
    record : Record
        Its `verdict`, `metrics` and findings.

    Returns
    -------
    str, Record, optional
        A sentence becomes a note among the findings. A record may have further findings, notes and parts and a worse
        outcome; one that is better is refused, and the test fails.

    Examples
    --------
    >>> def pytest_msdump_record(pair, record):
    ...     return "owner: team attention" if "attn" in pair.left.key.op.label else None
    """


def pytest_msdump_report(report: Report) -> list[str] | None:
    """Add sentences to the report; called once for each suite, in the process that writes it.

    Parameters
    ----------
    report : Report
        The whole result: its `records`, `unmatched` tensors and `coverage`.

    Returns
    -------
    list of str, optional
        They stand among the report's notes.

    Examples
    --------
    >>> def pytest_msdump_report(report):
    ...     return [f"{sum(record.fails for record in report.records)} tensors to look at"]
    """


# By stage: the hook, and the arguments of a stage.
_HOOKS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "entries": ("pytest_msdump_pair", ("left", "right")),
    "limits": ("pytest_msdump_limits", ("pair",)),
    "record": ("pytest_msdump_record", ("pair", "record")),
    "report": ("pytest_msdump_report", ("report",)),
}


def hooks_of(config: pytest.Config) -> Hooks:
    """Return the implementations of a session's hooks, by stage; empty where there are none."""
    found: dict[str, list[tuple[str, Callable[..., Any]]]] = {}
    for stage, (hook, arguments) in _HOOKS.items():
        # The last one registered comes first, as pluggy calls them.
        for implementation in reversed(getattr(config.hook, hook).get_hookimpls()):
            file = Path(implementation.function.__code__.co_filename)
            place = file.relative_to(config.rootpath).as_posix() if file.is_relative_to(config.rootpath) else file.name
            name = f"{hook} in {place}"
            call = _with(arguments, implementation.argnames, implementation.function, name)
            found.setdefault(stage, []).append((name, call))
    return found


def _with(
    arguments: tuple[str, ...], wanted: tuple[str, ...], function: Callable[..., Any], name: str
) -> Callable[..., Any]:
    """Return a function of all arguments of a hook that hands on those that its implementation takes."""
    places = [arguments.index(argument) for argument in wanted]

    def call(*values: Any) -> Any:
        try:
            return function(*(values[place] for place in places))
        except MsdumpError:
            raise
        except Exception as error:
            raise ConfigError(f"{name} raised {type(error).__name__}: {error}") from error

    return call
