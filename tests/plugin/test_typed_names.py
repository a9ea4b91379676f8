"""Every place that takes a name finds the operator in each spelling; a module's path finds what leaves it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore, write_reference

from pytest_msdump import open_dump
from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

FC = "Default/layer0-Enc/fc1-Dense/MatMul-op0"
BIAS = "Default/layer0-Enc/fc2-Dense/BiasAdd-op0"
VALUES = np.linspace(1, 2, 6, dtype=np.float32).reshape(2, 3)
NORM = "Default/layer0-Enc/norm-LayerNorm/LayerNorm-op0"
# `fc1` agrees, the others drift; a glob "layer.*" does not mean `layer_norm`.
RIGHT = {"fc1": VALUES, "fc2": VALUES * np.float32(1.02), "layer_norm": VALUES * np.float32(1.02)}
SUITE = """[msdump]
left = "run"
right = "ref"
pair_by = ["name", "map"]
[[msdump.map]]
left = "Default_layer0-Enc_fc1-Dense_MatMul-op0"
right = "fc1"
[[msdump.map]]
left = "Default_layer0-Enc_fc2-Dense_BiasAdd-op0"
right = "fc2"
[[msdump.map]]
left = "Default_layer0-Enc_norm-LayerNorm_LayerNorm-op0"
right = "layer_norm"
"""
NAMES = [
    "Default_layer0-Enc_fc2-Dense_BiasAdd-op0",
    BIAS,
    BIAS.replace("/", "--"),
    f"BiasAdd.{BIAS}",
    f"{BIAS}:output:0",
    "fc2",
]
GLOBS = ["Default/layer0-Enc/fc2*", "Default_*_fc2-Dense_*", "BiasAdd.Default/*", "*--fc2-Dense--*"]
# Reading a graph is what makes modules known.
PATHS = ["layer0.fc2", "Default/layer0-Enc/fc2-Dense"]


def write(*, graph: bool = False) -> None:
    """Write both sides and the suite into the current folder; true names are known with a graph only."""
    tensors = [(name.rpartition("/")[2][:-4], name, "output", 0, VALUES) for name in (FC, BIAS, NORM)]
    if graph:
        tensors.append(("GeLU", "Default/layer1-Enc/GeLU-op0", "output", 0, VALUES))
    write_mindspore(Path("run"), tensors, execution_order=graph)
    write_reference(Path("ref"), RIGHT)
    Path("all.msdump.toml").write_text(SUITE, "utf-8")


def judged(*words: str) -> dict[str, str]:
    """Compare by the suite; return verdicts by the right name."""
    main(["compare", "--config", "all.msdump.toml", *words])
    report = read_json(Path("msdump-report/results.json"))
    return {one["right"]["address"].partition(":")[0]: one["verdict"] for one in report["tensors"]}


@pytest.fixture(params=[False, True], ids=["files", "graph"])
def known(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.chdir(tmp_path)
    write(graph=request.param)
    return bool(request.param)


@pytest.fixture
def names(known: bool) -> list[str]:
    return NAMES + PATHS if known else NAMES


def test_selecting_and_leaving_out(names: list[str]) -> None:
    for typed in (*names, *GLOBS):
        assert judged("--select", typed) == {"fc2": "fail"}, typed
        assert judged("--deselect", typed) == {"fc1": "pass", "layer_norm": "fail"}, typed
    assert judged("--select", "layer.*") == {}


def test_a_module_of_which_it_is_unknown_what_leaves_it_is_an_error_everywhere(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    relus = [("ReLU", f"Default/act-ReLU/ReLU-op{n}", "output", 0, VALUES) for n in range(2)]
    write_mindspore(Path("run"), relus)
    for words in (["--select", "act"], ["--deselect", "act"], ["-d", "act"]):
        assert main(["compare", "run", "run", *words]) == 4
        assert "act is called several times" in capsys.readouterr().err
    assert "act" not in open_dump("run")
    with pytest.raises(KeyError, match="act is called several times"):
        open_dump("run").read("act")
    Path("msdump.toml").write_text('[msdump]\nleft = "run"\nright = "run"\n', "utf-8")
    result = pytester.runpytest("msdump.toml::act")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*act is called several times*"])
    # An operator of that name wins, whatever the module is.
    write_mindspore(Path("run"), [("Abs", "act", "output", 0, VALUES)])
    assert open_dump("run").read("act").shape == VALUES.shape
    assert main(["compare", "run", "run", "-d", "act"]) == 0
    assert pytester.runpytest("msdump.toml::act").parseoutcomes() == {"passed": 1}


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("table", ["rule", "known_drift"])
def test_limits(table: str) -> None:
    """A glob that no operator has as it was typed never loosens the limits of another one."""
    more = 'reason = "r"\nuntil = 2099-12-31\n' if table == "known_drift" else ""
    for typed in (*NAMES[:3], *NAMES[4:], GLOBS[0], GLOBS[1], GLOBS[3]):
        entry = f'[[msdump.{table}]]\nmatch = "{typed}"\n{more}rel_euclid = 0.1\nnorm_max = 0.1\n'
        Path("all.msdump.toml").write_text(SUITE + entry, "utf-8")
        assert judged()["fc2"] in ("pass", "warn"), typed
        assert judged("--select", "fc2").keys() == {"fc2"}
        assert main(["check", "msdump-report/results.json", "--config", "all.msdump.toml"]) == 0, typed
    Path("all.msdump.toml").write_text(SUITE + entry.replace(typed, "layer.*"), "utf-8")
    assert judged()["layer_norm"] == "fail"


def test_accepting_by_the_path_that_the_map_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(graph=True)
    Path("all.msdump.toml").write_text(SUITE.replace("Default_layer0-Enc_fc2-Dense_BiasAdd-op0", "layer0.fc2"), "utf-8")
    assert judged() == {"fc1": "pass", "fc2": "fail", "layer_norm": "fail"}
    assert main(["accept", "msdump-report", "layer0.fc2", "--reason", "r", "--until", "2099-12-31"]) == 0
    assert judged() == {"fc1": "pass", "fc2": "warn", "layer_norm": "fail"}


def test_ids_keywords_and_markers_of_pytest(names: list[str], pytester: pytest.Pytester) -> None:
    # `pytester` has a folder of its own.
    write(graph=len(names) > len(NAMES))
    pytester.makepyfile(
        test_pairs=f"""
        import pytest
        @pytest.mark.msdump_pairs(left="run", right="ref", map={{"{BIAS}": "fc2"}}, select=["{GLOBS[0]}"])
        def test_pair(msdump_pair):
            assert "fc2" in msdump_pair.left.key.address
        """
    )
    assert pytester.runpytest("test_pairs.py").parseoutcomes() == {"passed": 1}
    for typed in names:
        result = pytester.runpytest(f"all.msdump.toml::{typed}", "--collect-only", "-q")
        assert ["fc2" in line for line in result.outlines if "::" in line] == [True], (typed, result.outlines)
        if ":" not in typed and "--" not in typed:
            result = pytester.runpytest("all.msdump.toml", "-k", typed.removeprefix("BiasAdd."), "--collect-only", "-q")
            assert ["fc2" in line for line in result.outlines if "::" in line] == [True], (typed, result.outlines)


def test_a_precise_name_wins_and_coordinates_may_follow_any_spelling(pytester: pytest.Pytester) -> None:
    for rank in (0, 1):
        tensors = [("MatMul", name, "output", 0, VALUES) for name in ("a.b", "c")]
        write_mindspore(Path("run"), tensors, rank=rank, execution_order=False)
    write_reference(Path("ref"), {"x": VALUES, "a.b": VALUES})
    maps = "".join(f'[[msdump.map]]\nleft = "{a}"\nright = "{b}"\n' for a, b in (("a_b", "x"), ("c", "a.b")))
    Path("msdump.toml").write_text(f'[msdump]\nleft = "run"\nright = "ref"\n{maps}', "utf-8")

    def ids(typed: str) -> list[str]:
        outlines = pytester.runpytest(f"msdump.toml::{typed}", "--collect-only", "-q").outlines
        return [line.partition("::")[2] for line in outlines if "::" in line]

    # `a.b` is the reference's name of `c`; that the other's file is called `a_b` comes after that.
    assert ids("a.b") == ["c[rank0]", "c[rank1]"]
    assert ids("a.b[rank1]") == ["a_b[rank1]"]
    assert ids("a_b") == ["a_b[rank0]", "a_b[rank1]"]
