"""Checks of one dump alone as an assertion, for ordinary tests."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from pytest_msdump.checking.settings import parse_settings
from pytest_msdump.model.dump import Dump
from pytest_msdump.pipeline.check_text import check_lines
from pytest_msdump.pipeline.checking import Checked, check_dump
from pytest_msdump.pipeline.indexing import index
from pytest_msdump.pipeline.opening import OpenDump, as_path

__all__ = ["assert_unsuspicious"]

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
    >>> from pytest_msdump.testing.builder import write_reference
    >>> folder = Path(tempfile.mkdtemp())
    >>> write_reference(folder, {"conv1": numpy.ones(3), "conv2": numpy.arange(3.0)})
    >>> assert_unsuspicious(folder).tensors
    2
    """
    __tracebackhide__ = True
    chosen = parse_settings(f"{name}={_text(value)}" for name, value in (settings or {}).items())
    if isinstance(dump, OpenDump):
        dump = dump.dump
    checked = check_dump(dump if isinstance(dump, Dump) else index(as_path(dump)), chosen)
    if not checked.is_clean:
        raise AssertionError("\n" + "\n".join(check_lines(checked)))
    return checked


def _text(value: float | str | bool) -> str:
    return _SWITCHES[value] if isinstance(value, bool) else str(value)
