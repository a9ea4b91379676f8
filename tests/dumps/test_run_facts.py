"""What the small files beside a dump say of its run, in every release's spelling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.capabilities.run_facts.indexing import configuration_of, read_run
from pytest_msdump.core.model.dump import DumpConfiguration
from pytest_msdump.core.model.tensor import OpKey

REAL = Path(__file__).parents[1] / "data" / "run_facts"


def said(device: str | None = "Ascend", e2e: dict[str, Any] | None = None, **common: Any) -> DumpConfiguration:
    document = {"common_dump_settings": common, "e2e_dump_settings": e2e or {}}
    found = configuration_of(document, source="data_dump.json", device=device)
    assert found is not None
    return found


def acl(**section: Any) -> DumpConfiguration:
    found = configuration_of({"dump": section}, source="acl_dump_0.json")
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("iterations", "yes", "no"),
    [
        ("all", (0, 7, 10**9), ()),
        ("0|2-3", (0, 2, 3), (1, 4)),
        ("101|2", (2, 101), (0, 100, 102)),
        # MindSpore 2.10 takes these and dumps nothing for the bad parts.
        ("5-1", (), (1, 3, 5)),
        ("1-|4", (4,), (1, 2)),
        ("0|", (0,), (1,)),
        # Up to 1.3 a number, and 0 stands for all.
        (0, (0, 5), ()),
        (3, (3,), (0, 2)),
    ],
)
def test_iterations_are_selected_as_mindspore_selects_them(
    iterations: object, yes: tuple[int, ...], no: tuple[int, ...]
) -> None:
    one = said(iteration=iterations)
    assert all(map(one.selects_iteration, yes))
    assert not any(map(one.selects_iteration, no))


def test_the_list_of_kernels_counts_with_dump_mode_1_alone() -> None:
    assert said(dump_mode=1, kernels=["ReLU"]).kernels == ("ReLU",)
    assert said(dump_mode=0, kernels=["ReLU"]).kernels == ()
    assert said(dump_mode=1, kernels=[]).selects_operator(OpKey("x", op_type="Add"))
    assert said(dump_mode=2).by_script


@pytest.mark.parametrize(
    ("entry", "name", "answer"),
    [
        ("relu", "Default/net/ReLU-op0", True),
        ("ReLU", "Gradients/ReluGrad-op3", True),
        ("ReLU", "Default/relu-ReLU/Add-op0", False),
        ("Default/net/ReLU-op0", "Default/net/ReLU-op0", True),
        ("Default/net/ReLU-op0", "Default/other/ReLU-op0", False),
        # Numbers of gradients differ between graphs and files.
        ("Default/Conv2DBackpropInput-op1", "Default/Conv2DBackpropInput-op0", True),
        ("name-regex(Default/.+)", "Default/net/ReLU-op0", True),
        ("name-regex(Default/.)", "Default/net/ReLU-op0", False),
        # Nobody waits for an expression that a stranger wrote, nor for one that is none.
        ("name-regex((a+)+b)", "a" * 200, None),
        ("name-regex((()", "Default/net/ReLU-op0", None),
    ],
)
def test_an_entry_names_operators_by_full_name_type_or_expression(entry: str, name: str, answer: bool | None) -> None:
    one = said(dump_mode=1, kernels=[entry])
    assert one.selects_operator(OpKey(name.replace("/", "_"), true_name=name)) is answer


def test_a_mangled_name_is_judged_by_its_type_and_never_by_an_expression() -> None:
    mangled = OpKey("Default_relu-ReLU_Add-op0", op_type="Add")
    assert said(dump_mode=1, kernels=["ReLU"]).selects_operator(mangled) is False
    assert said(dump_mode=1, kernels=["add"]).selects_operator(mangled) is True
    assert said(dump_mode=1, kernels=["Default/relu-ReLU/Add-op0"]).selects_operator(mangled) is True
    assert said(dump_mode=1, kernels=["name-regex(.*Mul.*)"]).selects_operator(mangled) is None


def test_a_cpu_looks_for_no_overflow_and_takes_no_sample() -> None:
    sample = {"sample_mode": 1, "sample_num": 2}
    assert said("CPU", op_debug_mode=3).scene == ""
    assert said("CPU", op_debug_mode=4).scene == "exception"
    # MindSpore 2.10 on CPU saved whole tensors with exactly this.
    assert said("CPU", e2e=sample).sample is None
    assert said("Ascend", e2e=sample).sample == 2
    assert said("Ascend", e2e={"sample_mode": 1}).sample == 100
    assert said("Ascend", e2e={"sample_num": 5}).sample is None


def test_up_to_1_3_the_overflow_check_belongs_to_the_asynchronous_dump() -> None:
    document = {
        "common_dump_settings": {"dump_mode": 0, "iteration": 0, "input_output": 0},
        "async_dump_settings": {"enable": True, "op_debug_mode": 3},
        "e2e_dump_settings": {"enable": False},
    }
    assert configuration_of(document, source="x").scene == "overflow"  # type: ignore[union-attr]
    document["e2e_dump_settings"]["enable"] = True
    assert configuration_of(document, source="x").scene == ""  # type: ignore[union-attr]


def test_what_mindspore_writes_for_the_device_is_read() -> None:
    assert acl(dump_mode="output", dump_list=[{"layer": ["a", "b"]}], dump_op_switch="on").kernels == ("a", "b")
    assert acl(dump_mode="output").io == "output"
    assert acl(dump_list=[{"layer": ["a"]}, {"model_name": "whole"}]).kernels == ()
    assert acl(dump_debug="on").scene == "overflow"
    assert acl(dump_scene="lite_exception").scene == "exception"
    # "Nothing yet", at the beginning of every run.
    assert acl(dump_step="2147483647").selects_iteration(0)


def test_a_real_run_tells_version_device_and_configuration() -> None:
    run, notes = read_run(REAL / "listed")
    assert notes == ()
    assert run is not None
    assert (run.version, run.device) == ("2.10.0", "CPU")
    (one,) = run.configurations
    assert one == DumpConfiguration(
        "rank_0/.dump_metadata/data_dump.json", 0, io="output", iterations="0|2-3", kernels=("ReLU",)
    )
    assert run.configuration(0) == run.configuration(None) == one
    assert run.configuration(1) is None


@pytest.mark.parametrize("inside", ["rank_0", "rank_0/Net", "rank_0/Net/0/0"])
def test_a_directory_within_the_tree_is_told_by_the_same_files(inside: str) -> None:
    run, _ = read_run(REAL / "listed" / inside)
    assert run is not None
    assert [one.kernels for one in run.configurations] == [("ReLU",)]


def test_the_first_releases_keep_their_copy_above_the_nets(tmp_path: Path) -> None:
    (tmp_path / ".metadata").mkdir()
    (tmp_path / ".metadata" / "data_dump.json").write_text('{"common_dump_settings": {"iteration": 2}}')
    run, _ = read_run(tmp_path)
    assert run is not None
    assert run.configuration(5) == DumpConfiguration(".metadata/data_dump.json", None, iterations="2")


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b'"x"', b"\xff\xfe", b'{"other": 1}', b"[" * 100_000, b" " * (2**20 + 1)],
    ids=["empty", "cut", "list", "text", "binary", "other", "deep", "large"],
)
def test_a_bad_configuration_is_a_note_and_nothing_else(content: bytes, tmp_path: Path) -> None:
    folder = tmp_path / "rank_0" / ".dump_metadata"
    folder.mkdir(parents=True)
    (folder / "data_dump.json").write_bytes(content)
    run, notes = read_run(tmp_path)
    assert run is None
    (note,) = notes
    assert note.startswith("rank_0/.dump_metadata/data_dump.json ")
    assert note.endswith("so it is unknown what the run was set to dump")


@pytest.mark.parametrize("value", [None, [], {}, "x", -1, 1.5, True, 10**30])
def test_values_that_make_no_sense_count_as_not_said(value: object) -> None:
    keys = ("iteration", "input_output", "kernels", "op_debug_mode")
    one = said(**dict.fromkeys(keys, value), dump_mode=1, e2e={"sample_mode": 1, "sample_num": value})
    assert one.io == "all" or value is True
    assert one.kernels == ()
    assert one.sample in (None, 100) or isinstance(value, int)
