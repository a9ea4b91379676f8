"""A folder of rule files and a dump of several models: who belongs to whom, and that nobody is lost in silence."""

from __future__ import annotations

import json

import pytest

from pytest_msdump.capabilities.compat.msaccucmp import find_jobs
from pytest_msdump.core.errors import ConfigError


@pytest.fixture
def rules(tmp_path):
    (tmp_path / "rules").mkdir()
    return tmp_path / "rules"


@pytest.fixture
def root(tmp_path):
    (tmp_path / "20211122000000").mkdir()
    return tmp_path / "20211122000000"


def rule_file(rules, file, *graphs):
    (rules / file).write_text(json.dumps({"graph": [{"name": name, "op": []} for name in graphs]}), "utf-8")


def dump(root, *paths):
    for path in paths:
        (root / path).mkdir(parents=True)


def test_names_of_two_numbers_meet_by_the_second_and_it_is_said(root, rules):
    rule_file(rules, "a.json", "ge_default_20210420113943_73")
    dump(root, "0/ge_default_20210420113944_73/1/0")
    jobs, notes = find_jobs(root, rules)
    assert [job.name for job in jobs] == ["0_ge_default_20210420113944_73_0"]
    (note,) = notes
    assert note.startswith("ge_default_20210420113944_73 is compared by the rules of ge_default_20210420113943_73")


@pytest.mark.parametrize("graph", ["net_1_74", "net_73", "net_1_2_73", "other"])
def test_other_names_do_not_meet(root, rules, graph):
    rule_file(rules, "a.json", graph)
    dump(root, "0/net_2_73/1/0")
    with pytest.raises(ConfigError, match="no model below"):
        find_jobs(root, rules)


@pytest.mark.parametrize(
    ("files", "dumped", "line"),
    [
        ({}, ["0/net_a/1/0"], "no rule file"),
        ({"a.json": {"graph": []}}, ["0/net_a/1/0"], "no rule file"),
        ({"a.json": {"graph": [{"op": []}]}}, ["0/net_a/1/0"], "'name' is missing"),
        ({"a.json": []}, ["0/net_a/1/0"], "the top level"),
        ({"a.json": {"graph": [{"name": "net_a"}]}}, [], "holds no DEVICE/MODEL/MODEL_ID/STEP"),
        ({"a.json": {"graph": [{"name": "net_a"}]}}, ["0/net_a"], "holds no DEVICE/MODEL/MODEL_ID/STEP"),
        (
            {"a.json": {"graph": [{"name": "net_a"}]}, "b.json": {"graph": [{"name": "net_a"}]}},
            ["0/net_a/1/0"],
            "both name the graph net_a",
        ),
    ],
)
def test_what_cannot_be_a_batch_is_refused(root, rules, files, dumped, line):
    for name, content in files.items():
        (rules / name).write_text(json.dumps(content), "utf-8")
    dump(root, *dumped)
    with pytest.raises(ConfigError, match=line):
        find_jobs(root, rules)
