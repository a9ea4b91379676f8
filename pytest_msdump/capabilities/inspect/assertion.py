"""Assert that no check of one dump alone hits."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike

from pytest_msdump.capabilities.inspect.checks import Checked, check_dump, parse_settings
from pytest_msdump.capabilities.inspect.command_text import check_lines, summary_line
from pytest_msdump.core.compare.opening import OpenDump, as_path, index
from pytest_msdump.core.escape import terminal_text
from pytest_msdump.core.model.dump import Dump


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
    chosen = parse_settings(
        f"{name}={['off', 'on'][value] if isinstance(value, bool) else value}"
        for name, value in (settings or {}).items()
    )
    if isinstance(dump, OpenDump):
        dump = dump.dump
    checked = check_dump(dump if isinstance(dump, Dump) else index(as_path(dump)), chosen)
    if not checked.is_clean:
        head = f"{summary_line(checked)}; in {terminal_text(str(checked.dump.root))}"
        raise AssertionError("\n".join((head, "", *check_lines(checked))))
    return checked
