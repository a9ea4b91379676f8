"""A suite from its file, the command line, ini keys and defaults."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching.coordinates import Align
from pytest_msdump.core.matching.selection import MapEntry, Selection
from pytest_msdump.core.suite import SideChoice, Suite, load_suite

SIDES = 'left = "run"\nright = "ref"\n'

# The sample of the contract.
SAMPLE = """
[msdump]
left   = "target"                       # relative to this file; or { path = "…", rank = 0, iteration = "0|2-3", … }
right  = "reference"
fusion = "fusion.json"                  # optional
graph_files = ["trace_code_graph_0.ir"] # optional: graphs kept outside the dump tree
profile = "default"
io = "output"
nan = "match"                           # or "forbid"
min_coverage = 0.9                      # optional
right_format = "NHWC"                   # optional: the reference's axis order for 4-D tensors; left_format likewise

[[msdump.map]]                          # pairs that no fusion file knows; wins over everything else
left    = "Default/conv1-Conv2d/BiasAdd-op0"
right   = "conv1"
reshape = true                          # optional: same values in C order, other shape
transpose = [0, 3, 1, 2]                # optional: axes of the right side, to meet the left

[[msdump.rule]]                         # ordered; for each metric the last matching rule wins
match   = "*"
op_type = ["MatMul", "Conv2D"]          # optional
dtype   = "float16"                     # optional: the coarser side's
cosine_similarity = 0.999               # fails below; { fail = 0.999, warn = 0.9999 } adds a second level
max_relative_error = 1e-2               # fails above

[[msdump.known_drift]]                  # accepted for a while, with a reason and an end
match  = "softmax_*"
reason = "exp approximation, ticket ACC-412"
until  = 2027-01-31                     # inclusive, UTC
max_relative_error = 4e-3
"""


def write(folder: Path, text: str, name: str = "msdump.toml") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def load(folder: Path, keys: str = SIDES, **options: Any) -> Suite:
    file = write(folder, f"[msdump]\n{keys}")
    return load_suite(file=file, options=options, directory=folder)


def test_everything_that_can_be_said_in_a_file(tmp_path: Path) -> None:
    suite = load(
        tmp_path,
        """
        left = { path = "run", rank = 0, iteration = "0|2-3", graph = "all", net = "LeNet" }
        right = { path = "ref" }
        select = "conv*"
        deselect = ["fc1", "fc2"]
        io = "all"
        iteration = "2-3"
        rank = 0
        graph = "all"
        granularity = "tensor"
        report = ["csv", "json"]
        report_dir = "out"
        profile = "strict"
        nan = "forbid"
        left_format = "NCHW"
        align = { iteration = "9->0, 10->1", net = "A->B" }
        [[msdump.map]]
        left = "a:output:0"
        right = "b:output:1"
        rank = 1
        net = "LeNet"
        graph = 2
        iteration = 3
        [[msdump.map]]
        left = "c"
        right = "d"
        [[msdump.rule]]
        cosine = { fail = 0.99, warn = 0.999 }
        mean_abs = { warn = 0.5 }
        op_type = "MatMul"
        [[msdump.rule]]
        match = "conv*"
        allclose = { rtol = 1e-3, atol = 1e-5 }
        """,
    )
    assert suite.left == SideChoice(tmp_path / "run", net="LeNet", rank="0", iteration="0|2-3")
    assert suite.right == SideChoice(tmp_path / "ref")
    assert suite.selection == Selection(
        select=("conv*",), deselect=("fc1", "fc2"), io="all", iteration=frozenset({2, 3}), rank=frozenset({0})
    )
    assert (suite.options["granularity"], suite.options["report"], suite.report_dir) == (
        "tensor",
        ("csv", "json"),
        tmp_path / "out",
    )
    assert suite.align == Align(iteration=((9, 0), (10, 1)), net=(("A", "B"),))
    assert suite.left_format == "NCHW"
    assert suite.entries == (
        MapEntry("a:output:0", "b:output:1", rank=1, net="LeNet", graph=2, iteration=3, label=suite.entries[0].label),
        MapEntry("c", "d", label="msdump.toml [[msdump.map]] #2"),
    )
    first, second = suite.policy.rules
    assert first.bounds == {"cosine_similarity": (0.99, 0.999), "mean_absolute_error": (None, 0.5)}
    assert (first.op_type, first.label) == (("MatMul",), 'msdump.toml [[msdump.rule]] #1 match="*"')
    assert (second.bounds, second.rtol, second.atol) == ({"allclose": (0.0, None)}, 1e-3, 1e-5)
    assert second.label == 'msdump.toml [[msdump.rule]] #2 match="conv*"'
    assert (suite.policy.profile, suite.policy.nan) == ("strict", "forbid")
    assert suite.policy.nan_rule == 'msdump.toml [msdump] nan = "forbid"'


def test_rules_maps_and_drifts_keep_their_order(tmp_path: Path) -> None:
    rules = "".join(f'[[msdump.rule]]\nmatch = "{name}"\ncosine = 0.9\n' for name in "zab")
    maps = "".join(f'[[msdump.map]]\nleft = "{name}"\nright = "r"\n' for name in "zab")
    drifts = "".join(
        f'[[msdump.known_drift]]\nmatch = "{name}"\nreason = "r"\nuntil = "2027-01-31"\nkld = 1\n' for name in "zab"
    )
    suite = load(tmp_path, SIDES + rules + maps + drifts)
    assert [rule.match for rule in suite.policy.rules] == list("zab")
    assert [entry.left for entry in suite.entries] == list("zab")
    assert [drift.match for drift in suite.policy.known_drift] == list("zab")


def test_a_suite_survives_pickling(tmp_path: Path) -> None:
    suite = load_suite(file=write(tmp_path, SAMPLE), options={"threshold": ["cosine=0.9"]}, directory=tmp_path)
    assert pickle.loads(pickle.dumps(suite)) == suite


# -- paths ---------------------------------------------------------------------------------------------------------


def test_paths_in_the_file_start_from_its_folder_and_options_from_the_working_one(tmp_path: Path) -> None:
    keys = SIDES + 'report_dir = "out"\ngraph_files = ["g.ir", "/abs/h.ir"]\n'
    file = write(tmp_path / "suite", f"[msdump]\n{keys}")
    from_file = load_suite(file=file, options={}, directory=tmp_path / "cwd")
    assert from_file.left.path == tmp_path / "suite" / "run"
    assert from_file.report_dir == tmp_path / "suite" / "out"
    assert from_file.graph_files == (tmp_path / "suite" / "g.ir", Path("/abs/h.ir"))
    typed = load_suite(file=file, options={"left": "run", "report_dir": "out"}, directory=tmp_path / "cwd")
    assert typed.left.path == tmp_path / "cwd" / "run"
    assert typed.right.path == tmp_path / "suite" / "ref"
    assert typed.report_dir == tmp_path / "cwd" / "out"


# -- who overrides whom --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("keys", "option", "read", "expected"),
    [
        ('profile = "strict"', {"profile": "ascend"}, lambda s: s.policy.profile, ("default", "strict", "ascend")),
        ('io = "all"', {"io": "input"}, lambda s: s.selection.io, ("output", "all", "input")),
        ('select = "a"', {"select": ["b", "c"]}, lambda s: s.selection.select, ((), ("a",), ("b", "c"))),
        ('deselect = "a"', {"deselect": ["b"]}, lambda s: s.selection.deselect, ((), ("a",), ("b",))),
        ('iteration = "1"', {"iteration": "2"}, lambda s: s.selection.iteration, (None, {1}, {2})),
        ('rank = "1"', {"rank": "all"}, lambda s: s.selection.rank, (None, {1}, None)),
        ("graph = 1", {"graph": "2-3"}, lambda s: s.selection.graph, (None, {1}, {2, 3})),
        (
            'align = { iteration = "9->0" }',
            {"align": ["iteration=8->0, 9->1", "iteration=10->2"]},
            lambda s: s.align.iteration,
            ((), ((9, 0),), ((8, 0), (9, 1), (10, 2))),
        ),
        ('granularity = "tensor"', {"granularity": "op"}, lambda s: s.options["granularity"], ("op", "tensor", "op")),
        ("min_coverage = 0.5", {"min_coverage": "75"}, lambda s: s.options["min_coverage"], (None, 0.5, 0.75)),
        ('min_coverage = "50%"', {"min_coverage": "0"}, lambda s: s.options["min_coverage"], (None, 0.5, 0.0)),
        (
            'report = "csv"',
            {"report": "json,csv"},
            lambda s: s.options["report"],
            (("json",), ("csv",), ("json", "csv")),
        ),
        ('report_dir = "f"', {"report_dir": "o"}, lambda s: s.report_dir.name, ("msdump-report", "f", "o")),
        ("", {"threshold": ["kld=1"]}, lambda s: s.policy.thresholds, ({}, {}, {"kld": 1.0})),
    ],
)
def test_command_line_over_file_over_default(
    tmp_path: Path, keys: str, option: dict[str, Any], read: Any, expected: tuple[Any, Any, Any]
) -> None:
    unsaid = dict.fromkeys(option)
    assert read(load(tmp_path, SIDES, **unsaid)) == expected[0]
    assert read(load(tmp_path, f"{SIDES}{keys}\n", **unsaid)) == expected[1]
    assert read(load(tmp_path, f"{SIDES}{keys}\n", **option)) == expected[2]


def test_ini_keys_are_below_the_file_and_relative_to_the_rootdir(tmp_path: Path) -> None:
    file = write(tmp_path / "suite", '[msdump]\nleft = "run"\nprofile = "strict"\n')
    ini = {"left": "ini-run", "right": "ini-ref", "profile": "ascend", "granularity": "tensor", "min_coverage": "50"}
    suite = load_suite(
        file=file, options={"granularity": "op"}, directory=tmp_path / "cwd", ini=ini, rootdir=tmp_path / "root"
    )
    assert suite.left.path == tmp_path / "suite" / "run"
    assert suite.right.path == tmp_path / "root" / "ini-ref"
    assert (suite.policy.profile, suite.options["granularity"], suite.options["min_coverage"]) == ("strict", "op", 0.5)


def test_another_directory_keeps_the_coordinates_that_the_file_takes(tmp_path: Path) -> None:
    keys = 'left = { path = "run", rank = 1 }\nright = { path = "ref", iteration = 0 }\n'
    suite = load(tmp_path, keys, left="new", right="old")
    assert suite.left == SideChoice(tmp_path / "new", rank="1")
    assert suite.right == SideChoice(tmp_path / "old", iteration="0")


def test_a_spec_on_the_command_line_replaces_the_files_for_the_left_side(tmp_path: Path) -> None:
    keys = 'left = { path = "run", rank = 1, iteration = 2 }\nright = { path = "ref", iteration = 0 }\n'
    suite = load(tmp_path, keys, iteration="5")
    assert suite.left == SideChoice(tmp_path / "run", rank="1")
    assert suite.right == SideChoice(tmp_path / "ref", iteration="0")
    assert suite.selection.iteration == {5}


def test_of_two_thresholds_for_one_metric_the_later_holds_as_typed(tmp_path: Path) -> None:
    typed = ["cosine=0.9", "cosine_similarity=0.99", "kld=1", "cosine=0.8"]
    assert load(tmp_path, threshold=typed).policy.thresholds == {"cosine": 0.8, "kld": 1.0}
    assert load(tmp_path, threshold=typed[:2]).policy.thresholds == {"cosine_similarity": 0.99}


def test_typed_arrows_leave_those_of_other_coordinates_standing(tmp_path: Path) -> None:
    suite = load(tmp_path, f'{SIDES}align = {{ iteration = "9->0", rank = "4->0" }}\n', align=["iteration = 9 -> 1"])
    assert suite.align == Align(iteration=((9, 1),), rank=((4, 0),))


# -- where a table stands ------------------------------------------------------------------------------------------


def test_the_table_of_a_pyproject_is_called_by_its_own_titles(tmp_path: Path) -> None:
    table = {
        "left": "run",
        "right": "ref",
        "nan": "forbid",
        "rule": [{"cosine": 0.9}],
        "map": [{"left": "a", "right": "b"}],
    }
    file = tmp_path / "pyproject.toml"
    suite = load_suite(file=file, table=table, options={}, directory=tmp_path)
    assert suite.left.path == tmp_path / "run"
    assert suite.policy.rules[0].label == 'pyproject.toml [[tool.msdump.rule]] #1 match="*"'
    assert suite.policy.nan_rule == 'pyproject.toml [tool.msdump] nan = "forbid"'
    assert suite.entries[0].label == "pyproject.toml [[tool.msdump.map]] #1"


def test_a_pyproject_named_as_the_file_is_read_at_its_table(tmp_path: Path) -> None:
    text = '[project]\nname = "p"\n[tool.msdump]\nleft = "run"\nright = "ref"\n[[tool.msdump.rule]]\nkld = 1\n'
    suite = load_suite(file=write(tmp_path, text, "pyproject.toml"), options={}, directory=tmp_path)
    assert suite.policy.rules[0].label.startswith("pyproject.toml [[tool.msdump.rule]] #1")


def test_a_pyproject_without_the_table_is_refused(tmp_path: Path) -> None:
    file = write(tmp_path, '[project]\nname = "p"\n', "pyproject.toml")
    with pytest.raises(ConfigError) as excinfo:
        load_suite(file=file, options={}, directory=tmp_path)
    assert str(excinfo.value) == "pyproject.toml: has no table [tool.msdump]"


@pytest.mark.e2e
def test_loading_imports_no_numpy() -> None:
    program = "import sys, pytest_msdump.core.suite; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
