"""Whatever cannot be meant is refused, in one line that begins with its place and says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.suite import load_suite

SIDES = 'left = "run"\nright = "ref"\n'
KEYS = (
    "accept_looser, align, allow_incomplete, allow_uncompared, cache, close_fusion, compare_to, deselect, detail, "
    "dims, dtype_hint, exclude_types, fusion, golden, granularity, graph, graph_files, io, iteration, jobs, "
    "known_drift, left, left_format, limits, map, min_coverage, min_replayed, nan, pair_by, profile, "
    "quant_fusion, rank, report, report_dir, right, right_format, rule, select, shards, spread, third, without"
)


def refusal(folder: Path, text: str, **options: Any) -> str:
    file = folder / "msdump.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError) as excinfo:
        load_suite(file=file, options=options, directory=folder, environ={})
    assert "\n" not in str(excinfo.value)
    return str(excinfo.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[msdum]\n", "msdump.toml: unknown table or key 'msdum'; did you mean 'msdump'?"),
        ('left = "a"\n', "msdump.toml: unknown table or key 'left'; known: msdump"),
        ("msdump = 3\n", "msdump.toml: [msdump] must be a table"),
        ("[[msdump]]\n", "msdump.toml: [msdump] must be a table"),
    ],
)
def test_only_msdump_stands_at_the_top(tmp_path: Path, text: str, sentence: str) -> None:
    assert refusal(tmp_path, text) == sentence


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ('lefft = "x"', "[msdump]: unknown key 'lefft'; did you mean 'left'?"),
        ('om = "net.om"', f"[msdump]: unknown key 'om'; known: {KEYS}"),
        ("fusion = 3", "[msdump] fusion must be a text, not the number 3"),
        ('quant_fusion = ""', "[msdump] quant_fusion must not be empty"),
        ("close_fusion = []", "[msdump] close_fusion must be a text, not an array"),
        ("left = 3", "[msdump] left must be a path or { path = …, rank = … }, not the number 3"),
        ('left = ""', "[msdump] left must not be empty"),
        ('left = "a\\u0000b"', "[msdump] left: 'a\\x00b' holds a NUL byte, which no path can"),
        ('left = "~no-such-user/run"', "[msdump] left: '~no-such-user/run' names a home directory that is not known"),
        ("left = { rank = 0 }", "[msdump] left: needs 'path'"),
        (
            'left = { path = "x", step = 0 }',
            "[msdump] left: unknown key 'step'; known: dtype, graph, iteration, net, path, rank, shape",
        ),
        ('left = { path = "x", rank = -1 }', "[msdump] left.rank must be a whole number, 0 or more, not the number -1"),
        (
            'left = { path = "x", rank = 0.0 }',
            "[msdump] left.rank must be a whole number, 0 or more, not the number 0.0",
        ),
        (
            'left = { path = "x", iteration = "5-1" }',
            "[msdump] left.iteration: '5-1': the range 5-1 runs backwards; write 1-5",
        ),
        ('left = { path = "x", net = 1 }', "[msdump] left.net must be a text, not the number 1"),
        ("profile = true", "[msdump] profile must be a text, not true"),
        ('profile = "strickt"', "[msdump] profile: unknown profile 'strickt'; did you mean 'strict'?"),
        ('io = "both"', "[msdump] io: 'both' is not one of output, input, all"),
        ('granularity = "file"', "[msdump] granularity: 'file' is not one of op, tensor"),
        ('nan = "ignore"', "[msdump] nan: 'ignore' is not one of match, forbid"),
        ("nan = nan", "[msdump] nan must be a text, not the number nan"),
        ('left_format = "NDHWC"', "[msdump] left_format: 'NDHWC' is not one of NCHW, NHWC, HWCN, CHWN"),
        ('right_format = "nhwc"', "[msdump] right_format: 'nhwc' is not one of NCHW, NHWC, HWCN, CHWN"),
        ("select = 3", "[msdump] select must be a text or an array of texts, not the number 3"),
        ('select = ["a", 3]', "[msdump] select[1] must be a text, not the number 3"),
        ('deselect = [""]', "[msdump] deselect[0] must not be empty"),
        ("iteration = true", "[msdump] iteration must be a whole number, 0 or more, not true"),
        (
            'rank = "1-"',
            "[msdump] rank: '1-': '1-' is neither a number nor a range; write e.g. 0|2-3, or all",
        ),
        ("min_coverage = 90", '[msdump] min_coverage: 90 is more than 1; write 0.9 or "90%"'),
        ("min_coverage = true", "[msdump] min_coverage must be a number, not true"),
        ('min_coverage = "0.9"', "[msdump] min_coverage: '0.9' is not a share; write 0.9, or \"90%\""),
        ("min_coverage = 0x" + "f" * 5000, "[msdump] min_coverage must be a finite number, not a huge number"),
        ('report = "pdf"', "[msdump] report: unknown report 'pdf'; known: json, csv, html, md, github, gitlab"),
        ("report = 1979-05-27", "[msdump] report must be a text or an array of texts, not a date"),
        ("report_dir = 07:32:00", "[msdump] report_dir must be a text, not a time"),
        ('graph_files = "g.ir"', "[msdump] graph_files must be an array of paths, not the text 'g.ir'"),
        ("graph_files = [{}]", "[msdump] graph_files[0] must be a text, not a table"),
        ('align = "9->0"', "[msdump] align must be a table such as { iteration = \"9->0\" }, not the text '9->0'"),
        ("map = 3", "[msdump.map] must be an array of tables, not the number 3; write [[msdump.map]]"),
        ("rule = {}", "[msdump.rule] must be an array of tables, not a table; write [[msdump.rule]]"),
        ("map = [3]", "[[msdump.map]] #1 must be a table, not the number 3"),
    ],
)
def test_keys_of_the_main_table(tmp_path: Path, keys: str, sentence: str) -> None:
    sides = "".join(line for line in SIDES.splitlines(keepends=True) if not keys.startswith(line.split()[0] + " "))
    assert refusal(tmp_path, f"[msdump]\n{keys}\n{sides}") == f"msdump.toml: {sentence}"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ('left = "a"', "#2: needs 'right'"),
        ("", "#2: needs 'left' and 'right'"),
        ('left = "a"\nright = 3', "#2 right must be a text or an array of texts, not the number 3"),
        ('left = "a"\nright = ""', "#2 right must not be empty"),
        ('left = "a"\nright = "b"\nreshap = true', "#2: unknown key 'reshap'; did you mean 'reshape'?"),
        ('left = "a"\nright = "b"\nreshape = 1', "#2 reshape must be true or false, not the number 1"),
        ('left = "a"\nright = "b"\nreshape = "yes"', "#2 reshape must be true or false, not the text 'yes'"),
        (
            'left = "a"\nright = "b"\ntranspose = "NHWC"',
            "#2 transpose must be an array of axes such as [0, 3, 1, 2], not the text 'NHWC'",
        ),
        (
            'left = "a"\nright = "b"\ntranspose = []',
            "#2 transpose must be an array of axes such as [0, 3, 1, 2], not an array",
        ),
        (
            'left = "a"\nright = "b"\ntranspose = [0, 0]',
            "#2 transpose: [0, 0] must name each axis from 0 to 1 once",
        ),
        (
            'left = "a"\nright = "b"\ntranspose = [1, 2]',
            "#2 transpose: [1, 2] must name each axis from 0 to 1 once",
        ),
        (
            'left = "a"\nright = "b"\ntranspose = [0, -1]',
            "#2 transpose[1] must be a whole number, 0 or more, not the number -1",
        ),
        (
            'left = "a"\nright = "b"\ntranspose = [true, false]',
            "#2 transpose[0] must be a whole number, 0 or more, not true",
        ),
        ('left = "a"\nright = "b"\nrank = "0"', "#2 rank must be a whole number, 0 or more, not the text '0'"),
        ('left = "a"\nright = "b"\nnet = 0', "#2 net must be a text, not the number 0"),
    ],
)
def test_keys_of_a_map_entry(tmp_path: Path, keys: str, sentence: str) -> None:
    good = '[[msdump.map]]\nleft = "x"\nright = "y"\n'
    text = f"[msdump]\n{SIDES}{good}[[msdump.map]]\n{keys}\n"
    assert refusal(tmp_path, text) == f"msdump.toml: [[msdump.map]] {sentence}"


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ("cosin_similarity = 0.9", "#2: unknown key 'cosin_similarity'; did you mean 'cosine_similarity'?"),
        ("macth = '*'\ncosine = 0.9", "#2: unknown key 'macth'; did you mean 'match'?"),
        ("rtol = 0.1", None),
        ('match = "*"', "#2: sets no limit; write e.g. cosine_similarity = 0.999"),
        ("cosine = true", "#2 cosine must be a number or { fail = …, warn = … }, not true"),
        ('cosine = "0.9"', "#2 cosine must be a number or { fail = …, warn = … }, not the text '0.9'"),
        ("cosine = [0.9]", "#2 cosine must be a number or { fail = …, warn = … }, not an array"),
        ("cosine = nan", "#2 cosine must be a finite number, not the number nan"),
        ("kld = inf", "#2 kld must be a finite number, not the number inf"),
        ("cosine = {}", "#2 cosine: needs 'fail' or 'warn'"),
        ("cosine = { fial = 0.9 }", "#2 cosine: unknown key 'fial'; did you mean 'fail'?"),
        ("cosine = { fail = false }", "#2 cosine.fail must be a number, not false"),
        ("cosine = { fail = 0.9, warn = '1' }", "#2 cosine.warn must be a number, not the text '1'"),
        ("standard_deviation = 1", "#2 standard_deviation takes no limit"),
        ("allclose = 1", "#2 allclose must be a table, not the number 1"),
        ("allclose = { rtol = 0.1 }", "#2 allclose: needs 'atol'"),
        ("allclose = { rtol = 0.1, atol = 0, ulp = 1 }", "#2 allclose: unknown key 'ulp'; known: atol, rtol"),
        ("op_type = 3\ncosine = 0.9", "#2 op_type must be a text or an array of texts, not the number 3"),
        ("dtype = 16\ncosine = 0.9", "#2 dtype must be a text, not the number 16"),
        ("match = ''\ncosine = 0.9", "#2 match must not be empty"),
    ],
)
def test_keys_of_a_rule(tmp_path: Path, keys: str, sentence: str | None) -> None:
    text = f"[msdump]\n{SIDES}[[msdump.rule]]\ncosine = 0.9\n[[msdump.rule]]\n{keys}\n"
    if sentence is None:
        assert refusal(tmp_path, text).startswith("msdump.toml: [[msdump.rule]] #2: unknown key 'rtol'; ")
    else:
        assert refusal(tmp_path, text) == f"msdump.toml: [[msdump.rule]] {sentence}"


@pytest.mark.parametrize(
    "keys",
    [
        "cosine = 1.5",
        "max_abs = -1",
        "cosine = 0.9\ncosine_similarity = 0.99",
        "cosine = { fail = 0.999, warn = 0.99 }",
        "allclose = { rtol = -1, atol = 0 }",
        "dtype = 'flot16'\ncosine = 0.9",
    ],
)
def test_what_judging_refuses_in_a_rule_is_told_with_its_place(tmp_path: Path, keys: str) -> None:
    text = f"[msdump]\n{SIDES}[[msdump.rule]]\n{keys}\n"
    assert refusal(tmp_path, text).startswith("msdump.toml: [[msdump.rule]] #1: ")


DRIFT = {"match": '"softmax_*"', "reason": '"ticket 1"', "until": "2027-01-31", "max_rel": "4e-3"}


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"match": None}, "#1: needs 'match'"),
        ({"reason": None}, "#1: needs 'reason'"),
        ({"until": None}, "#1: needs 'until'"),
        ({"match": None, "until": None}, "#1: needs 'match' and 'until'"),
        ({"max_rel": None}, "#1: sets no limit; write e.g. cosine_similarity = 0.999"),
        ({"reason": '""'}, "#1 reason must not be empty"),
        ({"reason": "412"}, "#1 reason must be a text, not the number 412"),
        ({"until": "2027-01-31T00:00:00"}, "#1 until must be a date such as 2027-01-31, not a date with a time"),
        ({"until": "2027-01-31T00:00:00Z"}, "#1 until must be a date such as 2027-01-31, not a date with a time"),
        ({"until": "07:32:00"}, "#1 until must be a date such as 2027-01-31, not a time"),
        ({"until": '"2027-02-30"'}, "#1 until must be a date such as 2027-01-31, not the text '2027-02-30'"),
        ({"until": '"20270131"'}, "#1 until must be a date such as 2027-01-31, not the text '20270131'"),
        ({"until": '"2027-W05-7"'}, "#1 until must be a date such as 2027-01-31, not the text '2027-W05-7'"),
        ({"until": '"31.01.2027"'}, "#1 until must be a date such as 2027-01-31, not the text '31.01.2027'"),
        ({"until": "20270131"}, "#1 until must be a date such as 2027-01-31, not the number 20270131"),
        ({"max_rel": "true"}, "#1 max_rel must be a number, not true"),
        ({"max_rel": "{ fail = 1 }"}, "#1 max_rel must be a number, not a table"),
        ({"allclose": "1"}, "#1 allclose cannot be a known drift's limit; set one on another metric"),
        ({"standard_deviation": "1"}, "#1 standard_deviation takes no limit"),
        ({"untl": "1"}, "#1: unknown key 'untl'; did you mean 'until'?"),
    ],
)
def test_keys_of_a_known_drift(tmp_path: Path, change: dict[str, str | None], sentence: str) -> None:
    keys = "".join(f"{key} = {value}\n" for key, value in (DRIFT | change).items() if value is not None)
    text = f"[msdump]\n{SIDES}[[msdump.known_drift]]\n{keys}"
    assert refusal(tmp_path, text) == f"msdump.toml: [[msdump.known_drift]] {sentence}"


# -- the command line ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"profile": "strickt"}, "--msdump-profile: unknown profile 'strickt'; did you mean 'strict'?"),
        ({"threshold": ["cosin=1"]}, "--msdump-threshold: unknown metric 'cosin'; did you mean 'cosine'?"),
        ({"align": ["9->0"]}, "--msdump-align: '9->0' is not KEY=SPEC, e.g. iteration=9->0"),
        (
            {"align": ["iteration=9->0", "iteration=9->1"]},
            "--msdump-align: iteration 9 of the left side has two arrows; a left value meets one right value",
        ),
        ({"align": ["step=9->0"]}, "--msdump-align: 'step' cannot be aligned; known: graph, iteration, net, rank"),
        ({"io": "both"}, "--msdump-io: 'both' is not one of output, input, all"),
        ({"rank": "x"}, "--msdump-rank: 'x': 'x' is neither a number nor a range; write e.g. 0|2-3, or all"),
        ({"min_coverage": "0.9"}, "--msdump-min-coverage: 0.9 is less than 1 per cent; write 90 or 0.9%"),
        ({"report": "pdf"}, "--msdump-report: unknown report 'pdf'; known: json, csv, html, md, github, gitlab"),
        ({"left": ""}, "--msdump-left must not be empty"),
        ({"right": "a\0b"}, "--msdump-right: 'a\\x00b' holds a NUL byte, which no path can"),
        ({"select": [""]}, "--msdump-select[0] must not be empty"),
        ({"localise": "f.json"}, None),
    ],
)
def test_options_are_refused_by_their_flags(tmp_path: Path, options: dict[str, Any], sentence: str | None) -> None:
    said = refusal(tmp_path, f"[msdump]\n{SIDES}", **options)
    if sentence is None:
        assert said.startswith("unknown option 'localise'; ")
    else:
        assert said == sentence


# -- no side -------------------------------------------------------------------------------------------------------


def test_a_suite_without_sides_says_where_to_give_them(tmp_path: Path) -> None:
    tail = "give --msdump-left and --msdump-right, or write left = … and right = … into"
    assert refusal(tmp_path, "") == f"there is no left side; {tail} msdump.toml: [msdump]"
    assert refusal(tmp_path, "", left="run") == f"there is no right side; {tail} msdump.toml: [msdump]"
    with pytest.raises(ConfigError) as excinfo:
        load_suite(file=None, options={}, directory=tmp_path)
    assert str(excinfo.value) == f"there is no left side; {tail} a suite file msdump.toml"
