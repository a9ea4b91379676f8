"""How errors are spread: each array against a plain loop over all elements, whatever the blocks."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from pytest_msdump.capabilities.html import spread as room
from pytest_msdump.capabilities.html.spread import spread
from pytest_msdump.core.report.json_report import read_json


class View:
    def __init__(self, array):
        self.array = np.asarray(array)
        self.shape, self.size = self.array.shape, self.array.size

    def read(self, start, stop):
        return self.array.reshape(-1)[start:stop]


def decade(value):
    return math.floor(math.log10(value))


@pytest.fixture(params=[7, 64, 1 << 18])
def block(request, monkeypatch):
    monkeypatch.setattr(room, "_BLOCK_ELEMENTS", request.param)


@pytest.mark.usefixtures("block")
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (6, 40), (150,), (3, 100, 33, 17)])
@pytest.mark.full
def test_every_array_is_what_a_loop_over_the_elements_gives(shape):
    random = np.random.default_rng(5)
    right = random.normal(size=shape) * 10.0 ** random.integers(-3, 3, size=shape)
    left = right + np.where(random.random(shape) < 0.5, random.normal(size=shape) * 1e-3, 0)
    right.flat[0] = 0
    left.flat[1] = np.nan
    found = spread(View(left), View(right))

    counts, by_magnitude, axis = {}, {}, min(1, len(shape) - 1)
    step = -(-shape[axis] // 64)
    along = np.zeros(-(-shape[axis] // step))
    axes = {(2, 3, 5, 4): (2, 3), (6, 40): (0, 1), (150,): (0,), (3, 100, 33, 17): (1, 2)}[shape]
    rows, columns = (shape[axes[0]], shape[axes[1]]) if len(axes) > 1 else (1, shape[0])
    cells = (min(rows, 32), min(columns, 32))
    sums, seen = np.zeros(cells), np.zeros(cells)
    for place in np.ndindex(shape):
        one, other = float(left[place]), float(right[place])
        if math.isnan(one):
            continue
        error = abs(one - other)
        if error:
            counts[decade(error)] = counts.get(decade(error), 0) + 1
        if other:
            by_magnitude.setdefault(decade(abs(other)), []).append(error)
        along[place[axis] // step] += error
        down = place[axes[0]] if len(axes) > 1 else 0
        cell = (down * cells[0] // rows, place[axes[-1]] * cells[1] // columns)
        sums[cell] += error
        seen[cell] += 1

    low = found.histogram.low
    assert {low + n: count for n, count in enumerate(found.histogram.counts) if count} == counts
    low = found.magnitude.low
    for power, errors in by_magnitude.items():
        assert found.magnitude.mean[power - low] == pytest.approx(sum(errors) / len(errors), rel=1e-3)
        assert found.magnitude.largest[power - low] == pytest.approx(max(errors), rel=1e-3)
    assert (found.axis.axis, found.axis.step) == (axis, step)
    assert found.axis.values == pytest.approx(along, rel=1e-3)
    assert found.heat_axes == axes
    assert np.asarray(found.heat) == pytest.approx(sums / seen, rel=1e-3)
    known = [
        (float(one), float(other)) for one, other in zip(left.flat, right.flat, strict=True) if not math.isnan(one)
    ]
    assert (found.values.low, found.values.high) == (min(map(min, known)), max(map(max, known)))
    width = (found.values.high - found.values.low) / 40
    for side, counted in enumerate((found.values.left, found.values.right)):
        places = [min(39, int((pair[side] - found.values.low) / width)) for pair in known]
        assert counted == tuple(places.count(place) for place in range(40))


@pytest.mark.parametrize(
    ("left", "right", "parts"),
    [
        (np.ones(0), np.ones(0), set()),
        (np.ones(3, "c8"), np.ones(3, "c8"), set()),
        (np.array(1.0), np.array(2.0), {"histogram", "magnitude", "values"}),
        (np.ones(3), np.ones(3), {"magnitude", "axis", "heat", "heat_axes"}),
        (
            np.array([np.inf, 1e300]),
            np.array([1.0, -1e300]),
            {"histogram", "magnitude", "axis", "heat", "heat_axes", "values"},
        ),
        (
            np.array([0, 255], "u1"),
            np.array([255, 0], "u1"),
            {"histogram", "magnitude", "axis", "heat", "heat_axes", "values"},
        ),
    ],
)
def test_edges(left, right, parts):
    found = spread(View(left), View(right))
    assert (found is None) == (not parts)
    drawn = {} if found is None else found._asdict()
    assert {name for name, part in drawn.items() if part} == parts
    json.dumps(drawn, allow_nan=False)


@pytest.mark.parametrize("asked", ["failing", "all"])
@pytest.mark.filterwarnings("error")
def test_a_tensor_of_huge_values_is_reported_without_a_warning(asked, tmp_path, monkeypatch, capsys):
    from pytest_msdump.cli import main

    monkeypatch.chdir(tmp_path)
    for side, values in (("left", [0.0] * 40), ("right", [1e308, -1e308] * 20)):
        (tmp_path / side).mkdir()
        np.save(f"{side}/a.0.179522395086100.npy", np.array(values))
    assert main(["compare", "left", "right", "--spread", asked, "--report", "json,html"]) == 1
    assert capsys.readouterr().err == ""
    (record,) = read_json(tmp_path / "msdump-report" / "results.json")["tensors"]
    assert record["spread"]["axis"]["values"] == [1e308] * 40
    assert record["spread"]["magnitude"]["mean"] == [1.797e308]


@pytest.mark.parametrize(
    ("asked", "kept"), [("none", [False, False]), ("failing", [False, True]), ("all", [True, True])]
)
def test_it_is_kept_of_the_tensors_that_were_asked_for(asked, kept, tmp_path, monkeypatch):
    from pytest_msdump.cli import main

    monkeypatch.chdir(tmp_path)
    for side, value in (("left", 1.0), ("right", 1.5)):
        (tmp_path / side).mkdir()
        np.save(f"{side}/a.0.179522395086100.npy", np.ones((2, 3), "f4"))
        np.save(f"{side}/b.0.179522395086101.npy", np.full((2, 3), value, "f4"))
    assert main(["compare", "left", "right", "--spread", asked, "--report", "json,html"]) == 1
    records = read_json(tmp_path / "msdump-report" / "results.json")["tensors"]
    assert ["spread" in record for record in records] == kept
    if kept[1]:
        assert records[1]["spread"]["histogram"] == {"low": -1, "counts": [6]}
        assert records[1]["spread"]["axis"] == {"axis": 1, "step": 1, "values": [1.0, 1.0, 1.0]}
    first = (tmp_path / "msdump-report" / "index.html").read_bytes()
    assert main(["report", "msdump-report/results.json"]) == 0
    assert (tmp_path / "msdump-report" / "index.html").read_bytes() == first
