"""The benchmark of strangers' folders holds pairs to the truth, on folders that are made without a framework."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from strangers.folders import chosen, write
from strangers.held_out_styles import HELD_OUT_STYLES
from strangers.judge import Judged, count
from strangers.port import Port
from strangers.styles import STYLES, Style
from strangers.tensors import Recording, Tensor
from strangers.truth import Meaning, Truth, meaning_of, truth_of, wrong_by_value

ALL_STYLES = STYLES | HELD_OUT_STYLES
ROOT = Path(__file__).parent.parent
VALUES = list(np.random.default_rng(0).normal(size=(6, 2, 8)).astype("f4"))


def _recording(**values: object) -> Recording:
    """One module each, in this order; those that hold the same array are one tensor."""
    return Recording(
        tuple(
            Tensor(path.replace("__", "."), array, origin=path.replace("__", "."), identity=id(array))
            for path, array in values.items()
        )
    )


# Four layers, three of which are joined on the other side; a container that returns what its last layer returned.
RIGHT = _recording(
    embed=VALUES[0],
    layers__0__q=VALUES[1],
    layers__0__k=VALUES[2],
    layers__0__out=VALUES[3],
    layers__0=VALUES[3],
    act=VALUES[4],
    head=VALUES[5],
)
LEFT = _recording(
    tok=VALUES[0],
    h__0__qk=np.concatenate([VALUES[1], VALUES[2]], -1),
    h__0__proj=VALUES[3],
    dropout=VALUES[3] * 2,
    head=VALUES[5],
)
PORT = Port(
    "port",
    build=lambda: None,  # type: ignore[arg-type, return-value]
    same={"tok": "embed", "h.{i}.proj": "layers.{i}.out", "head": "head"},
    parts=[(("h.{i}.qk",), ("layers.{i}.q", "layers.{i}.k"))],
)
TRUE = [("tok", "embed"), ("h.0.proj", "layers.0.out"), ("head", "head")]
JOINED = [("h.0.qk", "layers.0.q"), ("h.0.qk", "layers.0.k")]


def _truth(tmp_path: Path, left_style: Style, right_style: Style, meaning: Meaning | None = None) -> Truth:
    keys = [
        write(chosen(recording, "all"), style, tmp_path / side)
        for recording, style, side in ((LEFT, left_style, "left"), (RIGHT, right_style, "right"))
    ]
    truth = Truth("model", "port", "good", left_style.name, right_style.name)
    return truth_of(truth, meaning or meaning_of(PORT, LEFT, RIGHT), *keys)


def _files(pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(f"{left}.npy", f"{right}.npy") for left, right in pairs]


def test_the_truth_is_what_the_table_says_with_what_is_one_tensor(tmp_path: Path) -> None:
    truth = _truth(tmp_path, STYLES["bare"], STYLES["bare"])
    both = [*TRUE, ("h.0.proj", "layers.0")]
    assert sorted(map(tuple, truth.pairs)) == sorted(_files(both))
    assert truth.parts == [[["h.0.qk.npy"], ["layers.0.q.npy", "layers.0.k.npy"]]]
    assert (truth.alone_left, truth.alone_right) == (["dropout.npy"], ["act.npy"])


def test_a_table_that_the_values_contradict_is_told() -> None:
    assert wrong_by_value(PORT, meaning_of(PORT, LEFT, RIGHT), LEFT, RIGHT) == []
    swapped = Port("swapped", PORT.build, {**PORT.same, "tok": "head", "head": "embed"}, PORT.parts)
    problems = wrong_by_value(swapped, meaning_of(swapped, LEFT, RIGHT), LEFT, RIGHT)
    assert [problem.split(",")[0] for problem in problems] == [
        "swapped: tok should be head",
        "swapped: head should be embed",
    ]
    unknown = Port("unknown", PORT.build, {"tok": "wte"})
    with pytest.raises(ValueError, match="tok should be wte, which is not recorded"):
        meaning_of(unknown, LEFT, RIGHT)


@pytest.mark.parametrize(
    ("pairs", "paired", "wrong"),
    [
        ([*TRUE, *JOINED], 5, []),
        ([("h.0.proj", "layers.0")], 1, []),
        ([("h.0.proj", "layers.0"), ("h.0.proj", "layers.0.out")], 1, []),
        ([("tok", "head")], 0, [("tok", "head")]),
        ([("dropout", "act"), ("tok", "embed")], 1, [("dropout", "act")]),
        # The whole of a joined tensor against one of its parts.
        (JOINED[:1], 0, JOINED[:1]),
    ],
    ids=["all", "container", "twice", "crossed", "without a partner", "one part"],
)
def test_pairs_are_held_to_the_truth(
    pairs: list[tuple[str, str]], paired: int, wrong: list[tuple[str, str]], tmp_path: Path
) -> None:
    found = Judged("folder", "compare", _truth(tmp_path, STYLES["bare"], STYLES["bare"]))
    count(found, _files(pairs))
    assert (found.quantities, found.paired, found.wrong) == (5, paired, _files(wrong))
    assert len(found.missed) == 5 - paired


@pytest.mark.parametrize("name", [name for name, style in ALL_STYLES.items() if not style.is_torch])
def test_a_style_gives_every_tensor_a_file_of_its_own(name: str, tmp_path: Path) -> None:
    kept = write(RIGHT.tensors, ALL_STYLES[name], tmp_path / "dump")
    assert len(kept) == len(RIGHT.tensors)
    files = {path.relative_to(tmp_path / "dump").as_posix() for path in (tmp_path / "dump").rglob("*.np?")}
    assert files == {key.partition("::")[0] for key in kept}
    for key, tensor in kept.items():
        file, _, member = key.partition("::")
        saved = np.load(tmp_path / "dump" / file)
        np.testing.assert_array_equal(saved[member] if member else saved, tensor.values)


def test_counters_count_the_files_of_a_folder(tmp_path: Path) -> None:
    kept = write(LEFT.tensors, STYLES["counter"], tmp_path / "dump")
    assert [*kept] == ["000_tok.npy", "001_h.0.qk.npy", "002_h.0.proj.npy", "003_dropout.npy", "004_head.npy"]


def test_styles_are_those_that_people_use() -> None:
    said = {name: _named(style) for name, style in STYLES.items()}
    assert said["dots"] == "layers.0.self_attn.q_proj.0.TIME.npy"
    assert said["underscored"] == "layers_0_self_attn_q_proj.0.TIME.npy"
    assert said["singular"] == "layer0_self_attn_q_proj.0.TIME.npy"
    assert said["camel"] == "layers.0.selfAttn.qProj.0.TIME.npy"
    assert said["pascal"] == "Layers0SelfAttnQProj.npy"
    assert said["synonyms"] == "blocks_0_attention_wq.0.TIME.npy"
    assert said["tag"] == "00017__layers_0_self_attn_q_proj.npy"
    assert said["pt_counter"] == "017_layers_0_self_attn_q_proj.pt"
    assert said["tensordump"] == "layers_0_self_attn_q_proj_float32_17.npy"
    assert len(set(said.values())) >= 20


def _named(style: Style) -> str:
    from strangers.styles import Words

    return style.file(Words("layers.0.self_attn.q_proj", 0, 0, "output", 17, 123, "float32")).replace("123", "TIME")


@pytest.mark.e2e
@pytest.mark.parametrize("deceives", [False, True], ids=["by name", "name that deceives"])
def test_the_judge_prints_what_compare_and_init_pair(deceives: bool, tmp_path: Path) -> None:
    meaning = meaning_of(PORT, LEFT, RIGHT)
    if deceives:
        # What is called the same on both sides is another tensor.
        meaning = Meaning({**meaning.left, "head": meaning.right["act"]}, meaning.right, meaning.parts)
    folder = tmp_path / "000-model-port-good"
    truth = _truth(folder, STYLES["dots"], STYLES["underscored"], meaning)
    truth.namesakes = []
    truth.write(folder / "truth.json")
    command = [sys.executable, "-m", "benchmarks.strangers.judge", tmp_path, "--init", "--worst", "2"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode == int(deceives), ran.stdout + ran.stderr
    rows = [line.split() for line in ran.stdout.splitlines() if line.startswith(("compare ", "init "))]
    by_way = {row[0]: row[1:] for row in rows if row[1] == "1"}
    # By name one is found; values find more where they are looked at.
    assert by_way["compare"][:3] == ["1", "0" if deceives else "1", "5"]
    assert by_way["init"][2] == "5"
    assert int(by_way["init"][1]) > int(by_way["compare"][1])
    assert (f"WRONG: {folder.name}: compare: 1 wrong pairs" in ran.stdout) == deceives


@pytest.mark.e2e
def test_a_suite_that_init_writes_for_a_good_pair_has_to_pass(tmp_path: Path) -> None:
    folder = tmp_path / "000-model-port-good"
    _truth(folder, STYLES["dots"], STYLES["underscored"]).write(folder / "truth.json")
    command = [sys.executable, "-m", "benchmarks.strangers.judge", tmp_path, "--init"]
    passing = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert "\n1 of 1 suites of good pairs pass when they are run\n" in passing.stdout
    np.save(next((folder / "left").glob("head.*")), VALUES[5] * 1.5)
    failing = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert failing.returncode == 1
    assert "\n0 of 1 suites of good pairs pass when they are run\n" in failing.stdout
