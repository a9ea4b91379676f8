"""Map objects: templates, layers, calls and functions, in every place that takes a map."""

from __future__ import annotations

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump import assert_dumps_close
from pytest_msdump.capabilities.weights.weights import assert_same_weights
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.matching.maps import renaming_of_template

LEFT = {"layers.0.attn.q": 1, "layers.0.norm": 2, "layers.11.attn.q": 3, "layers.11.norm": 4, "head": 5}
RIGHT = {
    "encoder.layer_0.attn.q": 1,
    "encoder.layer_0.norm": 2,
    "encoder.layer_11.attn.q": 3,
    "encoder.layer_11.norm": 4,
    "head": 5,
}
TEMPLATE = {"layers.{i}.*": "encoder.layer_{i}.*"}


def rename(name):
    first, _, rest = name.partition(".")
    return f"encoder.layer_{rest}" if first == "layers" else None


def toml(tmp_path):
    (tmp_path / "maps.toml").write_text(
        '[[msdump.map]]\nleft = "layers.{i}.*"\nright = "encoder.layer_{i}.*"\n', encoding="utf-8"
    )
    return tmp_path / "maps.toml"


MAPS = {
    "dict": lambda _: TEMPLATE,
    "list": lambda _: [{"left": left, "right": right} for left, right in TEMPLATE.items()],
    "function": lambda _: rename,
    "path": toml,
    "text": lambda tmp_path: str(toml(tmp_path)),
}


def values(numbers):
    return {name: np.full((3, 4), float(number)) + np.arange(12).reshape(3, 4) for name, number in numbers.items()}


def written(tmp_path, left, right):
    for name, tensors in (("run", left), ("ref", right)):
        write_reference(tmp_path / name, tensors)
    return tmp_path / "run", tmp_path / "ref"


@pytest.fixture
def dumps(tmp_path):
    return written(tmp_path, values(LEFT), values(RIGHT))


@pytest.mark.parametrize("kind", MAPS)
def test_every_map_object_pairs_two_dumps(dumps, tmp_path, kind):
    report = assert_dumps_close(*dumps, map=MAPS[kind](tmp_path), min_coverage=1.0)
    assert len(report.records) == 5


@pytest.mark.parametrize("kind", MAPS)
def test_every_map_object_pairs_weights(tmp_path, kind):
    assert_same_weights(values(LEFT), values(RIGHT), map=MAPS[kind](tmp_path))
    wrong = values(RIGHT) | {"encoder.layer_11.norm": np.zeros((3, 4))}
    with pytest.raises(AssertionError, match=r"layers\.11\.norm ↔ encoder\.layer_11\.norm"):
        assert_same_weights(values(LEFT), wrong, map=MAPS[kind](tmp_path))


@pytest.mark.parametrize("take", [assert_dumps_close, assert_same_weights])
@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (7, "must be an array of tables, not the number 7"),
        ([{"left": "a"}], "needs 'right'"),
        ({"layers.{i}": "encoder.{j}"}, r"'encoder\.\{j\}' has '\{j\}', which 'layers\.\{i\}' lacks"),
        ("no_such_file.toml", "no_such_file.toml"),
    ],
)
def test_a_wrong_map_is_one_error_everywhere(dumps, take, wrong, text):
    sides = dumps if take is assert_dumps_close else (values(LEFT), values(RIGHT))
    with pytest.raises(ConfigError, match=text):
        take(*sides, map=wrong)


def test_a_layer_stands_for_what_is_below_it(dumps):
    report = assert_dumps_close(*dumps, map={"layers.0": "encoder.layer_0"})
    assert sorted(record.left.address for record in report.records) == [
        "head:output:0",
        "layers.0.attn.q:output:0",
        "layers.0.norm:output:0",
    ]


def test_what_an_entry_names_as_it_is_no_template_names(dumps):
    report = assert_dumps_close(*dumps, map={**TEMPLATE, "layers.0.norm": "encoder.layer_0.norm"}, min_coverage=1.0)
    by = {record.left.address: record.by for record in report.records}
    assert by["layers.0.norm:output:0"].endswith("#2")
    assert by["layers.0.attn.q:output:0"].endswith("#1")


@pytest.mark.parametrize("gone", [{"layer.{i}.*": "encoder.layer_{i}.*"}, {"layers.{i}.*": "enc.{i}.*"}])
def test_a_template_that_names_nothing_is_missing(dumps, gone):
    with pytest.raises(AssertionError, match=r"\{i\}"):
        assert_dumps_close(*dumps, map=gone)


@pytest.fixture
def calls(tmp_path):
    """A run that calls three operators, and a reference that calls one module three times."""
    numbers = np.random.default_rng(0).standard_normal((3, 20))
    write_reference(tmp_path / "run", {f"relu_{place}": one for place, one in enumerate(numbers)})
    (tmp_path / "ref").mkdir()
    # What follows the last call shows that this was one pass, and no second run.
    for place, (name, one) in enumerate([*(("relu", one) for one in numbers), ("end", numbers[0])]):
        np.save(tmp_path / "ref" / f"{name}.0.{1_700_000_000_000_000 + place}.npy", one)
    return tmp_path / "run", tmp_path / "ref"


def test_a_call_that_was_not_recorded_is_missing(calls):
    with pytest.raises(AssertionError, match="no operator relu@3 on the right side"):
        assert_dumps_close(*calls, map={"relu_0": "relu@3"})


@pytest.mark.parametrize(
    ("left", "right", "name", "expected"),
    [
        ("layers.{i}.*", "encoder.layer_{i}.*", "layers.3.attn.q", "encoder.layer_3.attn.q"),
        ("layers.{i}.*", "encoder.layer_{i}.*", "layers.norm", None),
        ("layer_{i}.{part}", "{part}.{i}", "layer_12.norm", "norm.12"),
        ("layer_{i}", "l{i}", "layer_x", None),
        ("{a}/{a}.q", "{a}", "x/x.q", "x"),
        ("{a}/{a}.q", "{a}", "x/y.q", None),
        ("*", "model.*", "fc", "model.fc"),
        ("a+b.{i}", "{i}", "aab.1", None),
    ],
)
def test_a_template_captures_an_element_digits_or_the_rest(left, right, name, expected):
    assert renaming_of_template(left, right, label="map")(name) == expected
