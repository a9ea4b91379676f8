"""The command ``msdump``: the same engine, options and exit codes without pytest."""

from __future__ import annotations

import argparse
import gc
import os
import re
import shutil
import signal
import sys
import textwrap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, NoReturn

from pytest_msdump.core.errors import ConfigError, MsdumpError, missing_package, nearest
from pytest_msdump.core.escape import terminal_lines
from pytest_msdump.core.metrics.kernel import kernel_line
from pytest_msdump.core.ports import load, rows

__all__ = ["COMMANDS", "EXIT_CODES", "exit_code", "main"]

# pytest's numbers (INTERFACE 3).
_FAILED, _INTERRUPTED, _USAGE, _UNJUDGED = 1, 2, 4, 125
# A shell's exit code of a process ended by a signal is this plus the signal's number.
_BY_SIGNAL = 128
EXIT_CODES: Mapping[int, str] = {
    0: "everything compared is within its limits, and enough was compared",
    _FAILED: "drifted, undefined, missing or unreadable, or too little was compared",
    _INTERRUPTED: "interrupted",
    _USAGE: "the call cannot be meant: unknown name, missing folder, bad suite file",
    _UNJUDGED: "msdump upgrade: could not be judged; git bisect run skips it",
    _BY_SIGNAL + signal.SIGTERM: "ended by SIGTERM; no report was written",
}
_BETWEEN_COLLECTIONS = 100_000

# Nothing here multiplies matrices: idle threads of numpy's library cost a third of its import. Any of these in the
# environment has the last word.
_NUMPY_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_DEFAULT_NUM_THREADS")


# How options begin in pytest.
_OF_PYTEST = re.compile(r"^--msdump-(?=[a-z])")

COMMANDS = rows("COMMANDS")
_NAME = "msdump"
# Loaded for --json alone.
_DOCUMENTS = "pytest_msdump.cli.documents"


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are one line and exit code 4."""

    def error(self, message: str) -> NoReturn:
        raise ConfigError(f"{message}; see {self.prog} --help")


class _Version(argparse.Action):
    """Looked up only when it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import version

        print(f"{parser.prog} {version('pytest-msdump')} ({kernel_line()})")
        parser.exit()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command with these words, by default those of the process; return its exit code, as of `EXIT_CODES`."""
    try:
        if argv is None:
            _end_cleanly_when_terminated()
            # Nearly all that is made stays: searches for circles are a quarter of the time of 40,000 operators.
            gc.set_threshold(_BETWEEN_COLLECTIONS)
            if not any(name in os.environ for name in _NUMPY_THREADS):
                os.environ[_NUMPY_THREADS[0]] = "1"
        return exit_code(_NAME, _run, sys.argv[1:] if argv is None else argv)
    finally:
        if argv is None:
            # The process ends: to search all objects for circles once more takes a tenth of a short run.
            gc.freeze()


def _run(words: Sequence[str]) -> int:
    # What is advised for pytest may be typed here as well; what stands behind -- is another program's.
    end = words.index("--") if "--" in words else len(words)
    words = [*(_OF_PYTEST.sub("--", word) for word in words[:end]), *words[end:]]
    parser = _parser(words)
    if not words:
        parser.print_help()
        return 0
    if not words[0].startswith("-") and words[0] not in COMMANDS:
        raise ConfigError(f"unknown command {words[0]!r}; {nearest(words[0], COMMANDS)}")
    parsed = parser.parse_args(words)
    return int(load(f"{_DOCUMENTS}:run_command")(parsed) if parsed.json else parsed.run(parsed))


def exit_code(program: str, run: Callable[[Sequence[str]], int], words: Sequence[str]) -> int:
    """Run a command line and return its exit code; an error is one line on standard error, a document with --json."""

    def stopped(code: int, slug: str, text: str) -> int:
        print(terminal_lines(f"{program}: {text}"), file=sys.stderr)
        if program == _NAME and "--json" in words[: words.index("--") if "--" in words else None]:
            load(f"{_DOCUMENTS}:print_error")(words, code, slug, text)
        return code

    try:
        code = run(words)
        sys.stdout.flush()
        return code
    except MsdumpError as error:
        return stopped(_USAGE if isinstance(error, ConfigError) else _FAILED, error.slug, str(error))
    except ModuleNotFoundError as error:
        # Frameworks are imported where they are used, by this package as by a file of the user's.
        missing = missing_package(error, need=program)
        if missing is None:
            raise
        return stopped(_USAGE, missing.slug, str(missing))
    except BrokenPipeError:
        # The reader of the output has closed it (`| head`); the interpreter must not try to flush the rest.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _FAILED
    except OSError as error:
        # A path that was typed and that no file can have, or a disk that fails where nothing better can be said.
        where = "" if error.filename is None else f"{os.fsdecode(error.filename)!r:.300}: "
        return stopped(_USAGE, "system", f"{where}{error.strerror or error}")
    except KeyboardInterrupt:
        return stopped(_INTERRUPTED, "interrupted", "interrupted")


def _end_cleanly_when_terminated() -> None:
    """Let SIGTERM end the process as an exception does: temporary files are removed, and worker processes end.

    A parent may have SIGTERM ignored; then it stays so. A second SIGTERM ends the process at once.
    """

    def leave(number: int, _: object) -> NoReturn:
        signal.signal(number, signal.SIG_DFL)
        raise SystemExit(_BY_SIGNAL + number)

    with suppress(ValueError):  # not the main thread
        if signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
            signal.signal(signal.SIGTERM, leave)


def _parser(words: Sequence[str]) -> argparse.ArgumentParser:
    """Return the parser of these words: every command by name and help, and the one that is called with its options."""
    parser = _Parser(
        prog=_NAME,
        description="Compare operator dumps of a model's port with its reference.",
        epilog="\n".join(
            [
                "'msdump COMMAND --help' lists the options of a command.",
                "",
                "exit codes:",
                *(f"  {code:<4} {text}" for code, text in EXIT_CODES.items()),
            ]
        ),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    # argparse makes the column of commands as wide as the flags need: two of these leave room for nine letters.
    parser.add_argument("-V", "--version", action=_Version, nargs=0, help="print the version and the kernel, then exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    called = next((word for word in words if word in COMMANDS), None)
    for name, (place, summary, *_) in COMMANDS.items():
        options: dict[str, Any] = {}
        if name == called:
            # Of DESCRIPTION, EXAMPLES, add_arguments and run.
            module = import_module(place)
            width = shutil.get_terminal_size().columns - 2
            options["description"] = textwrap.fill(module.DESCRIPTION, width)
            options["epilog"] = "\n".join(["examples:", *(f"  {line}" for line in module.EXAMPLES)])
            options["formatter_class"] = argparse.RawDescriptionHelpFormatter
        command = commands.add_parser(name, help=summary, **options)
        if name == called:
            module.add_arguments(command)
            import_module("pytest_msdump.cli.output").add_common(command)
            command.set_defaults(run=module.run)
    return parser
