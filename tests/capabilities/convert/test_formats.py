"""From every memory format to every other with the same axes: numpy's transpose is what they are held against."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_msdump.capabilities.convert.formats import Relabelled, bring
from pytest_msdump.core.compare.opening import ArrayView
from pytest_msdump.core.errors import TensorShapeError
from pytest_msdump.core.facts.memory_formats import MEMORY_FORMATS
from pytest_msdump.core.layouts.device_layout import stored
from pytest_msdump.core.model.tensor import TensorSpec

RNG = np.random.default_rng(62)
TENSORS = {"NCHW": RNG.standard_normal((3, 19, 2, 5)), "NCDHW": RNG.standard_normal((2, 17, 3, 2, 5))}
# FRACTAL_Z_C04 joins height and width, and holds 4 channels at most.
AXES = {
    name: "NCHW" if row.axes == "NCS" else row.axes
    for name, row in MEMORY_FORMATS.items()
    if row.axes in {*TENSORS, "NCS"}
}
PLAIN = [name for name, axes in AXES.items() if sorted(name) == sorted(axes)]
DEVICE = [name for name in AXES if name not in PLAIN]


class Told(Relabelled):
    """A tensor of which its header tells the original shape."""

    def __init__(self, values, memory_format, original=None):
        super().__init__(ArrayView(np.ascontiguousarray(values)), memory_format)
        self.original = original

    @property
    def spec(self) -> TensorSpec:
        return replace(super().spec, logical_shape=self.original)


def tensor(name: str) -> np.ndarray:
    return TENSORS[AXES[name]][:, :3] if name == "FRACTAL_Z_C04" else TENSORS[AXES[name]]


def in_order(name: str, letters: str) -> np.ndarray:
    return tensor(name).transpose([AXES[name].index(letter) for letter in letters])


def values(view) -> np.ndarray:
    return view.read(0, view.size).reshape(view.shape)


def told(name: str) -> Told:
    if name in PLAIN:
        return Told(in_order(name, name), name)
    return Told(stored(tensor(name), name), name, tensor(name).shape)


@pytest.mark.parametrize("wanted", PLAIN)
@pytest.mark.parametrize("source", AXES)
def test_every_format_comes_to_every_order_of_the_same_axes(source, wanted):
    view = told(source)
    if AXES[wanted] != AXES[source]:
        with pytest.raises(TensorShapeError, match=rf"{source} has the axes \w+, {wanted} was asked for"):
            bring(view, wanted)
    else:
        np.testing.assert_array_equal(values(bring(view, wanted)), in_order(source, wanted))


@pytest.mark.parametrize("wanted", DEVICE)
@pytest.mark.parametrize("source", ["NCHW", "NHWC", "NC1HWC0", "NDHWC", "NDC1HWC0"])
def test_what_is_brought_to_a_devices_format_is_what_the_device_would_store(source, wanted):
    array = TENSORS[AXES[source]]
    array = array[:, :3] if wanted == "FRACTAL_Z_C04" else array
    if source in PLAIN:
        view = Told(array.transpose([AXES[source].index(letter) for letter in source]), source)
    else:
        view = Told(stored(array, source), source, array.shape)
    if AXES[wanted] != AXES[source]:
        with pytest.raises(TensorShapeError):
            bring(view, wanted)
    else:
        np.testing.assert_array_equal(values(bring(view, wanted)), stored(array, wanted))


def test_channels_keep_their_padding_where_nothing_tells_how_many_there_are():
    array = stored(TENSORS["NCHW"], "NC1HWC0")
    found = values(bring(Told(array, "NC1HWC0"), "NHWC"))
    assert found.shape == (3, 2, 5, 32)
    np.testing.assert_array_equal(found[..., :19], in_order("NCHW", "NHWC"))
    for name in ("FRACTAL_Z", "FRACTAL_NZ", "FRACTAL_Z_C04"):
        padded = Told(stored(TENSORS["NCHW"][:, :4], name), name)
        with pytest.raises(TensorShapeError, match="padded, and its logical shape is unknown; give it with --shape"):
            bring(padded, "NCHW")


def test_a_stored_shape_that_is_given_as_the_original_one_tells_nothing():
    array = stored(TENSORS["NCHW"], "NC1HWC0")
    assert bring(Told(array, "NC1HWC0", array.shape), "NCHW").shape == (3, 32, 2, 5)


@pytest.mark.parametrize(
    ("shape", "source", "wanted", "given", "line"),
    [
        ((3, 5, 7), "NCHW", "NHWC", None, "3 axes, which are not those of NCHW"),
        ((3, 5, 7, 1), "ND", "NCHW", None, "name them with --from-format"),
        ((3, 5, 7, 1), "ND", "NC1HWC0", None, "name them with --from-format"),
        ((3, 5, 7, 1), "NCHW", "NHWC", (3, 5, 7, 1), r"has shape \(3, 7, 1, 5\), --shape says \(3, 5, 7, 1\)"),
        ((3, 5, 7, 1), "NCHW", "NCHW", (3, 5, 6, 1), r"has 105 elements, shape \(3, 5, 6, 1\) has 90"),
        ((2, 3, 16, 16), "FRACTAL_NZ", "ND", (10, 21), "cannot hold a tensor of shape"),
        ((3, 5), "SOMETHING_NEW", "ND", None, "has no conversion that is known here"),
    ],
)
def test_what_cannot_be_is_said(shape, source, wanted, given, line):
    view = Told(np.zeros(shape), source)
    with pytest.raises(TensorShapeError, match=line):
        bring(view, wanted, shape=given)
