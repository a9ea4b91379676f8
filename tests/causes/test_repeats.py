"""Runs of one program are compared by digests: where a difference begins, in which runs, what is random by design."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump.capabilities.programs.repeats import Repeats, repeat, repeat_lines
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.facts.operators import RANDOM_TYPES
from pytest_msdump.core.model.dump import Dump, Edge, Operator
from pytest_msdump.core.text import say
from pytest_msdump.record import DumpWriter, RawArray

Run = Callable[[int, Path], object]


def whys(found: Repeats) -> list[str]:
    return [line.strip() for line in repeat_lines(found) if line.startswith(" ")]


@pytest.fixture
def repeats(tmp_path: Path) -> Callable[..., Repeats]:
    """Repeat a function that gets the number of the run, from 1, and the folder to record into."""

    def repeats(run: Run, n: int = 3) -> Repeats:
        numbers = iter(range(1, n + 1))

        def made(directory: Path) -> Dump:
            run(next(numbers), directory)
            return index(directory)

        return repeat(made, n, tmp_path / "runs")

    return repeats


def chain(directory: Path, steps: dict[str, Any], *, graph: bool = True, **about: Any) -> None:
    """Record operators each of which feeds the next; a value may be a pair of a type and an array."""
    with DumpWriter(directory, framework="numpy") as writer:
        writer.describe(**about)
        before: tuple[Edge, ...] = ()
        for number, (name, made) in enumerate(steps.items()):
            op_type, array = made if isinstance(made, tuple) else ("Add", made)
            writer.write(name, np.asarray(array, "float32"), op_type=op_type, line=f"net.py:{number + 1}")
            if graph:
                writer.add_call(Operator(name, op_type, inputs=before))
            before = (Edge(name, 0),)


def test_a_race_of_threads_is_named_at_its_operator(repeats) -> None:
    def summed_in_order(values: list[float], order: list[int]) -> np.ndarray:
        """Add numbers by a thread each; which comes first is the race, decided here by `order`."""
        total, turns = np.zeros(1, "float32"), [threading.Event() for _ in (*order, None)]

        def add(thread: int) -> None:
            place = order.index(thread)
            turns[place].wait(60)
            total[0] += np.float32(values[thread])
            turns[place + 1].set()

        threads = [threading.Thread(target=add, args=(number,)) for number in range(len(values))]
        for thread in threads:
            thread.start()
        turns[0].set()
        for thread in threads:
            thread.join()
        return total

    def run(number: int, directory: Path) -> None:
        # In float32, 1e8 + 1 is 1e8: the sum is 0 or 1, by the order of the threads.
        total = summed_in_order([1e8, 1.0, -1e8], [0, 1, 2] if number == 1 else [0, 2, 1])
        chain(directory, {"scale": [1e8, 1, -1e8], "sum": ("ReduceSum", total), "relu": total, "head": total + 1})

    found = repeats(run)
    [first] = found.differences
    assert (first.tensor.address, first.tensor.op_type, first.tensor.source.place, first.runs) == (
        "sum:output:0",
        "ReduceSum",
        "net.py:2",
        (2, 3),
    )
    assert whys(found)[0] == "all of its inputs that were compared are equal"
    assert (found.runs, found.tensors, found.differing, found.is_equal) == (3, 4, 3, False)
    assert list(repeat_lines(found)) == [
        "3 runs, 4 tensors each: 3 differ between runs",
        "first: sum:output:0 (ReduceSum) differs from run 1 in runs 2, 3, made at net.py:2",
        "       all of its inputs that were compared are equal",
    ]


def test_equal_runs_are_equal_and_leave_nothing(repeats, tmp_path: Path) -> None:
    found = repeats(lambda _, directory: chain(directory, {"a": [1, 2], "b": [np.nan, 2]}), n=20)
    assert found.is_equal
    assert list(repeat_lines(found)) == ["20 runs, 2 tensors each: all equal"]
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.parametrize(
    "other",
    [
        np.array([-0.0, 1], "float32"),
        np.array([[0, 1]], "float32"),
        np.array([0, 1], "float64"),
        np.array([np.nextafter(np.float32(0), np.float32(1)), 1], "float32"),
        RawArray(np.array([0, 1], "uint16"), (2,), "bfloat16"),
    ],
    ids=["sign of zero", "shape", "type", "last bit", "low precision"],
)
def test_any_bit_the_shape_and_the_type_count(repeats, other: Any) -> None:
    same = RawArray(np.array([0, 0], "uint16"), (2,), "bfloat16") if isinstance(other, RawArray) else None

    def run(number: int, directory: Path) -> None:
        with DumpWriter(directory) as writer:
            plain = np.array([0, 1], "float32") if same is None else same
            writer.write("a", other if number == 2 else plain)

    found = repeats(run)
    assert [(one.tensor.address, one.runs) for one in found.differences] == [("a:output:0", (2,))]


def test_recorded_inputs_clear_what_feeds_an_operator(repeats) -> None:
    def run(number: int, directory: Path) -> None:
        with DumpWriter(directory) as writer:
            for name, given, made in (("a", 0, 0), ("b", 0, number), ("c", number, number), ("d", 0, number)):
                writer.write(name, np.float32([given]), io="input")
                writer.write(name, np.float32([made]))

    found = repeats(run)
    assert [one.tensor.address for one in found.differences] == ["b:output:0", "d:output:0"]
    assert whys(found)[0] == "all of its inputs that were compared are equal"


def test_without_graph_and_inputs_it_is_the_first_in_the_order_and_that_is_said(repeats) -> None:
    def run(number: int, directory: Path) -> None:
        write_reference(directory, {"a": [1.0], "b": [float(number)], "c": [float(number)]})

    found = repeats(run)
    assert [one.tensor.address for one in found.differences] == ["b:output:0"]
    assert whys(found)[0] == "the first to differ in execution order; nothing shows what feeds it"


@pytest.mark.parametrize(
    ("seeds", "is_apart", "why"),
    [
        ([{}, {}, {}], True, "random by design: seed it (no seed was recorded)"),
        (
            [{"torch": 1}, {"torch": 1}, {"torch": 2}],
            True,
            "random by design: seed it (seeds differ from run 1 in run 3)",
        ),
        ([{"torch": 1}] * 3, False, "random by design: its seeds are equal; is each run seeded before it?"),
    ],
    ids=["none", "others", "equal"],
)
def test_what_is_random_by_design_stands_apart(repeats, seeds, is_apart, why) -> None:
    def run(number: int, directory: Path) -> None:
        with DumpWriter(directory) as writer:
            writer.describe(seeds=seeds[number - 1])
            for name, op_type in (("drop", "Dropout"), ("sum", "Sum")):
                writer.write(name, np.float32([number]), op_type=op_type)
                writer.add_call(Operator(name, op_type))

    found = repeats(run)
    by_name = {one.tensor.address: one for one in found.differences}
    assert next(iter(by_name)) == ("sum:output:0" if is_apart else "drop:output:0")
    assert by_name["drop:output:0"].is_random == is_apart
    assert why in whys(found)
    assert not by_name["sum:output:0"].is_random
    lines = [line.partition(":")[0] for line in repeat_lines(found) if not line.startswith(" ")]
    assert lines[1:] == (["first", "apart"] if is_apart else ["first", "also"])


@pytest.mark.parametrize(
    ("is_random", "names"),
    [
        (True, "Dropout Dropout2d AlphaDropout DropPath StochasticDepth dropout_ native_dropout GaussianNoise rrelu"),
        (True, "rand rand_like randn randint randperm bernoulli_ multinomial normal_ uniform_ exponential_ RandpermV2"),
        (
            True,
            "UniformReal UniformInt StandardNormal TruncatedNormal RandomNormal RandomUniform Bernoulli Multinomial",
        ),
        (False, "LayerNormalization BatchNormalization Normalize normalize Norm Conv2d Linear PReLU Expand Grand"),
        (False, "ReLU norm Parameter PoissonNLLLoss Gather exp LogNormalize"),
    ],
)
def test_random_types_are_known_by_their_names(is_random: bool, names: str) -> None:
    known = re.compile(RANDOM_TYPES, re.IGNORECASE)
    assert [name for name in names.split() if bool(known.fullmatch(name)) != is_random] == []


def test_other_inputs_and_weights_are_said_first(repeats) -> None:
    def run(number: int, directory: Path) -> None:
        given = {"x": np.float32([number])}
        chain(directory, {"a": [number]}, inputs=given, weights={"w": np.float32([number > 2])})

    found = repeats(run)
    assert tuple(map(say, found.given)) == ("input x (runs 2, 3)", "weight w (run 3)")
    lines = list(repeat_lines(found))
    assert lines[1] == "the runs were not given the same: input x (runs 2, 3), weight w (run 3)"
    assert lines[-1].endswith("but the runs were not given the same")


def test_a_weight_that_begins_otherwise_is_named_as_a_weight(repeats) -> None:
    def run(number: int, directory: Path) -> None:
        with DumpWriter(directory) as writer:
            writer.write("a.weight", np.float32([number]), op_type="Parameter")
            writer.write("a", np.float32([number]), op_type="Linear")
            writer.add_call(Operator("a", "Linear", inputs=(Edge("a.weight", 0, is_parameter=True),)))

    found = repeats(run)
    assert [one.tensor.address for one in found.differences] == ["a.weight:output:0"]
    assert whys(found)[0] == "a weight, and nothing that was recorded changed it: are its initial values seeded?"


def test_runs_with_other_operators_differ_and_they_are_named(repeats) -> None:
    def run(number: int, directory: Path) -> None:
        chain(directory, {"a": [1], **({"extra": [1]} if number == 2 else {"own": [1]}), "b": [1]})

    found = repeats(run)
    assert tuple(map(say, found.alone)) == ("own:output:0 (not in run 2)", "extra:output:0 (in run 2, not in run 1)")
    assert not found.is_equal
    assert not found.differences


def test_an_operator_that_is_called_more_often_is_no_equal_run(repeats) -> None:
    def run(number: int, directory: Path) -> None:
        with DumpWriter(directory) as writer:
            for _ in range(2 if number == 3 else 1):
                writer.write("loop", np.float32([1]))

    assert tuple(map(say, repeats(run).alone)) == ("loop:output:0 (in run 3, not in run 1)",)


def test_nothing_in_common_is_no_result(repeats) -> None:
    with pytest.raises(ConfigError, match=r"run 1 and run 2 have no operator in common, e\.g\. op1:output:0"):
        repeats(lambda number, directory: chain(directory, {f"op{number}": [1]}))


@pytest.mark.parametrize("save", ["full", "sketch"])
def test_a_recording_of_sketches_is_compared_by_its_digests(repeats, save: str) -> None:
    def run(number: int, directory: Path) -> None:
        with DumpWriter(directory, save=save) as writer:
            large = np.zeros(5000, "float32")
            writer.write("same", large)
            # Its statistics are the same, and so is its sketch.
            large[1234] = -0.0 if number == 2 else 0.0
            writer.write("sign", large)

    [one] = repeats(run).differences
    assert (one.tensor.address, one.runs) == ("sign:output:0", (2,))


@pytest.mark.parametrize(("digest", "cell"), [("", ""), (",CRC32", ",0123abcd"), (",XOR64", ",0123456789abcdef")])
def test_statistics_without_a_digest_that_proves_bits_say_nothing_of_them(repeats, digest: str, cell: str) -> None:
    def run(_: int, directory: Path) -> None:
        tensors = [("Mul", "Default/Mul-op0", "output", 0, np.float32([1]))]
        write_mindspore(directory, tensors)
        [folder] = {path.parent for path in directory.rglob("*.npy")}
        for path in directory.rglob("*.npy"):
            path.unlink()
        (folder / "statistic.csv").write_text(
            f"Op Type,Op Name,Task ID,Stream ID,Timestamp,IO,Slot,Data Size,Data Type,Shape,Max Value{digest}\n"
            f'Mul,Default/Mul-op0,0,0,1700000000000000,output,0,4,float32,"(1,)",1{cell}\n'
        )

    with pytest.raises(
        ConfigError,
        match=r"run 1 of 3: .*Mul-op0:output:0 was not saved and has no digest that proves equal bytes; dump whole",
    ):
        repeats(run)


def _nothing(directory: Path) -> None:
    directory.mkdir(parents=True)


def _not_ended(directory: Path) -> None:
    DumpWriter(directory).write("a", np.float32([1]))


def _damaged(directory: Path) -> None:
    write_reference(directory, {"a": [1.0]})
    [file] = directory.glob("*.npy")
    file.write_bytes(b"\x93NUMPY\x01\x00\xff\xff{'descr': '|O'")


def _strange(directory: Path) -> None:
    _nothing(directory)
    (directory / "log.txt").write_text("loss 0.3")


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (_nothing, "holds no tensor"),
        (_not_ended, "has not ended"),
        (_damaged, "a.0.1700000000000000.npy"),
        (_strange, "log.txt"),
    ],
)
def test_a_run_that_leaves_no_whole_dump_is_one_error_with_its_number(repeats, tmp_path, run, why: str) -> None:
    def bad(number: int, directory: Path) -> None:
        chain(directory, {"a": [1]}) if number == 1 else run(directory)

    with pytest.raises(ConfigError, match=r"^run 2 of 3: ") as error:
        repeats(bad)
    assert why in str(error.value)
    assert not list((tmp_path / "runs").iterdir())
