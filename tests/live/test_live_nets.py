"""What MindSpore 2.10 writes of five networks is all known, in its own order, and each operator has its line.

The expectations come from the run's own text files, from comments in the networks' sources and from what the programs
saw, read here by a few lines that have nothing to do with the readers.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from live.runs import NETS, Asked, Made, make
from semantics.gate import ask

from pytest_msdump.capabilities.kernels.again import replay
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import index
from pytest_msdump.core.dumps.base import reader
from pytest_msdump.core.model.dump import Dump
from pytest_msdump.core.model.tensor import TensorRef

MINDSPORE = os.environ.get("MSDUMP_MINDSPORE_PYTHON")

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(not MINDSPORE, reason="MSDUMP_MINDSPORE_PYTHON is not set"),
]

CNN, TRANSFORMER, LOOP, TWO, HALF = "cnn_training", "transformer_block", "while_loop", "two_nets", "half_cells"
RELU = "Default/network-Loss/net-Cnn/ReLU-op0"
CONV = "Default/network-Loss/net-Cnn/conv-Conv2d/Conv2D-op0"
ASKED = {
    **{net: Asked(net) for net in (CNN, TRANSFORMER, LOOP, TWO, HALF)},
    "outputs": Asked(CNN, {"input_output": 2}),
    "inputs": Asked(TRANSFORMER, {"input_output": 1}),
    "by name": Asked(CNN, {"dump_mode": 1, "kernels": [RELU, CONV]}),
    "by type": Asked(TRANSFORMER, {"dump_mode": 1, "kernels": ["MatMul"]}),
    "by expression": Asked(LOOP, {"dump_mode": 1, "kernels": ["name-regex(.*/(Abs|Sub)-op[0-9])"]}),
    "by nothing": Asked(TWO, {"dump_mode": 1}),
    "some iterations": Asked(CNN, {"iteration": "0|2-3"}),
    "as on the device": Asked(LOOP, {"file_format": "bin"}, {"trans_flag": False}),
    "later iterations": Asked(TWO, {"initial_iteration": 100}),
    "overflow": Asked(TWO, {"op_debug_mode": 3}),
    "kernel arguments": Asked(TRANSFORMER, {"input_output": 2}, {"save_kernel_args": True}),
    "twice": Asked(TWO, times=2),
    "path of the environment": Asked(LOOP, {"input_output": 2}, below="debug_dump"),
}
REFUSED = {saved: Asked(TWO, {"saved_data": saved}) for saved in ("statistic", "full")}
NAMES = list(ASKED)
# Its lines are not known: MindSpore tells one for several calls.
STATE = {f"state {sides}": Asked("loop_with_state", {"input_output": sides}) for sides in (0, 2)}

# Operators within functions of MindSpore that a program calls at several lines: the graph tells one call for all.
TOLD_OF_ANOTHER_CALL = {
    (TRANSFORMER, "Expand/_MatMulExt/BatchMatMul-op0"),
    (TRANSFORMER, "Default/attention-Attention/Transpose-op4"),
    (TRANSFORMER, "Default/Add-op1"),
    (TRANSFORMER, "Default/Add-op2"),
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Future[Made]]]:
    """All runs, two at a time; a test waits for its own."""
    folder = tmp_path_factory.mktemp("nets")
    with ThreadPoolExecutor(2) as pool:
        yield {
            name: pool.submit(make, str(MINDSPORE), asked, folder / name.replace(" ", "_"))
            for name, asked in (ASKED | REFUSED | STATE).items()
        }


@pytest.fixture(params=NAMES)
def made(request: pytest.FixtureRequest, runs: Mapping[str, Future[Made]]) -> Made:
    """Each run in turn."""
    return done(runs, request.param)


def done(runs: Mapping[str, Future[Made]], name: str) -> Made:
    found = runs[name].result()
    assert found.code == 0, found.printed
    return found


@cache
def indexed(root: Path) -> Dump:
    return index(root)


def operators(dump: Dump) -> list[TensorRef]:
    return [ref for ref in dump.refs if ref.key.op.op_type != "Parameter"]


# -- independent words on the same run -----------------------------------------------------------------------------


def order_of(made: Made, graph: int) -> list[str]:
    path = made.root / f"rank_0/execution_order/ms_execution_order_graph_{graph}.csv"
    title, *lines = path.read_text().splitlines()
    assert title == "NodeExecutionOrder-FullNameWithScope"
    return lines


def comments(net: str) -> Iterator[tuple[str, int | None]]:
    """Globs of operators and the line that made them."""
    for number, line in enumerate((NETS / f"{net}.py").read_text().splitlines(), start=1):
        comment = re.search(r"# made( of no line)?: (.*)", line)
        for glob in comment[2].split() if comment else ():
            yield glob, None if comment[1] else number


def line_of(net: str, operator: str) -> int | None:
    lines = {glob: line for glob, line in comments(net) if fnmatch.fnmatchcase(operator, glob)}
    return lines[max(lines, key=len)]


def frames_in_graph(made: Made, operator: str, graph: int) -> list[str]:
    """Lines of the network's file that stand below an operator in the graph's text."""
    text = (made.root / f"rank_0/graphs/ms_output_trace_code_graph_{graph}.ir").read_text()
    _, _, rest = text.partition(f"# Fullname with scope: ({operator})\n")
    block = re.match(r"(?: +#.*\n)*", rest)
    return re.findall(rf"{made.asked.net}\.py:(\d+)[~,]", block[0] if block else "")


# -- laws of every run -----------------------------------------------------------------------------------------------


def test_nothing_that_was_written_is_unexplained(made: Made) -> None:
    dump = indexed(made.root)
    assert (dump.reader, dump.unexplained) == ("mindspore", ())
    on_disk = set(made.root.rglob("*.npy"))
    assert on_disk
    told = [ref.source.path for ref in (*dump.refs, *dump.older)]
    assert sorted(told) == sorted(on_disk)
    assert bool(dump.older) == (made.asked.times > 1)


def test_coordinates_are_those_of_the_directories(made: Made) -> None:
    for ref in indexed(made.root).refs:
        at = ref.key.op.at
        folder = f"rank_{at.rank}/{at.net}/{at.graph}/{at.iteration}"
        assert ref.source.path.parent == made.root / folder
    times = {}
    for ref in operators(indexed(made.root)):
        if ref.key.io == "output":
            times.setdefault((ref.source.path.parent, ref.key.op.name, ref.key.slot), []).append(ref)
    for repeats in times.values():
        repeats.sort(key=lambda ref: int(ref.source.path.name.split(".")[4]))
        assert [ref.key.op.at.occurrence for ref in repeats] == list(range(len(repeats)))


def test_operators_are_in_the_order_of_the_execution_order_file(made: Made) -> None:
    dump = indexed(made.root)
    groups = groupby(operators(dump), key=lambda ref: (ref.key.op.at.iteration, ref.key.op.at.graph))
    seen = []
    for (iteration, graph), refs in groups:
        seen.append((iteration, graph))
        order = order_of(made, graph)
        listed = list(refs)
        names = [name for name, _ in groupby(ref.key.op.true_name for ref in listed)]
        assert names == [name for name in order if name in names]
        assert {ref.place for ref in listed} == {order.index(name) for name in names}
        if not made.asked.common.get("dump_mode") and made.asked.common.get("input_output") != 1:
            assert names == order
    # Iterations one after the other, and the graphs within each.
    assert seen == sorted(set(seen))


def test_each_operator_of_the_program_has_its_line(made: Made) -> None:
    net = made.asked.net
    source = (NETS / f"{net}.py").read_text().splitlines()
    for ref in operators(indexed(made.root)):
        name, graph = ref.key.op.true_name, ref.key.op.at.graph
        assert name is not None
        expected = line_of(net, name)
        frames = frames_in_graph(made, name, graph)
        if expected is None:
            assert (ref.line, frames) == (None, []), name
            continue
        assert ref.line is not None, name
        assert Path(ref.line.file) == NETS / f"{net}.py"
        if (net, name) in TOLD_OF_ANOTHER_CALL:
            # Listed for as long as it is the graph's word.
            assert str(expected) not in frames, name
            assert str(ref.line.line) in frames
        else:
            assert (ref.line.line, ref.line.text) == (expected, source[expected - 1].strip()), name


def test_values_are_those_that_the_program_saw(made: Made) -> None:
    refs = {address(ref): ref for ref in indexed(made.root).refs}
    start = made.asked.common.get("initial_iteration", 0)
    found = 0
    with np.load(made.results) as seen:
        for key in seen.files:
            iteration, rest = key.split(" ", 1)
            ref = refs.get(f"{int(iteration) + start} {rest}")
            if ref is None:
                continue
            found += 1
            view = reader(ref.reader).open(ref)
            assert view.dtype == str(seen[key].dtype), key
            np.testing.assert_array_equal(view.read(0, view.size), seen[key].ravel(), err_msg=key)
            view.close()
        everything = not made.asked.common.keys() & {"dump_mode", "input_output", "iteration"}
        assert found == len(seen.files) if everything else found or made.asked.common.get("dump_mode") == 1


def address(ref: TensorRef) -> str:
    at = ref.key.op.at
    return f"{at.iteration} {at.graph} {at.occurrence} {ref.key.address}"


def test_every_run_passes_against_itself_and_all_of_it_is_compared(made: Made, tmp_path: Path) -> None:
    (tmp_path / "again").symlink_to(made.root)
    answer = ask(made.root, tmp_path / "again", "--io", "all", "--min-coverage", "100", reports=tmp_path / "reports")
    assert answer.code == 0, answer.text
    counts = answer.results["counts"]
    assert counts["pass"] + counts["warn"] == len(indexed(made.root).refs)
    assert answer.results["left"]["unexplained"] == []


@pytest.mark.parametrize("name", [CNN, TRANSFORMER, LOOP, TWO])
def test_what_an_operator_takes_is_what_the_one_before_it_gave(runs: Mapping[str, Future[Made]], name: str) -> None:
    """By the bytes of files, so that a file that is given to a wrong operator of the graph is noticed."""
    dump = indexed(done(runs, name).root)
    # Of loops the first turn; kernels that write in place save their input after they ran.
    files = {
        (ref.key.op.at.graph, ref.key.op.at.iteration, ref.key.op.label, ref.key.io, ref.key.slot): ref.source.path
        for ref in dump.refs
        if ref.key.op.at.occurrence == 0 and not ref.key.op.label.startswith("Default/optimizer")
    }
    met = 0
    for at, graph in dump.graphs:
        for operator in graph.operators:
            for slot, edge in enumerate(operator.inputs):
                for iteration in range(5):
                    taken = files.get((at.graph, iteration, operator.name, "input", slot))
                    given = (
                        edge
                        and not edge.is_parameter
                        and files.get((at.graph, iteration, edge.producer, "output", edge.slot))
                    )
                    if taken and given:
                        met += 1
                        # Behind the header: view operators have another shape on both sides.
                        assert taken.read_bytes()[128:] == given.read_bytes()[128:], (edge, operator.name)
    assert met > {CNN: 350, TRANSFORMER: 80, LOOP: 6, TWO: 6}[name]


# -- what each configuration leaves out ------------------------------------------------------------------------------


def addresses(runs: Mapping[str, Future[Made]], name: str) -> set[str]:
    return {address(ref) for ref in indexed(done(runs, name).root).refs}


def names(runs: Mapping[str, Future[Made]], name: str) -> set[str]:
    return {ref.key.op.label for ref in indexed(done(runs, name).root).refs}


def test_outputs_alone_are_the_outputs_of_the_whole(runs: Mapping[str, Future[Made]]) -> None:
    assert addresses(runs, "outputs") == {one for one in addresses(runs, CNN) if ":output:" in one}


def test_inputs_alone_are_the_inputs_of_the_whole(runs: Mapping[str, Future[Made]]) -> None:
    assert addresses(runs, "inputs") == {one for one in addresses(runs, TRANSFORMER) if ":input:" in one}


def test_some_iterations_are_those_of_the_whole(runs: Mapping[str, Future[Made]]) -> None:
    kept = {one for one in addresses(runs, CNN) if not one.startswith("1 ")}
    assert addresses(runs, "some iterations") == kept


def test_listed_operators_are_these(runs: Mapping[str, Future[Made]]) -> None:
    assert names(runs, "by name") == {RELU, CONV}
    assert names(runs, "by type") == {one for one in names(runs, TRANSFORMER) if "MatMul-op" in one}
    assert names(runs, "by expression") == {"Default/Abs-op0", "Default/Sub-op0"}
    assert addresses(runs, "by nothing") == addresses(runs, TWO)


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("as on the device", LOOP),
        ("overflow", TWO),
        ("twice", TWO),
    ],
)
def test_what_a_processor_ignores_changes_nothing(runs: Mapping[str, Future[Made]], name: str, whole: str) -> None:
    assert addresses(runs, name) == addresses(runs, whole)


def test_iterations_may_be_counted_from_another_number(runs: Mapping[str, Future[Made]]) -> None:
    later = {f"{int(one[:1]) + 100}{one[1:]}" for one in addresses(runs, TWO)}
    assert addresses(runs, "later iterations") == later


@pytest.mark.parametrize(
    ("name", "whole", "why"),
    [
        ("by name", CNN, "kernels"),
        ("outputs", CNN, "outputs"),
        ("some iterations", CNN, "iteration"),
        ("inputs", TRANSFORMER, "inputs"),
    ],
)
def test_what_was_left_out_is_told_with_its_reason(
    runs: Mapping[str, Future[Made]], name: str, whole: str, why: str, tmp_path: Path
) -> None:
    left, right = done(runs, name), done(runs, whole)
    answer = ask(left.root, right.root, "--io", "all", "--min-coverage", "0", reports=tmp_path / "reports")
    assert answer.code == 0, answer.text
    unmatched = [entry for entry in answer.results["unmatched"] if entry["side"] == "right"]
    assert len(unmatched) == len(addresses(runs, whole) - addresses(runs, name))
    assert [entry["reason"] for entry in unmatched if why not in entry["reason"]] == []


def test_every_kernel_is_replayed_or_says_why_and_none_is_accused(made: Made) -> None:
    found = replay(index(made.root))
    assert [(one.op.label, one.score) for one in found.accused] == []
    # Values that cross the borders of a loop's graphs, weights as they were before the first step, digits of constants.
    known = {"replay_not_dumped", "replay_before", "replay_no_input", "replay_constant_digits"}
    assert {one.why.code for one in found.refused} <= known
    assert found.calls + len(found.refused) or made.asked.common.get("input_output") == 1


@pytest.mark.parametrize("name", STATE)
def test_weights_that_a_loop_writes_are_not_taken_as_they_were_at_its_end(
    runs: Mapping[str, Future[Made]], name: str
) -> None:
    """Files of weights are those of the end; other graphs than the one that has the file write them in each turn."""
    dump = indexed(done(runs, name).root)
    found = replay(dump)
    assert found.accused == ()
    assert found.calls >= 11
    turns = {(ref.key.op.label, ref.key.op.at) for ref in operators(dump) if ref.key.io == "output"}
    assert found.calls + len(found.refused) == len(turns)
    assert {one.why.code for one in found.refused} == {"replay_not_dumped", "replay_before"}


def test_float16_cells_that_were_computed_in_float32_are_read_and_replayed_whole(
    runs: Mapping[str, Future[Made]],
) -> None:
    """Headers say float16, and the bytes are the processor's float32."""
    made = done(runs, HALF)
    wider = [path for path in made.root.rglob("*.Float16.npy") if np_header(path) * 2 == path.stat().st_size - 128]
    assert {path.name.partition(".")[0] for path in wider} == {"MatMul", "BiasAdd", "Cast"}
    found = replay(indexed(made.root))
    assert (found.calls, found.refused) == (22, ())


def np_header(path: Path) -> int:
    """Return the bytes that the shape and type of a header need."""
    with path.open("rb") as file:
        version = np.lib.format.read_magic(file)
        assert version == (1, 0)
        shape, _, dtype = np.lib.format.read_array_header_1_0(file)
    return int(np.prod(shape, dtype=int)) * dtype.itemsize


@pytest.mark.parametrize("saved", REFUSED)
def test_what_mindspore_refuses_is_refused_before(
    runs: Mapping[str, Future[Made]], saved: str, capsys: pytest.CaptureFixture[str]
) -> None:
    made = runs[saved].result()
    assert made.code != 0
    assert "storing statistic dump is only supported on GPU and Ascend" in made.printed
    assert not list(made.root.rglob("*.npy"))
    assert main(["config", "check", str(made.config), "--mode", "cpu"]) == 1
    assert "saved_data" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_what_mindspore_accepts_is_accepted_before(
    runs: Mapping[str, Future[Made]],
    name: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MS_DIAGNOSTIC_DATA_PATH", str(done(runs, name).folder / "dump"))
    assert main(["config", "check", str(done(runs, name).config), "--mode", "cpu"]) == 0, capsys.readouterr().out
