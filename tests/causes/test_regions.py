"""Mistakes between modules: the region from what passes to what fails, and the module that it belongs to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from recorded_calls import Call, call, record, roles
from two_dumps import reported

from pytest_msdump.capabilities.causes.roles import reason_of
from pytest_msdump.capabilities.causes.summarised import role_lines
from pytest_msdump.core.model.dump import PARAMETER
from pytest_msdump.core.model.record import Region
from pytest_msdump.core.model.report import Report
from pytest_msdump.core.report.record_json import checked_record, to_json
from pytest_msdump.core.text import ENGLISH, Phrases

# Attention by hand: what is computed between `qkv` and `o` is wrong.
ATTENTION = [
    call("norm", None, inside="block"),
    call("qkv", "norm", inside="block"),
    call("o", "qkv", bad=0.5, inside="block"),
    call("block", "o", bad=0.5, inside="Net"),
    call("head", "block", bad=0.5, inside="Net"),
    call("Net", "head", bad=0.5),
]
WEIGHT = {"o.weight": PARAMETER}
GIVEN = {"norm": "g", "qkv": "g", "o": "b", "block": "g", "head": "b"}


def compared(folder: Path, calls: list[Call], inputs: dict[str, str] | None = None, io: str = "output") -> Report:
    for side in ("left", "right"):
        record(folder / side, calls, is_good=side == "right", inputs=inputs)
    return reported(folder, io=io)


def causes(report: Report) -> dict[str, Region | None]:
    found = [one for one in report.records if one.role == "cause"]
    return {one.left.address.split(":")[0]: one.role_why.region for one in found if one.role_why is not None}


@pytest.mark.parametrize("io", ["output", "all"])
def test_a_layer_that_is_given_a_wrong_tensor_is_not_its_cause_and_the_module_around_is(
    tmp_path: Path, io: str
) -> None:
    report = compared(tmp_path, ATTENTION, GIVEN, io)
    assert causes(report) == {"block": Region("block", ("qkv",), "o", "input")}
    inherited = {name: found for name, found in roles(report).items() if name != "block"}
    assert set(inherited.values()) == {("inherited", ("block:output:0",))}
    assert set(inherited) == {"o", "head", "Net"} | ({"o:input", "head:input"} if io == "all" else set())
    assert len(report.records) == (6 if io == "output" else 11)


def test_an_operator_that_was_given_what_is_right_is_the_cause_itself(tmp_path: Path) -> None:
    given = GIVEN | {"o": "g"}
    assert causes(compared(tmp_path, ATTENTION, given)) == {"o": None}
    folder, calls = tmp_path / "with its weight", [*ATTENTION, call("o.weight", None)]
    for side in ("left", "right"):
        record(folder / side, calls, is_good=side == "right", inputs=given, types=WEIGHT)
    assert causes(reported(folder)) == {"o": None}


def test_a_weight_that_differs_is_the_cause_of_what_reads_it(tmp_path: Path) -> None:
    for side in ("left", "right"):
        calls = [*ATTENTION, call("o.weight", None, bad=0.5)]
        record(tmp_path / side, calls, is_good=side == "right", inputs=GIVEN, types=WEIGHT)
    (cause,) = (one for one in reported(tmp_path).records if one.role == "cause")
    assert (cause.left.address, cause.role_reason) == (
        "o.weight:output:0",
        "bounded: this weight differs before the run begins",
    )


def test_without_inputs_the_region_ends_behind_the_first_that_fails(tmp_path: Path) -> None:
    assert causes(compared(tmp_path, ATTENTION)) == {"o": Region("block", ("qkv",), "o", "output")}


def test_what_a_block_is_given_wrong_is_a_mistake_of_the_network(tmp_path: Path) -> None:
    calls = [
        call("embed", None, inside="Net"),
        call("norm", "embed", bad=0.5, inside="block"),
        call("block", "norm", bad=0.5, inside="Net"),
        call("Net", "block", bad=0.5),
    ]
    calls[2][2].insert(0, calls[1][2][0])
    report = compared(tmp_path, calls, {"embed": "g", "norm": "b", "block": "b"})
    assert causes(report) == {"Net": Region("Net", ("embed",), "block", "input")}


def test_a_wrong_input_is_a_cause_though_the_network_passes_and_no_input_is_shown(tmp_path: Path) -> None:
    calls = [call("embed", None, inside="Net"), call("code", "embed", bad=0.5, inside="Net"), call("Net", "code")]
    region = Region("Net", ("embed",), "code", "input")
    assert causes(compared(tmp_path, calls, {"embed": "g", "code": "b", "Net": "g"})) == {"code": region}


def test_what_the_network_does_to_its_input_is_its_own(tmp_path: Path) -> None:
    calls = [call("stem", None, bad=0.5, inside="Net"), call("Net", None, "stem", bad=0.5)]
    assert causes(compared(tmp_path, calls, {"stem": "b", "Net": "g"})) == {"Net": Region("Net", (), "stem", "input")}
    # An input that is wrong from the beginning was made before the network.
    before = {"Net": Region("", (), "Net", "input")}
    assert causes(compared(tmp_path / "other", calls, {"stem": "b", "Net": "b"}, "all")) == before


def test_what_a_block_and_its_first_layer_were_given_is_right_where_that_layer_is(tmp_path: Path) -> None:
    """The residual of `block`: its first layer took the same tensor and passes."""
    calls = [
        call("before", None, inside="Net"),
        call("n1", "before", inside="block"),
        call("n2", "before", "n1", bad=0.5, inside="block"),
        call("block", "before", "n2", bad=0.5, inside="Net"),
        call("Net", "block", bad=0.5),
    ]
    assert causes(compared(tmp_path, calls)) == {"n2": Region("block", ("before", "n1"), "n2", "output")}
    calls[1] = call("n1", None, inside="block")
    assert causes(compared(tmp_path / "other", calls)) == {"n2": Region("Net", ("before", "n1"), "n2", "output")}


@pytest.mark.parametrize("side", ["left", "right"])
def test_one_graph_of_either_side_bounds_a_region(tmp_path: Path, side: str) -> None:
    """A side that a person's own hooks wrote has no manifest."""
    compared(tmp_path, ATTENTION)
    (tmp_path / side / "msdump.json").unlink()
    assert causes(reported(tmp_path)) == {"o": Region("block", ("qkv",), "o", "output")}


def test_without_any_graph_the_first_to_fail_has_a_region_that_says_so(tmp_path: Path) -> None:
    calls = [call(f"layers.0.{name}", None, bad=0.5 * (name == "o")) for name in ("q", "o")]
    calls += [call("layers.0", None, bad=0.5), call("head", None, bad=0.5)]
    compared(tmp_path, calls)
    for side in ("left", "right"):
        (tmp_path / side / "msdump.json").unlink()
    cause = next(one for one in reported(tmp_path).records if one.role == "cause")
    where = "in layers_0, after layers_0_q, up to the output of layers_0_o"
    assert reason_of(cause, ENGLISH).startswith(f"first seen: {where}; no graph says what feeds it")
    assert cause.role_why is not None
    assert cause.role_why.certainty == to_json(cause)["role_why"]["certainty"] == "first_seen"


def test_what_the_left_leaves_out_before_the_first_failure_may_be_the_mistake(tmp_path: Path) -> None:
    """`up` passes in another branch; the activation of `gate` ran on the right alone."""
    names = ("gate", "act", "up", "down")
    calls = [call(f"mlp.{name}", None, bad=0.5 * (name == "down")) for name in names]
    calls.append(call("mlp", None, bad=0.5))
    record(tmp_path / "left", [calls[0], *calls[2:]])
    record(tmp_path / "right", calls, is_good=True)
    for side in ("left", "right"):
        (tmp_path / side / "msdump.json").unlink()
    region = Region("mlp", ("mlp_gate",), "mlp_down", "output", ("mlp_act",))
    assert causes(reported(tmp_path)) == {"mlp_down": region}


def test_a_mistake_behind_another_keeps_its_cause_in_front_of_an_input(tmp_path: Path) -> None:
    second = [
        call("norm2", "block", bad=0.05, inside="other"),
        call("qkv2", "norm2", bad=0.05, inside="other"),
        call("o2", "qkv2", bad=0.5, inside="other"),
        call("other", "o2", bad=0.5, inside="Net"),
    ]
    first = [(*one[:3], 0.05 if one[3] else 0.0, *one[4:]) for one in ATTENTION[:4]]
    report = compared(tmp_path, [*first, *second, call("Net", "other", bad=0.5)], {"o2": "b"})
    assert {name: region and region.end for name, region in causes(report).items()} == {"o": "o", "other": "o2"}


def test_a_norm_that_hardly_differs_does_not_show_that_its_input_was_right(tmp_path: Path) -> None:
    """Four times a tensor has nearly the same norm; the module around may be given a wrong one."""
    calls = [
        call("before", None, inside="Net"),
        call("n1", "before", bad=2e-6, inside="block"),
        call("n2", "before", "n1", bad=0.5, inside="block"),
        call("block", "before", "n2", bad=0.5, inside="Net"),
        call("Net", "block", bad=0.5),
    ]
    for side in ("left", "right"):
        record(tmp_path / side, calls, is_good=side == "right", types={"n1": "RMSNorm"})
    assert causes(reported(tmp_path)) == {"n2": Region("Net", ("before", "n1"), "n2", "output")}


def test_a_region_says_the_lines_between_its_borders(tmp_path: Path) -> None:
    compared(tmp_path, ATTENTION)
    path = tmp_path / "left/msdump.json"
    manifest = json.loads(path.read_text("utf-8"))
    lines = {"qkv": "/net.py:41", "o": "/net.py:57"}
    for one in manifest["tensors"].values():
        one |= {"line": lines[one["op"]]} if one["op"] in lines else {}
    path.write_text(json.dumps(manifest), "utf-8")
    assert causes(reported(tmp_path)) == {"o": Region("block", ("qkv",), "o", "output", (), "net.py:41-57")}
    assert role_lines(reported(tmp_path), width=200)[1].endswith(
        "in block, after qkv, up to the output of o (net.py:41-57)"
    )


def test_a_module_whose_layers_pass_is_wrong_in_what_it_computes_of_them(tmp_path: Path) -> None:
    calls = [call("up", None, inside="mlp"), call("mlp", "up", bad=0.5, inside="Net"), call("Net", "mlp", bad=0.5)]
    assert causes(compared(tmp_path, calls)) == {"mlp": Region("mlp", ("up",), "mlp", "output")}


def test_two_that_fail_behind_one_operation_without_a_partner_are_one_region(tmp_path: Path) -> None:
    """What was not compared lies in the region."""
    calls = [
        call("embed", None, inside="Net"),
        call("Net/mul", "embed", inside="Net"),
        call("norm", "Net/mul", bad=0.5, inside="Net"),
        call("add", "Net/mul", "norm", bad=0.5, inside="Net"),
        call("Net", "add", bad=0.5),
    ]
    record(tmp_path / "left", calls)
    record(tmp_path / "right", [calls[0], call("norm", "embed"), call("add", "embed", "norm"), calls[4]], is_good=True)
    report = reported(tmp_path)
    assert causes(report) == {"norm": Region("Net", ("embed",), "norm", "output", ("Net/mul",))}
    assert roles(report)["add"] == ("inherited", ("norm:output:0",))


def test_an_operation_that_the_right_feeds_otherwise_is_not_wrong_itself(tmp_path: Path) -> None:
    calls = [
        call("o", None, inside="block"),
        call("block/add", "o", inside="block"),
        call("norm/layer_norm", "o", bad=0.5, inside="norm"),
        call("norm", "norm/layer_norm", bad=0.5, inside="block"),
        call("block", "norm", bad=0.5),
    ]
    for feed, region in (("o", None), ("block/add", Region("block", ("o",), "norm/layer_norm", "output"))):
        record(tmp_path / feed[-1] / "left", calls)
        right = [*calls[:2], call("norm/layer_norm", feed, inside="norm"), *calls[3:]]
        record(tmp_path / feed[-1] / "right", right, is_good=True)
        assert causes(reported(tmp_path / feed[-1])) == {"norm/layer_norm": region}


def test_a_wrong_line_is_one_cause_however_often_its_module_is_called(tmp_path: Path) -> None:
    steps = [
        one
        for step in range(3)
        for one in (call("cell/tanh", f"cell/mul@{step - 1}" if step else None, bad=0.5 * 6**step, inside="cell"),
                    call("cell/mul", f"cell/tanh@{step}", bad=0.5 * 6**step, inside="cell"))
    ]  # fmt: skip
    assert [*causes(compared(tmp_path, steps))] == ["cell/tanh"]


def test_a_layer_that_is_wrong_in_each_call_is_one_cause(tmp_path: Path) -> None:
    steps = [
        one
        for step in range(3)
        for one in (call("cell.given", f"cell@{step - 1}" if step else None, bad=0.05 * step, inside="cell"),
                    call("cell.kept", f"cell.given@{step}", bad=0.05 * 6 ** (step + 1), inside="cell"),
                    call("cell", f"cell.kept@{step}", bad=0.05 * (step + 1)))
    ]  # fmt: skip
    assert [*causes(compared(tmp_path, steps))] == ["cell.kept"]


def test_what_ran_between_ends_a_call_of_a_module_where_operations_alone_were_recorded(tmp_path: Path) -> None:
    """The state that a cell left behind went through the code of the network."""
    calls = [
        call("cell/mul", None),
        call("head/linear", "cell/mul"),
        call("cell/add", "cell/mul", bad=0.5),
    ]
    record(tmp_path / "left", calls)
    record(tmp_path / "right", [*calls[:2], call("cell/add", "head/linear")], is_good=True)
    assert causes(reported(tmp_path)) == {"cell/add": Region("", ("cell/mul",), "cell/add", "output")}


def test_a_softmax_makes_a_large_error_of_scores_that_a_mask_dominates(tmp_path: Path) -> None:
    """It is named where its inputs are equal alone, or its error is out of all proportion."""
    for name, factor, said in (("few", 20, {"mul": None}), ("many", 5000, {"mul": None, "a/softmax": None})):
        calls = [
            call("before", None),
            call("mul", "before", bad=2e-3),
            call("a/softmax", "mul", bad=2e-3 * factor),
        ]
        for side in ("left", "right"):
            record(tmp_path / name / side, calls, is_good=side == "right", types={"a/softmax": "softmax"})
        assert [*causes(reported(tmp_path / name))] == [*said]


def test_an_operation_on_the_network_s_input_may_be_given_a_wrong_view_of_it(tmp_path: Path) -> None:
    calls = [call("stem/conv2d", None, bad=0.5, inside="stem"), call("stem", "stem/conv2d", bad=0.5)]
    assert causes(compared(tmp_path, calls)) == {"stem/conv2d": Region("", (), "stem/conv2d", "output")}


def test_a_region_is_saved_and_said_in_both_languages(tmp_path: Path) -> None:
    report = compared(tmp_path, ATTENTION, GIVEN)
    cause = next(one for one in report.records if one.role == "cause")
    assert reason_of(cause, ENGLISH) == "bounded: in block, after qkv, before the input of o"
    assert reason_of(cause, Phrases("zh")) == "已限定范围：在 block 中，位于 qkv 之后，o 的输入之前"
    assert checked_record(json.loads(json.dumps(to_json(cause))), place="here").role_why == cause.role_why


def test_one_mistake_in_equal_blocks_is_one_line_and_others_are_lines_of_their_own(tmp_path: Path) -> None:
    calls = [
        call(f"blocks.{number}.{name}", None, bad=0.5 if name in ("act", "norm") and number else 0.0)
        for number in range(4)
        for name in ("fc", "act", "norm")
    ]
    told = role_lines(compared(tmp_path, calls), width=200)
    assert [line.split(" (op")[0].strip() for line in told if "  cause " in line] == [
        "cause blocks.1.act",
        "cause blocks.1.norm",
    ]
    assert [line.strip() for line in told if "the same" in line] == [
        "the same in 2 more: blocks.2.act, blocks.3.act",
        "the same in 2 more: blocks.2.norm, blocks.3.norm",
    ]
    assert (
        len(
            [
                line
                for line in role_lines(compared(tmp_path / "b", calls), width=200, unfolded=True)
                if " cause " in line
            ]
        )
        == 6
    )


def test_a_tensor_that_the_network_makes_of_nothing_is_wrong_in_the_module_that_made_it(tmp_path: Path) -> None:
    """Nothing says what is behind the tensor; all that ran before it passes, and each call is given it anew."""
    steps = [call("places", "?", bad=0.5, inside="Net") for _ in range(3)]
    calls = [call("embed", None, inside="Net"), *steps, call("Net", None, "places@2", bad=0.5)]
    assert causes(compared(tmp_path / "made", calls)) == {"places": Region("Net", (), "places", "output")}
    given = {"embed": "g", "places": "b", "Net": "g"}
    assert causes(compared(tmp_path / "with inputs", calls, given)) == {"Net": Region("Net", (), "places", "input")}
    # The module around was given it, so that it may be made anywhere.
    calls[-1] = call("Net", "?", "places@2", bad=0.5)
    assert causes(compared(tmp_path / "given", calls)) == {"places": Region("", (), "places", "output")}


def test_behind_a_failure_a_tensor_of_unknown_making_leaves_its_reader_unknown(tmp_path: Path) -> None:
    calls = [call("embed", None, bad=0.5), call("places", "?", bad=0.5), call("head", "places", bad=0.5)]
    for name, given in (("outputs", {}), ("with inputs", {"embed": "g", "places": "b"})):
        found = roles(compared(tmp_path / name, calls, given))
        assert found["places"] == ("unknown", ())
        assert found["head"] == ("inherited", ("places:output:0",))


@pytest.mark.parametrize(("given", "module"), [(["c0"], "Net"), ([None, "c0"], "c0")])
def test_what_another_layer_was_given_elsewhere_does_not_show_that_it_was_given_right(
    tmp_path: Path, given: list[str | None], module: str
) -> None:
    """The state of one layer is what the next goes on from, which passes; a state of both is another input."""
    calls = [
        call("c0.k", None, inside="c0"),
        call("c0", None, "c0.k", inside="Net"),
        call("c1.k", given[0], inside="c1"),
        call("c1", *given, "c1.k", inside="Net"),
        call("c0.k", "c0@0", bad=0.5, inside="c0"),
        call("c0", None, "c0@0", "c0.k@1", bad=0.5, inside="Net"),
        call("Net", "c0@1", bad=0.5),
    ]
    types = {"c0": "Cell", "c1": "Cell"}
    for side in ("left", "right"):
        record(tmp_path / side, calls, is_good=side == "right", types=types)
    assert causes(reported(tmp_path)) == {"c0.k": Region(module, ("c0",), "c0.k", "output")}
