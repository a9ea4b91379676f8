"""Fixtures for ordinary tests: the two dumps, their pairs, functions with this test's limits, and what makes dumps."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from pytest_msdump.core.errors import ConfigError, MsdumpError
from pytest_msdump.plugin.hooks import gate_hooks

if TYPE_CHECKING:
    from pytest_msdump.capabilities.frameworks.recorder import Recorder
    from pytest_msdump.capabilities.programs.repeats import Repeats
    from pytest_msdump.capabilities.record.variation import Control, Perturbation
    from pytest_msdump.core.compare.opening import OpenDump
    from pytest_msdump.core.model.report import Report
    from pytest_msdump.core.model.tensor import Pair
    from pytest_msdump.plugin.fixture_values import Functions

__all__ = [
    "msdump",
    "msdump_control",
    "msdump_generation",
    "msdump_left",
    "msdump_pairs",
    "msdump_perturb",
    "msdump_recorder",
    "msdump_reference",
    "msdump_repeats",
    "msdump_replay",
    "msdump_right",
]


def _values() -> ModuleType:
    """Return the module that makes the values; it loads numpy."""
    from pytest_msdump.plugin import fixture_values

    return fixture_values


@pytest.fixture
def msdump(request: pytest.FixtureRequest) -> Functions:
    """Compare with the limits of the marker `msdump`: compare, assert_close, assert_dumps_close, check, open."""
    options: dict[str, Any] = {}
    for marker in reversed(list(request.node.iter_markers("msdump"))):
        if marker.args:
            raise ConfigError(f"marker msdump takes named values only, e.g. cosine=0.999; found {marker.args!r}")
        options |= marker.kwargs
    functions: Functions = _values().Functions(options)
    return functions


@pytest.fixture(scope="session")
def msdump_left(pytestconfig: pytest.Config) -> OpenDump:
    """The dump of the run under test, as the command line or the suite file names it; may be overridden."""
    dump: OpenDump = _values().OpenDump(_plan(pytestconfig).left)
    return dump


@pytest.fixture(scope="session")
def msdump_right(pytestconfig: pytest.Config) -> OpenDump:
    """The dump of the reference, as the command line or the suite file names it; may be overridden."""
    dump: OpenDump = _values().OpenDump(_plan(pytestconfig).right)
    return dump


@pytest.fixture(scope="session")
def msdump_pairs(msdump_left: OpenDump, msdump_right: OpenDump, pytestconfig: pytest.Config) -> tuple[Pair, ...]:
    """The pairs of tensors of both dumps, in execution order; `msdump.assert_close` takes each of them."""
    known = gate_hooks(pytestconfig).gate.known_plan()
    if known is not None and known.left is msdump_left.dump and known.right is msdump_right.dump:
        return known.pairing.pairs
    pairs: tuple[Pair, ...] = _values().pair_dumps(msdump_left.dump, msdump_right.dump).pairs
    return pairs


@pytest.fixture
def msdump_recorder(tmp_path: Path) -> Recorder:
    """Record live models, each into a new folder below the test's `tmp_path` unless `directory` says where."""
    recorder: Recorder = _values().recorder(tmp_path)
    return recorder


@pytest.fixture(scope="session")
def msdump_perturb() -> Callable[..., Perturbation]:
    """Perturb a recorded run as rounding does: msdump_recorder.torch(model, perturb=msdump_perturb(1)), of a seed.

    `u` is the size, by default the rounding unit of each tensor's type; see `record.Perturbation`.
    """
    kind: Callable[..., Perturbation] = _values().variations().Perturbation
    return kind


@pytest.fixture(scope="session")
def msdump_control() -> Callable[[str], Control]:
    """Vary a recorded run of PyTorch harmlessly: msdump_recorder.torch(model, control=msdump_control("threads=1")).

    Others: channels_last, batch_split, onednn=off, sdpa=math; see `record.Control`.
    """
    kind: Callable[[str], Control] = _values().variations().Control
    return kind


@pytest.fixture
def msdump_repeats(tmp_path: Path) -> Callable[..., Repeats]:
    """Fail where runs differ: msdump_repeats(run, n=3) calls run(directory) n times, which records into the directory.

    What fails is the first operator whose output differs although its inputs are equal; see `programs.repeats`.
    """
    repeats: Callable[..., Repeats] = _values().repeater(tmp_path)
    return repeats


@pytest.fixture
def msdump_generation(tmp_path: Path) -> Callable[..., Report]:
    """Fail where two decoders say something else: msdump_generation(left, right, prompts, tokens=32, batched=True).

    Each takes ids and mask, yields logits, and is sent ids; see `generation.decoding`. Or it is a command, of text or
    words, as of `generation.sides`, which may take `timeout` seconds. Options are as of
    `assert_dumps_close`, with forced=False each side goes on with its own tokens.
    """
    generation: Callable[..., Report] = _values().generator(tmp_path)
    return generation


@pytest.fixture
def msdump_replay() -> Callable[..., Report]:
    """Fail where a module of a port is wrong by itself: msdump_replay(model, left, inputs) replays the reference model.

    See `pytest_msdump.assert_replay`.
    """
    replay: Callable[..., Report] = _values().assertions.assert_replay
    return replay


@pytest.fixture(scope="session")
def msdump_reference(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """Make a reference dump once and keep it: msdump_reference(name, build, key=…) returns its folder.

    See `record.reference.keep_reference`. With --msdump-calibrate it makes the limits file of the reference and skips
    the test: build is then also called with perturb=…, and with control=… for each of controls=("threads=1", …).
    """
    keeper: Callable[..., Path] = _values().reference_keeper(pytestconfig, tmp_path_factory)
    return keeper


def _plan(config: pytest.Config) -> Any:
    """Return the session's plan; what is wrong is one line."""
    try:
        return gate_hooks(config).gate.plan_of_session()
    except MsdumpError as error:
        pytest.fail(str(error), pytrace=False)
