"""The command ``msdump``: the same engine, options and exit codes without pytest."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn

from pytest_msdump.cli.numpy_alone import keep_numpy_alone
from pytest_msdump.comparison.collecting import collector_at_rest
from pytest_msdump.errors import ConfigError, MsdumpError
from pytest_msdump.escape import terminal_lines

__all__ = ["main"]

# pytest's numbers (INTERFACE 3).
_FAILED, _INTERRUPTED, _USAGE = 1, 2, 4
# A shell's number of what was ended by a signal, less the signal's.
_BY_SIGNAL = 128

# Columns of what is no terminal.
_USUAL_WIDTH = 80

# Each is a module of this package, in the order of ``msdump --help``.
_COMMANDS = (
    "compare",
    "match",
    "inspect",
    "check",
    "convert",
    "overflow",
    "config",
    "prototxt",
    "rename",
    "report",
    "tfdbg",
)


class _Formatter(argparse.HelpFormatter):
    """argparse makes one for every option; by itself each would load `shutil` to ask how wide the terminal is."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=_columns() - 2)


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are one line and exit code 4."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"formatter_class": _Formatter, **kwargs})

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


class _Version(argparse.Action):
    """What this installation is: looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        from pytest_msdump.compiled import kernel_line

        print(f"{parser.prog} {version('pytest-msdump')} ({kernel_line()})")  # noqa: T201 - the answer
        parser.exit()


def _columns() -> int:
    """As `shutil.get_terminal_size` has it."""
    with suppress(ValueError):
        said = int(os.environ.get("COLUMNS", "0"))
        if said > 0:
            return said
    with suppress(AttributeError, ValueError, OSError):
        return os.get_terminal_size(sys.__stdout__.fileno()).columns or _USUAL_WIDTH  # type: ignore[union-attr]
    return _USUAL_WIDTH


def main(argv: Sequence[str] | None = None, *, commands: Sequence[ModuleType] | None = None) -> int:
    """Run the command.

    Parameters
    ----------
    argv : sequence of str, optional
        Arguments without the program's name; those of the process by default.
    commands : sequence of module
        The subcommands that there are; by default all of this package.

    Returns
    -------
    int
        0 all within limits; 1 something drifted, is missing, or nothing could be paired; 4 a usage or configuration
        error, told in one line on standard error.
    """
    try:
        words = sys.argv[1:] if argv is None else argv
        with collector_at_rest():
            parsed = _parser(_modules(words) if commands is None else commands).parse_args(words)
            parsed.is_last = argv is None
            if parsed.is_last:
                keep_numpy_alone()
                _tidy_up_when_terminated()
        code = int(parsed.run(parsed))
        sys.stdout.flush()
        return code
    except ConfigError as error:
        print(terminal_lines(f"msdump: {error}"), file=sys.stderr)  # noqa: T201 - a command's one line of error
        return _USAGE
    except MsdumpError as error:
        print(terminal_lines(f"msdump: {error}"), file=sys.stderr)  # noqa: T201 - as above
        return _FAILED
    except BrokenPipeError:
        # Whoever read the output has seen enough (`| head`); the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except OSError as error:
        # A path that was typed and that no file can have, or a disk that fails where nothing can be said of it.
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)!r:.300}: "
        print(f"msdump: {where}{error.strerror or error}", file=sys.stderr)  # noqa: T201 - as above
        return _USAGE
    except KeyboardInterrupt:
        print("msdump: interrupted", file=sys.stderr)  # noqa: T201 - as above
        return _INTERRUPTED
    finally:
        if argv is None:
            # The process ends now, and would search all that it has for circles, several times: a fifth of its time
            # where two files are compared.
            gc.freeze()


def _tidy_up_when_terminated() -> None:
    """Let SIGTERM end the process as an exception does: temporary files go, and copies of the process end.

    Whoever started the process may have it ignored. A second one ends the process at once.
    """
    # What `signal` is made of: to import that takes longer than to compare two small files.
    import _signal as signal  # type: ignore[import-not-found]

    def leave(number: int, _: object) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(_BY_SIGNAL + number)

    with suppress(ValueError):  # not the main thread
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, leave)


def _modules(words: Sequence[str]) -> list[ModuleType]:
    """Load the subcommand that is called for; all of them where it takes all to say what there is."""
    if words and words[0] == "--version":
        return []
    wanted = words[:1] if words and words[0] in _COMMANDS else _COMMANDS
    return [import_module(f"pytest_msdump.cli.{name}") for name in wanted]


def _parser(modules: Sequence[ModuleType]) -> argparse.ArgumentParser:
    """The whole command line. Subcommands take the place of a table: each module has NAME, HELP, arguments and run."""
    parser = _Parser(
        prog="msdump",
        description="Compare operator dumps of a model's port with its reference. Exit code 0: within limits; "
        "1: something drifted or nothing was compared; 4: usage error.",
        epilog="'msdump COMMAND --help' tells the options of a command.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and the kernel, and leave")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for module in modules:
        command = commands.add_parser(module.NAME, help=module.HELP, description=module.DESCRIPTION)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    return parser
