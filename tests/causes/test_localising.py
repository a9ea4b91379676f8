"""Roles from dumps: of LeNet with two real faults, of loops and iterations, of weights that a step writes to."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from causes.networks import write_ir
from dump_builder import START, Tensor, write_mindspore
from plugin.suites import write_suite
from two_dumps import reported

from pytest_msdump.capabilities.causes.summarised import role_lines
from pytest_msdump.capabilities.html.content import content
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.report.record_json import to_json
from pytest_msdump.core.suite import load_suite
from pytest_msdump.core.text import say

GRAPHS = Path(__file__).parents[1] / "data" / "localising"
GOOD, BAD = np.ones((2, 3), "f4"), np.full((2, 3), 2, "f4")


def records(folder: Path, **options: Any) -> dict[str, dict[str, Any]]:
    """Records by address, with the iteration where there are several."""
    found: dict[str, dict[str, Any]] = {}
    for record in reported(folder, **options).records:
        iteration = f"@{record.left.at.iteration}" if record.left.at.iteration else ""
        found[record.left.address + iteration] = to_json(record)
    return found


def write_pair(folder: Path, tensors: list[tuple[str, str, str, int, bool]], **where: Any) -> None:
    """Both sides of a run; the last value says whether the left tensor is as the right one."""
    for side in ("left", "right"):
        values: list[Tensor] = [(*key, GOOD if is_good or side == "right" else BAD) for *key, is_good in tensors]
        write_mindspore(folder / side, values, **where)


def outputs(*names: str, bad: tuple[str, ...]) -> list[tuple[str, str, str, int, bool]]:
    return [("ReLU", f"Default/{name}", "output", 0, name not in bad) for name in names]


# -- LeNet with real faults ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("with_graph", [True, False])
@pytest.mark.parametrize(("left", "mapping"), [("target_bad", "mapping.toml"), ("target_bad2", "mapping_bad2.toml")])
def test_the_cause_is_the_operator_that_the_truth_names(
    lenet: Path, tmp_path: Path, left: str, mapping: str, with_graph: bool
) -> None:
    graph = GRAPHS / left / "ms_output_trace_code_graph_0.ir"
    extra = f"graph_files = ['{graph}']" if with_graph else ""
    suite = load_suite(
        file=write_suite(tmp_path / "msdump.toml", lenet, left, mapping=mapping, extra=extra),
        options={},
        directory=tmp_path,
    )
    planned = plan(suite)
    report = build_report(planned, compare_plan(planned))
    truth = json.loads((lenet / "truth.json").read_text("utf-8"))["targets"][left]["first_diverging"]
    causes = [record.left.true_name for record in report.records if record.role == "cause"]
    assert causes == [truth["target_op"]]
    failing = [record.role for record in report.records if record.verdict.outcome == "fail"]
    assert set(failing[1:]) == {"inherited" if with_graph else "unknown"}
    assert report.localised_by == ("graph" if with_graph else "execution order")


# -- own inputs ------------------------------------------------------------------------------------------------------


def test_an_operator_whose_own_input_passes_is_a_cause_whatever_fails_above(tmp_path: Path) -> None:
    tensors = [*outputs("a", "b", bad=("a", "b")), ("ReLU", "Default/b", "input", 0, True)]
    write_pair(tmp_path, tensors)
    write_ir(tmp_path, ["a ReLU x", "b ReLU a"])
    assert records(tmp_path)["Default/b:output:0"]["role"] == "inherited"
    assert records(tmp_path, io="all")["Default/b:output:0"]["role"] == "cause"


# -- iterations, loops, ranks, parameters ----------------------------------------------------------------------------


def test_a_later_iteration_may_have_inherited_through_weights(tmp_path: Path) -> None:
    for iteration in (0, 1):
        write_pair(tmp_path, outputs("a", "b", bad=("a", "b")), iteration=iteration)
    write_ir(tmp_path, ["a MatMul x w", "b ReLU a"], parameters=("x", "w"))
    told = records(tmp_path)
    assert told["Default/a:output:0"]["role"] == "cause"
    assert told["Default/a:output:0@1"]["role"] == "unknown"
    assert "earlier part of the run" in told["Default/a:output:0@1"]["role_reason"]
    assert told["Default/b:output:0@1"]["role"] == "inherited"


def test_a_weight_that_is_read_after_it_was_written_feeds_its_reader(tmp_path: Path) -> None:
    weight = ("Parameter", "w", "output", 0, False)
    write_pair(tmp_path, [("AssignAdd", "Default/u", "output", 0, True), *outputs("a", bad=("a",)), weight])
    write_ir(tmp_path, ["u AssignAdd w x", "a MatMul x w"], parameters=("x", "w"))
    told = records(tmp_path)
    assert told["w:output:0"]["role"] == "cause"
    assert (told["Default/a:output:0"]["role"], told["Default/a:output:0"]["causes"]) == ("inherited", ["w:output:0"])


def test_a_batch_normalisation_writes_to_its_moving_averages_and_not_to_its_scale(tmp_path: Path) -> None:
    weights = [("Parameter", name, "output", 0, name == "beta") for name in ("gamma", "beta", "mean")]
    write_pair(tmp_path, [("BatchNorm", "Default/bn", "output", 0, False), *weights])
    write_ir(tmp_path, ["bn BatchNorm x gamma beta mean mean"], parameters=("x", "gamma", "beta", "mean"))
    told = {address: (record.get("role"), record.get("causes")) for address, record in records(tmp_path).items()}
    assert told["gamma:output:0"] == ("cause", [])
    assert told["Default/bn:output:0"] == told["mean:output:0"] == ("inherited", ["gamma:output:0"])


# Two layers of a training step, and what its optimizer keeps.
TRAINING = (
    "conv Conv2D x conv.weight",
    "loss ReduceMean conv",
    "grad MatMul loss x",
    "opt ApplyMomentum conv.weight moments.conv.weight lr grad momentum",
)
TRAINED = ("x", "conv.weight", "moments.conv.weight", "lr", "momentum")


def write_training(folder: Path, bad: dict[int, tuple[str, ...]], *, iterations: tuple[int, ...] = (1, 2)) -> None:
    """Write steps of a training with MindSpore's layout; `bad` names the tensors that are wrong in each."""
    for iteration in iterations:
        wrong = bad.get(iteration, ())
        ops = [(line.split()[1], f"Default/{line.split()[0]}", "output", 0) for line in TRAINING]
        ops += [("Parameter", name, "output", 0) for name in TRAINED]
        tensors = [(*key, key[1].removeprefix("Default/") not in wrong) for key in ops]
        write_pair(folder, tensors, iteration=iteration, start=START + iteration * 1_000_000)
    write_ir(folder, list(TRAINING), parameters=TRAINED)


# The second step starts from what the first one left behind.
WRONG_MOMENTUM = {1: ("opt", "conv.weight"), 2: ("conv", "loss", "grad", "opt", "conv.weight")}


def test_what_a_wrong_optimizer_left_behind_is_inherited_by_the_next_step(tmp_path: Path) -> None:
    write_training(tmp_path, WRONG_MOMENTUM)
    told = records(tmp_path)
    roles = {address: (one["role"], one["causes"]) for address, one in told.items() if one["verdict"] == "fail"}
    assert roles.pop("Default/opt:output:0@1") == ("cause", [])
    assert len(roles) == 6
    assert set(map(repr, roles.values())) == {repr(("inherited", ["Default/opt:output:0"]))}
    because = told["Default/conv:output:0@2"]["role_reason"]
    assert because == "through parameters that the iteration before updated: conv.weight (fails)"


def test_a_weight_stands_for_an_optimizer_that_was_not_compared(tmp_path: Path) -> None:
    write_training(tmp_path, WRONG_MOMENTUM)
    for file in (tmp_path / "right").rglob("ApplyMomentum.*"):
        file.unlink()
    told = records(tmp_path)
    failing = [address for address, one in told.items() if one["verdict"] == "fail"]
    assert failing[:2] == ["conv.weight:output:0@1", "Default/conv:output:0@2"]
    weight, *others = (told[address] for address in failing)
    assert (weight["role"], weight["suspects"]) == ("cause", ["Default/opt"])
    assert {(one["role"], *one["causes"]) for one in others} == {("inherited", "conv.weight:output:0")}
    # Of a tensor that was compared nobody says that it was not.
    assert not any("not compared: " in one["role_reason"] and "conv.weight" in one["role_reason"] for one in others)


def test_a_hyperparameter_that_fails_is_the_cause_and_not_written_by_the_optimizer(tmp_path: Path) -> None:
    write_training(tmp_path, {1: (*WRONG_MOMENTUM[1], "momentum"), 2: (*WRONG_MOMENTUM[2], "momentum")})
    roles = {address: one["role"] for address, one in records(tmp_path).items() if one["verdict"] == "fail"}
    assert [address for address, role in roles.items() if role == "cause"] == ["momentum:output:0@1"]
    assert set(roles.values()) == {"cause", "inherited"}


def test_without_a_graph_the_weight_of_the_first_step_fails_first(tmp_path: Path) -> None:
    write_training(tmp_path, {1: ("conv.weight",), 2: WRONG_MOMENTUM[2]})
    (tmp_path / "left" / "rank_0" / "graphs" / "ms_output_trace_code_graph_0.ir").unlink()
    told = {address: one["role"] for address, one in records(tmp_path).items() if one["verdict"] == "fail"}
    assert next(iter(told)) == "conv_weight:output:0@1"
    assert [address for address, role in told.items() if role == "cause"] == ["conv_weight:output:0@1"]


def test_without_any_order_no_operator_is_said_to_run_after_another(tmp_path: Path) -> None:
    for side, values in (("left", BAD), ("right", GOOD)):
        (tmp_path / side).mkdir()
        np.save(tmp_path / side / "a.npy", GOOD)
        np.save(tmp_path / side / "b.npy", values)
    found = records(tmp_path)["b:output:0"]
    assert found["role"] == "unknown"
    assert found["role_reason"] == "plain folders hold no graph and no order"


def test_what_gathers_from_ranks_that_fail_may_have_got_it_there(tmp_path: Path) -> None:
    for rank in (0, 1):
        reduced = [("AllReduce", "Default/r", "output", 0, False)]
        write_pair(tmp_path, [*outputs("a", bad=("a",) if rank else ()), *reduced], rank=rank)
    write_ir(tmp_path, ["a ReLU x", "r AllReduce a"])
    (tmp_path / "left" / "rank_1" / "graphs").mkdir(parents=True)
    ir = "graphs/ms_output_trace_code_graph_0.ir"
    (tmp_path / "left" / "rank_1" / ir).write_bytes((tmp_path / "left" / "rank_0" / ir).read_bytes())
    told = {(record.left.true_name, record.left.at.rank): record.role for record in reported(tmp_path).records}
    assert told == {
        ("Default/a", 0): None,
        ("Default/r", 0): "unknown",
        ("Default/a", 1): "cause",
        ("Default/r", 1): "inherited",
    }


def test_operators_that_feed_one_another_are_all_unknown(tmp_path: Path) -> None:
    write_pair(tmp_path, outputs("a", "b", bad=("a", "b")))
    model = {"graph": [{"op": [
        {"name": "Default/a", "type": "ReLU", "input": ["Default/b:0"]},
        {"name": "Default/b", "type": "ReLU", "input": ["Default/a:0"]},
    ]}]}  # fmt: skip
    (tmp_path / "ge.json").write_text(json.dumps(model), "utf-8")
    told = records(tmp_path, fusion="ge.json")
    assert {record["role"] for record in told.values()} == {"unknown"}
    assert "in a loop of operators" in told["Default/a:output:0"]["role_reason"]


@pytest.mark.parametrize("swapped", [False, True])
def test_an_operator_whose_outputs_are_equally_far_apart_is_judged_by_either(tmp_path: Path, swapped: bool) -> None:
    values = np.random.default_rng(0).standard_normal((4, 8)).astype(np.float32)
    places = np.argsort(-values, axis=1)[:, :3]
    outputs = [np.take_along_axis(values, places, 1), places]
    for side, factor in (("left", 0), ("right", 1)):
        (tmp_path / side).mkdir()
        for slot, output in enumerate(outputs[:: -1 if swapped else 1]):
            # Whole numbers have no limit that leaves room, so that their share of it is unknown.
            np.save(tmp_path / side / f"topk.{slot}.{START + 1}.npy", output * output.dtype.type(factor))
    told = records(tmp_path)
    assert {record["role"] for record in told.values()} == {"cause"}
    assert {record["metrics"]["relative_euclidean_distance"] for record in told.values()} == {1.0}


def test_a_later_pass_of_a_loop_may_have_got_it_from_an_earlier_one(tmp_path: Path) -> None:
    write_pair(tmp_path, [*outputs("a", bad=("a",)) * 2, *outputs("b", bad=())])
    write_ir(tmp_path, ["a ReLU x", "b ReLU a"])
    failing = [record for record in reported(tmp_path).records if record.verdict.outcome == "fail"]
    told = {record.left.at.occurrence: record.role for record in failing}
    assert told == {0: "cause", 1: "unknown"}


def test_roles_stay_when_a_saved_result_is_judged_again_unless_others_fail(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pytest_msdump.cli import main

    write_pair(tmp_path, outputs("a", bad=("a",)))
    for side, factor in (("left", 3), ("right", 1)):
        write_mindspore(tmp_path / side, [("ReLU", "Default/b", "output", 0, GOOD * factor)])
    write_ir(tmp_path, ["a ReLU x", "b ReLU a"])
    results = str(tmp_path / "r" / "results.json")
    assert main(["compare", str(tmp_path / "left"), str(tmp_path / "right"), "--report-dir", str(tmp_path / "r")]) == 1
    assert "1 cause: Default/a; 1 inherited" in capsys.readouterr().out
    assert main(["check", results]) == 1
    assert "1 cause: Default/a; 1 inherited" in capsys.readouterr().out
    # The distance of a is 1, that of b is 2.
    assert main(["check", results, "--threshold=rel_euclid=1.5", "--threshold=norm_max=1.5"]) == 1
    told = capsys.readouterr().out
    assert "Default/b" in told
    assert "cause" not in told
    assert "inherited" not in told


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"edges": [[0]]}, "edges"),
        ({"edges": [[0, "1"]]}, "edges"),
        ({"edges": {}}, "edges"),
        ({"role": "guilty"}, "role"),
        ({"role": "cause", "causes": [1]}, "causes"),
        ({"role": "cause", "suspects": None}, "suspects"),
        ({"amplification": "much"}, "amplification"),
    ],
)
def test_a_saved_report_with_broken_roles_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    from pytest_msdump.core.errors import ConfigError
    from pytest_msdump.core.report.json_report import document, report_from

    write_pair(tmp_path, outputs("a", bad=("a",)))
    values = json.loads(json.dumps(document(reported(tmp_path))))
    assert report_from(values).records[0].role == "cause"
    if "edges" in change:
        values |= change
    else:
        values["tensors"][0] |= change
    with pytest.raises(ConfigError, match=said):
        report_from(values)


def test_an_input_that_the_operator_writes_to_is_no_evidence(tmp_path: Path) -> None:
    written = [("AssignAdd", "Default/u", io, slot, good) for io, slot, good in (
        ("input", 0, False), ("input", 1, True), ("output", 0, False),
    )]  # fmt: skip
    write_pair(tmp_path, [*outputs("a", bad=()), *written])
    write_ir(tmp_path, ["a ReLU x", "u AssignAdd w a"], parameters=("x", "w"))
    assert records(tmp_path, io="all")["Default/u:output:0"]["role"] == "cause"


def test_one_operator_that_is_the_cause_in_several_iterations_is_one_line(tmp_path: Path) -> None:
    for iteration in range(3):
        bad = ("b", "c", "d") if iteration else ()
        write_pair(tmp_path, outputs("a", "b", "c", "d", bad=bad), iteration=iteration)
    write_ir(tmp_path, ["a ReLU x", "b ReLU a", "c ReLU b", "d ReLU c"])
    report = reported(tmp_path)
    data, _ = content(report)
    causes = {number: one.left.at.iteration for number, one in enumerate(report.records) if one.role == "cause"}
    assert list(causes.values()) == [1]
    again = [number for number, one in enumerate(report.records) if one.causes == (one.left.address,)]
    assert data["heirs"] == {str(number): 2 for number in (*causes, *again)}
    (first,) = (report.records[number] for number in causes)
    assert say(first.diagnosis[0].evidence).startswith("right in 1 iteration before, wrong from iteration 1 on;")
    told = "\n".join(role_lines(report, width=200))
    assert "cause Default/b (iteration 1) (op " in told
    assert "the same in 1 more: Default/b (iteration 2)" in told
    assert "4 inherited: Default/c, Default/d" in told


def _causes_of(
    folder: Path, bad: list[tuple[str, ...]], *, has_graph: bool = True
) -> list[tuple[str, int | None, list[Any]]]:
    """Write iterations of operators in a row, some wrong; return the causes and what their iterations show."""
    for iteration, wrong in enumerate(bad):
        write_pair(folder, outputs("a", "b", "c", "d", bad=wrong), iteration=iteration)
    if has_graph:
        write_ir(folder, ["a ReLU x", "b ReLU a", "c ReLU b", "d ReLU c"])
    return [
        (one.left.key.op.label, one.left.at.iteration, [found.details["iteration"] for found in one.diagnosis])
        for one in reported(folder).records
        if one.role == "cause"
    ]


@pytest.mark.parametrize("has_graph", [True, False])
def test_a_cache_that_is_wrong_from_a_step_on_is_one_cause_with_its_iteration(tmp_path: Path, has_graph: bool) -> None:
    wrong = ("b", "c", "d")
    bad = [(), (), wrong, wrong, wrong, wrong]
    assert _causes_of(tmp_path, bad, has_graph=has_graph) == [("Default/b", 2, [2])]


def test_wrong_from_the_first_iteration_on_or_now_and_then_points_to_no_cache(tmp_path: Path) -> None:
    wrong = ("b", "c", "d")
    assert _causes_of(tmp_path / "first", [wrong, wrong, wrong]) == [("Default/b", 0, [])]
    assert _causes_of(tmp_path / "then", [(), wrong, (), wrong]) == [("Default/b", 1, [])]


def test_another_operator_in_a_later_iteration_is_a_cause_of_its_own(tmp_path: Path) -> None:
    given = [(), ("c", "d"), ("b", "c", "d"), ("c", "d")]
    assert [one[:2] for one in _causes_of(tmp_path, given)] == [("Default/c", 1), ("Default/b", 2)]
