"""Functions of a user's file, as they are typed: ``FILE:FUNCTION``."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pytest_msdump.core.errors import ConfigError, missing_package, nearest

# What a file of a user may raise, and is said in one line; not what stops the whole program.
FAILURES = (Exception, SystemExit)


def load_function(text: str, *, example: str = "port.py:decode") -> Callable[..., Any]:
    """Run FILE, of a typed ``FILE:FUNCTION``, and return FUNCTION; ConfigError where it is not there, or FILE fails.

    Call it in `running`, where it imports something itself.
    """
    name, separator, wanted = text.rpartition(":")
    file = Path(name)
    if not separator or not name or not wanted.isidentifier():
        raise ConfigError(f"{text!r}: name a file and a function of it, as in {example}")
    if not file.is_file():
        raise ConfigError(f"{file}: there is no such file; name one that has the function {wanted}")
    with running(file, f"{file}:"):
        found = runpy.run_path(str(file), run_name="msdump_program")
    function: Callable[..., Any] | None = found.get(wanted)
    if not callable(function):
        functions = [key for key, value in found.items() if callable(value) and not key.startswith("_")]
        raise ConfigError(f"{file}: has no function {wanted}; {nearest(wanted, functions)}")
    return function


def raised(error: BaseException) -> str:
    """Say in a line what was raised: runtimes put a trace of their own below the first one."""
    first = str(error).strip().partition("\n")[0]
    return f"raised {type(error).__name__}: {first:.300}"


@contextmanager
def running(file: Path, name: str) -> Iterator[None]:
    """Let a file import what lies beside it, as if it were run by itself; what it raises is one line about `name`."""
    folder = str(file.absolute().parent)
    sys.path.insert(0, folder)
    try:
        yield
    except ConfigError:
        raise
    except FAILURES as error:
        missing = missing_package(error, need=str(file))
        raise (missing or ConfigError(f"{name} {raised(error)}; mend it")) from error
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
