"""The one table of options, and what the text of each means."""

from __future__ import annotations

import argparse

import pytest
from hypothesis import given as hypothesis_given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.core.facts.profiles import PROFILES
from pytest_msdump.core.settings.options import (
    OPTIONS,
    Option,
    argparse_kwargs,
    ini_kwargs,
    option_values,
    parse_coverage,
    parse_report,
    parse_spec,
)
from pytest_msdump.core.suite.keys import parse_threshold

pytest_plugins = ["pytester"]

BY_NAME = {option.name: option for option in OPTIONS}

# Written by hand from the contract's table: name, flags, ini key, suite-file key.
EXPECTED = [
    ("left", ("--msdump-left", "--msdump-target"), "msdump_left", "left"),
    ("right", ("--msdump-right", "--msdump-reference"), "msdump_right", "right"),
    ("golden", ("--msdump-golden",), "msdump_golden", "golden"),
    ("third", ("--msdump-third",), "msdump_third", "third"),
    ("fusion", ("--msdump-fusion",), "msdump_fusion", "fusion"),
    ("quant_fusion", ("--msdump-quant-fusion",), "msdump_quant_fusion", "quant_fusion"),
    ("close_fusion", ("--msdump-close-fusion",), "msdump_close_fusion", "close_fusion"),
    ("config", ("--msdump-config",), "msdump_config", None),
    ("profile", ("--msdump-profile",), "msdump_profile", "profile"),
    ("limits", ("--msdump-limits",), "msdump_limits", "limits"),
    ("accept_looser", ("--msdump-accept-looser",), "msdump_accept_looser", "accept_looser"),
    ("threshold", ("--msdump-threshold",), "msdump_threshold", None),
    ("without", ("--msdump-without",), "msdump_without", "without"),
    ("select", ("--msdump-select",), "msdump_select", "select"),
    ("deselect", ("--msdump-deselect",), "msdump_deselect", "deselect"),
    ("io", ("--msdump-io",), "msdump_io", "io"),
    ("pair_by", ("--msdump-pair-by",), "msdump_pair_by", "pair_by"),
    ("exclude_types", ("--msdump-exclude-types",), "msdump_exclude_types", "exclude_types"),
    ("align", ("--msdump-align",), "msdump_align", "align"),
    ("iteration", ("--msdump-iteration",), "msdump_iteration", "iteration"),
    ("rank", ("--msdump-rank",), "msdump_rank", "rank"),
    ("graph", ("--msdump-graph",), "msdump_graph", "graph"),
    ("granularity", ("--msdump-granularity",), "msdump_granularity", "granularity"),
    ("allow_uncompared", ("--msdump-allow-uncompared",), "msdump_allow_uncompared", "allow_uncompared"),
    ("min_coverage", ("--msdump-min-coverage",), "msdump_min_coverage", "min_coverage"),
    ("min_replayed", ("--msdump-min-replayed",), "msdump_min_replayed", "min_replayed"),
    # Code runs only where it is typed.
    ("replay", ("--msdump-replay",), None, None),
    ("allow_incomplete", ("--msdump-allow-incomplete",), "msdump_allow_incomplete", "allow_incomplete"),
    ("report_dir", ("--msdump-report-dir",), "msdump_report_dir", "report_dir"),
    ("detail", ("--msdump-detail",), "msdump_detail", "detail"),
    ("spread", ("--msdump-spread",), "msdump_spread", "spread"),
    ("jobs", ("--msdump-jobs",), "msdump_jobs", "jobs"),
    ("cache", ("--msdump-cache",), "msdump_cache", "cache"),
    ("report", ("--msdump-report",), "msdump_report", "report"),
    ("compare_to", ("--msdump-compare-to",), "msdump_compare_to", "compare_to"),
]


def one_line(excinfo: pytest.ExceptionInfo[ConfigError]) -> str:
    text = str(excinfo.value)
    assert "\n" not in text
    return text


def parsed(flags_of: str, arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    for option in OPTIONS:
        flags = option.flags if flags_of == "pytest" else option.cli_flags
        parser.add_argument(*flags, **argparse_kwargs(option))
    return parser.parse_args(arguments)


def test_the_table_is_the_contracts_and_nothing_more() -> None:
    assert [(option.name, option.flags, option.ini, option.toml) for option in OPTIONS] == EXPECTED


def test_what_is_given_keeps_its_text_under_the_options_name() -> None:
    typed = [
        *("--msdump-target", "run", "--msdump-reference", "ref", "--msdump-threshold", "cosine=0.9"),
        *("--msdump-threshold", "max_abs=1", "--msdump-io", "all", "--msdump-min-coverage", "90"),
    ]
    said = {name: value for name, value in option_values(parsed("pytest", typed)).items() if value is not None}
    assert said == {
        "left": "run",
        "right": "ref",
        "threshold": ["cosine=0.9", "max_abs=1"],
        "io": "all",
        "min_coverage": "90",
    }


def test_the_command_knows_the_same_options_by_its_own_flags() -> None:
    typed = ["-l", "run", "-r", "ref", "--granularity", "tensor", "--select", "conv*", "--select", "fc*"]
    said = {name: value for name, value in option_values(parsed("cli", typed)).items() if value is not None}
    assert said == {"left": "run", "right": "ref", "granularity": "tensor", "select": ["conv*", "fc*"]}


def test_help_names_the_default_and_survives_percent_signs() -> None:
    option = Option("x", ("--x",), "text", "at least 90% of it", "X", default="100%")
    parser = argparse.ArgumentParser(prog="p")
    parser.add_argument(*option.flags, **argparse_kwargs(option))
    assert "at least 90% of it (default: 100%)" in parser.format_help()
    assert "(default: default)" in BY_NAME["profile"].help_line
    assert "default" not in BY_NAME["left"].help_line


def test_ini_keys_are_texts_or_lines_with_no_default() -> None:
    assert ini_kwargs(BY_NAME["profile"]) == {
        "name": "msdump_profile",
        "help": f"named limits: {', '.join(PROFILES)} (default: default)",
        "type": "string",
        "default": None,
    }
    assert ini_kwargs(BY_NAME["threshold"])["type"] == "linelist"


def test_an_option_without_an_ini_key_has_no_ini_arguments() -> None:
    with pytest.raises(ValueError, match="option x has no ini key"):
        ini_kwargs(Option("x", ("--x",), "text", "help", "X"))


# -- thresholds ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cosine=0.999", ("cosine", 0.999)),
        ("cosine_similarity=0.999", ("cosine_similarity", 0.999)),
        (" max_rel = 1e-2 ", ("max_rel", 0.01)),
        ("saturated_count=3", ("saturated_count", 3.0)),
        ("cosine=-.5", ("cosine", -0.5)),
    ],
)
def test_a_threshold_is_the_metric_as_typed_and_a_number(text: str, expected: tuple[str, float]) -> None:
    assert parse_threshold(text) == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        *((text, f"{text!r} is not METRIC=VALUE, e.g. cosine=0.999") for text in ("cosine", "=0.5")),
        ("cosin=0.9", "unknown metric 'cosin'; did you mean 'cosine'?"),
        *(
            (f"cosine={value}", f"'cosine={value}': {value!r} is not a finite number")
            for value in ("", "high", "nan", "1e999", "1_0", "0.9=1")
        ),
        ("standard_deviation=1", "standard_deviation takes no limit"),
    ],
)
def test_a_bad_threshold_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as excinfo:
        parse_threshold(text)
    assert one_line(excinfo) == f"--msdump-threshold: {said}"


def test_a_refusal_repeats_the_option_as_it_was_spelled() -> None:
    with pytest.raises(ConfigError, match=r"^--threshold: 'x' is not"):
        parse_threshold("x", where="--threshold")
    with pytest.raises(ConfigError, match=r"^--rank: 'x': "):
        parse_spec("x", where="--rank")
    with pytest.raises(ConfigError, match=r"^--min-coverage: 'x' is not"):
        parse_coverage("x", flag=True, where="--min-coverage")
    with pytest.raises(UnknownNameError, match=r"^--report: unknown report 'x'"):
        parse_report("x", where="--report")


# -- specs ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0", {0}), ("0|2-3", {0, 2, 3}), ("5-5", {5}), ("3|1|3", {1, 3}), ("2-4|3-6", {2, 3, 4, 5, 6})],
)
def test_a_spec_names_numbers_and_ranges(text: str, expected: set[int]) -> None:
    assert parse_spec(text) == expected


@pytest.mark.parametrize("text", ["1-", "0|", "", "0,1", "-1", "0|all", "1-2-3", "٣", "0\n"])
def test_a_bad_spec_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is neither a number nor a range; write e\.g\. 0\|2-3, or all$") as excinfo:
        parse_spec(text)
    assert one_line(excinfo).startswith(f"SPEC: {text!r}: ")


@pytest.mark.parametrize("text", ["0-1000000", "0-999999|7", "0-999999999999"])
def test_a_spec_of_more_values_than_any_run_has_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="names more than 1,000,000 values; write all, or fewer"):
        parse_spec(text)
    with pytest.raises(ConfigError, match="the range 5-1 runs backwards; write 1-5"):
        parse_spec("5-1")


@hypothesis_settings(deadline=None, max_examples=60)
@hypothesis_given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 40)), min_size=1, max_size=6))
def test_a_spec_is_the_union_of_its_parts(parts: list[tuple[int, int]]) -> None:
    text = "|".join(f"{first}-{first + more}" if more else str(first) for first, more in parts)
    expected = {value for first, more in parts for value in range(first, first + more + 1)}
    assert parse_spec(text) == expected


# -- coverage ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "flag", "share"),
    [
        ("90", True, 0.9),
        ("90%", True, 0.9),
        ("0.5%", True, 0.005),
        ("0", True, 0.0),
        ("1", True, 0.01),
        ("100", True, 1.0),
        ("99.5", True, 0.995),
        (0.9, False, 0.9),
        ("90%", False, 0.9),
        (" 90 % ", False, 0.9),
        (0, False, 0.0),
        (1, False, 1.0),
        (1.0, False, 1.0),
    ],
)
def test_coverage_is_per_cent_on_the_flag_and_a_share_in_the_file(value: str | float, flag: bool, share: float) -> None:
    assert parse_coverage(value, flag=flag) == pytest.approx(share, rel=1e-15)


@pytest.mark.parametrize(
    ("value", "flag", "advice"),
    [
        ("0.9", True, "0.9 is less than 1 per cent; write 90 or 0.9%"),
        ("101%", True, "101% is not within 0 to 100 per cent"),
        ("-1", True, "-1 is not within 0 to 100 per cent"),
        *((text, True, f"{text!r} is not a number of per cent, e.g. 90") for text in ("many", "%", "nan", "")),
        (90, False, '90 is more than 1; write 0.9 or "90%"'),
        (-0.1, False, "-0.1 is not within 0 to 100 per cent"),
        ("0.9", False, "'0.9' is not a share; write 0.9, or \"90%\""),
        (float("nan"), False, "nan is not a number of per cent, e.g. 90"),
    ],
)
def test_a_coverage_that_seems_meant_in_the_other_unit_is_refused(value: str | float, flag: bool, advice: str) -> None:
    with pytest.raises(ConfigError) as excinfo:
        parse_coverage(value, flag=flag)
    assert one_line(excinfo) == f"{'--msdump-min-coverage' if flag else 'min_coverage'}: {advice}"


# -- reports -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("json", ("json",)),
        ("csv,json", ("csv", "json")),
        (" json , csv ,json,", ("json", "csv")),
        (["csv"], ("csv",)),
    ],
)
def test_reports_are_named_once_each_in_order(text: str | list[str], kinds: tuple[str, ...]) -> None:
    assert parse_report(text) == kinds


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("json,xml", "unknown report 'xml'"),
        ("JSON", "unknown report 'JSON'"),
        (",", "names no report"),
        ([], "names no"),
    ],
)
def test_a_report_that_is_not_known_is_refused(text: str | list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=f"^--msdump-report: {said}.*; known: json, csv, html, md, github, gitlab$"):
        parse_report(text)
