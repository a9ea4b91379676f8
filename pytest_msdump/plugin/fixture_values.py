"""What the fixtures give to tests."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from pytest_msdump import assertions
from pytest_msdump.core.compare.opening import OpenDump, index, open_dump
from pytest_msdump.core.errors import MsdumpError
from pytest_msdump.core.escape import shell_line, terminal_text
from pytest_msdump.core.matching.pairer import pair_dumps
from pytest_msdump.core.model.describe import counted
from pytest_msdump.core.ports import offered
from pytest_msdump.core.storage.files import read_regular
from pytest_msdump.plugin.sources import absolute

if TYPE_CHECKING:
    from types import ModuleType

    from pytest_msdump.capabilities.frameworks.recorder import Recorder
    from pytest_msdump.capabilities.programs.repeats import Repeats
    from pytest_msdump.core.model.dump import Dump
    from pytest_msdump.core.model.record import Record
    from pytest_msdump.core.model.report import Report

__all__ = [
    "Functions",
    "OpenDump",
    "generator",
    "made_lines",
    "pair_dumps",
    "recorder",
    "reference_keeper",
    "repeater",
    "variations",
]

_LONGEST_PATH_BYTES = 2**16


class Functions:
    """The package's functions, judging by what the marker ``msdump(profile=…, cosine=…)`` of this test says."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._options = options

    def compare(self, left: Any, right: Any = None, **options: Any) -> Record:
        """As `pytest_msdump.compare`, with the marker's profile and limits unless given here."""
        return assertions.compare(left, right, **{**self._options, **options})

    def assert_close(self, left: Any, right: Any = None, **options: Any) -> None:
        """As `pytest_msdump.assert_close`, with the marker's profile and limits unless given here."""
        __tracebackhide__ = True
        assertions.assert_close(left, right, **{**self._options, **options})

    def assert_dumps_close(self, left: Any, right: Any, **options: Any) -> Report:
        """As `pytest_msdump.assert_dumps_close`, with the marker's profile and limits unless given here."""
        __tracebackhide__ = True
        plain = {key: value for key, value in self._options.items() if key in ("profile", "nan")}
        limits = {key: value for key, value in self._options.items() if key not in plain}
        return assertions.assert_dumps_close(left, right, **{**plain, "limits": limits, **options})

    def check(self, dump: Any, settings: Mapping[str, float | str] | None = None) -> Any:
        """Fail when a check of one dump alone hits: NaN, zeros, weights that stand still; see `assert_unsuspicious`."""
        __tracebackhide__ = True
        return offered("check").assert_unsuspicious(dump, settings)

    def open(self, path: Any, **options: Any) -> OpenDump:
        """As `pytest_msdump.open_dump`."""
        return open_dump(path, **options)


def recorder(folder: Path) -> Recorder:
    """Return a recorder of live models, each into a new folder below a test's own."""
    module = offered("recorder")
    made: Recorder = module.Recorder(folder / "recorded", opened=module.opened)
    return made


def variations() -> ModuleType:
    """Return the module that has `Control` and `Perturbation`."""
    module: ModuleType = offered("variations")
    return module


def repeater(folder: Path) -> Callable[..., Repeats]:
    """Return the value of the fixture ``msdump_repeats``."""

    def repeats(run: Callable[[Path], object], n: int = 3) -> Repeats:
        __tracebackhide__ = True

        def made(directory: Path) -> Dump:
            run(directory)
            return index(directory)

        repeating = offered("repeats")
        result: Repeats = repeating.repeat(made, n, folder / "repeats")
        if not result.is_equal:
            raise AssertionError("\n".join(repeating.repeat_lines(result)))
        return result

    return repeats


def generator(folder: Path) -> Callable[..., Report]:
    """Return the value of the fixture ``msdump_generation``."""
    numbers = count(1)

    def generation(
        left: Any,
        right: Any,
        prompts: Any,
        *,
        tokens: int = 32,
        forced: bool = True,
        batched: bool = False,
        timeout: float = 600.0,
        perturbed: Sequence[Any] = (),
        controls: Sequence[Any] = (),
        profile: str | None = None,
        **options: Any,
    ) -> Report:
        __tracebackhide__ = True
        made, directory = offered("generation"), folder / f"generation_{next(numbers)}"

        def side(given: Any, name: str) -> Any:
            return made.side_of(given, name, timeout=timeout)

        runs = [[side(one, name) for one in found] for name, found in (("perturbed", perturbed), ("control", controls))]
        how = made.Generations(tokens, forced, batched, *runs)
        sides = side(left, "left"), side(right, "right")
        made.write_both(directory, sides, made.checked_prompts(prompts, "prompts"), how)
        options |= made.judged_by(profile)
        if perturbed:
            options["limits"] = made.derived_limits(directory, how)
        return assertions.assert_dumps_close(directory / "left", directory / "right", **options)

    return generation


def reference_keeper(config: pytest.Config, folders: pytest.TempPathFactory) -> Callable[..., Path]:
    """Return the value of the fixture ``msdump_reference``."""
    mark = _mark_folder(config, folders, "generated")

    def reference(
        name: str,
        build: Callable[[Path], object],
        *,
        key: Any = None,
        directory: str | PathLike[str] | None = None,
        save: str | None = None,
        full: Sequence[str] = (),
        buckets: int | None = None,
        controls: Sequence[str] = (),
    ) -> Path:
        __tracebackhide__ = True
        references = offered("references")
        is_calibrating = config.getoption("msdump_calibrate")
        if is_calibrating:
            with _failing_plainly():
                references.check_variations(name, build, controls)
        kept: Path = references.keep_reference(
            name,
            build,
            directory=_directory(config) if directory is None else directory,
            key=key,
            generate=config.getoption("msdump_generate") or is_calibrating,
            mark=mark,
            root=config.rootpath,
            save=save or config.getoption("msdump_reference_save") or config.getini("msdump_reference_save") or "full",
            full=full,
            **({} if buckets is None else {"buckets": buckets}),
        )
        if is_calibrating:
            typed = config.getoption("msdump_limits")
            path = absolute(config, typed) if typed else kept.with_name(f"{kept.name}.limits.json")
            calibrated = _mark_folder(config, folders, "calibrated") / references.key_digest(str(path), str(kept))
            if not calibrated.exists():
                if str(path) in _made(config, "calibrated"):
                    pytest.fail(
                        f"--msdump-limits names one file, and '{name}' is not the first reference of this run; leave "
                        "it out: each gets a limits file of its own beside it",
                        pytrace=False,
                    )
                with TemporaryDirectory(dir=folders.getbasetemp()) as folder, _failing_plainly():
                    runs = references.record_variations(name, build, kept, Path(folder), controls=controls)
                    calibration = offered("calibration")
                    limits = calibration.calibrate(
                        runs.reference, [runs.perturbed], controls=runs.controls, coarse=[runs.coarse]
                    )
                    calibration.write_limits(path, limits)
                calibrated.parent.mkdir(parents=True, exist_ok=True)
                calibrated.write_bytes(os.fsencode(path))
            pytest.skip(f"--msdump-calibrate wrote {os.path.relpath(path)}")
        return kept

    return reference


@contextmanager
def _failing_plainly() -> Iterator[None]:
    """Have an error of ours fail the test with its text alone."""
    try:
        yield
    except MsdumpError as error:
        raise pytest.fail.Exception(str(error), pytrace=False) from None


def _mark_folder(config: pytest.Config, folders: pytest.TempPathFactory, what: str) -> Path:
    """Return the session's folder with a file for each thing that was made, which holds its path."""
    base = folders.getbasetemp()
    # Workers of pytest-xdist have folders of their own below the session's.
    return (base.parent if hasattr(config, "workerinput") else base) / f"msdump-{what}"


def made_lines(config: pytest.Config) -> Iterator[str]:
    """Yield what ``--msdump-generate`` and ``--msdump-calibrate`` made, and how it is used."""
    if config.getoption("msdump_calibrate"):
        made = [os.path.relpath(path) for path in _made(config, "calibrated")]
        if not made:
            yield "--msdump-calibrate wrote nothing: no test that ran uses msdump_reference, or all of them failed"
        else:
            yield f"--msdump-calibrate wrote {counted(len(made), 'limits file')}:"
            yield from (f"  {terminal_text(path)}" for path in made)
            option = shell_line([f"--msdump-limits={made[0]}"])
            yield f"next: limits = {json.dumps(made[0], ensure_ascii=False)} in the suite file, or {option}"
    if config.getoption("msdump_generate"):
        yield from _generated_lines(config)


def _made(config: pytest.Config, what: str) -> list[str]:
    folders: pytest.TempPathFactory | None = getattr(config, "_tmp_path_factory", None)
    marks = [] if folders is None else _mark_folder(config, folders, what).glob("*")
    return sorted(os.fsdecode(read_regular(mark, _LONGEST_PATH_BYTES)) for mark in marks)


def _generated_lines(config: pytest.Config) -> Iterator[str]:
    made = _made(config, "generated")
    if not made:
        yield "--msdump-generate made nothing: no test that ran uses msdump_reference"
        return
    yield f"--msdump-generate made {counted(len(made), 'reference')}:"
    yield from (f"  {terminal_text(os.path.relpath(folder))}" for folder in made)
    words = [word for word in config.invocation_params.args if word != "--msdump-generate"]
    yield f"next: {shell_line(['pytest', *words])}"


def _directory(config: pytest.Config) -> Path:
    """Return where references are kept, when a test does not say."""
    typed = config.getoption("msdump_reference_dir")
    if typed:
        return absolute(config, typed)
    return config.rootpath / (config.getini("msdump_reference_dir") or "msdump-references")
