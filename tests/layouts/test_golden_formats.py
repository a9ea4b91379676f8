"""What the vendor's own converter made of real dumps, where it is right; and what it makes of them where it is not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pytest_msdump.capabilities.ascend.dump_file import open_output
from pytest_msdump.core.layouts.device_layout import logical, stored, target

DATA = Path(__file__).parent.parent / "data"
CONVERTED = DATA / "e_convert"
FUSED = DATA / "ascend_golden" / "a_fusion_nchw"


def left(name: str):
    (path,) = (DATA / "ascend_golden" / "e_convert" / "left").glob(f"*.{name}.*")
    return open_output(path, 0)


def expected(case: str) -> np.ndarray:
    return np.load(CONVERTED / "expected" / f"{case}.npy")


def values_of(view) -> np.ndarray:
    try:
        return np.concatenate([block.copy() for block in view.blocks(97)]).reshape(view.shape)
    finally:
        view.close()


@pytest.mark.parametrize(
    ("name", "case"),
    [
        ("c5hd_ori_nchw", "c5hd_ori_nchw_to_NCHW"),
        ("c5hd_ori_nhwc", "c5hd_ori_nhwc_to_NHWC"),
        ("c5hd_int8_c0_32", "int8_to_NCHW"),
        ("c6hd", "c6hd_to_NCDHW"),
        ("nz_2d", "nz_2d_to_ND"),
        ("fz_ori_nchw", "fz_ori_nchw_to_NCHW"),
        ("fz_ori_hwcn", "fz_ori_hwcn_to_HWCN"),
        ("nd", "nd_npy"),
        ("nchw_3d", "nchw_3d_to_ND"),
    ],
)
def test_the_headers_shape_alone_gives_the_vendors_answer(name, case):
    wanted = expected(case)
    view = logical(left(name))
    assert view.shape == wanted.shape
    found = values_of(view)
    assert found.dtype == wanted.dtype
    assert np.array_equal(found, wanted)
    assert np.unique(wanted).size > 20


@pytest.mark.parametrize(
    ("name", "case", "letters"),
    [
        ("w_hwcn", "w_hwcn_to_NCHW", "NCHW"),
        ("w_hwcn", "w_hwcn_to_NHWC", "NHWC"),
        ("w_nhwc", "w_nhwc_to_NCHW", "NCHW"),
        ("w_nhwc", "w_nhwc_to_HWCN", "HWCN"),
        ("w_nchw_noori", "w_nchw_noori_to_NHWC", "NHWC"),
    ],
)
def test_plain_axes_come_in_the_rules_order(name, case, letters):
    wanted = expected(case)
    view = left(name)
    shape, order = target(view.spec, rule_format=letters, rule_shape=wanted.shape)
    assert np.array_equal(values_of(logical(view, logical_shape=shape, logical_format=order)), wanted)


@pytest.mark.parametrize(
    ("name", "case", "letters", "groups"),
    [
        ("w_nchw", "w_nchw_to_FRACTAL_Z", "NCHW", 1),
        ("w_hwcn", "w_hwcn_to_FRACTAL_Z", "HWCN", 1),
        ("w_nhwc", "w_nhwc_to_FRACTAL_Z", "NHWC", 1),
        ("w_nchw_group4", "w_nchw_group4_to_FRACTAL_Z", "NCHW", 4),
        ("w_nchw_group2_big", "w_nchw_group2_big_to_FRACTAL_Z", "NCHW", 2),
    ],
)
def test_weights_are_stored_as_the_vendor_stores_them(name, case, letters, groups):
    view = left(name)
    assert view.spec.groups == groups
    assert np.array_equal(stored(values_of(view), "FRACTAL_Z", logical_format=letters, groups=groups), expected(case))


def test_a_depthwise_weight_keeps_every_value_where_the_vendor_keeps_a_third():
    """Fault 7: groups beyond the first 16 overwrite each other there."""
    values = values_of(left("w_depthwise48"))
    vendor = expected("w_depthwise48_to_FRACTAL_Z")
    ours = stored(values, "FRACTAL_Z", logical_format="NCHW", groups=48)
    assert ours.shape == vendor.shape
    assert np.array_equal(np.sort(ours[ours != 0]), np.sort(values[values != 0], axis=None))
    assert np.count_nonzero(vendor) <= 96 < 280 < np.count_nonzero(ours)
    # The last pack of groups overwrote the first in the same places: theirs is ours of the last 16 filters.
    assert np.array_equal(vendor[vendor != 0], ours[12:][ours[12:] != 0])


@pytest.mark.parametrize(
    ("file", "reference", "logical_shape"),
    [
        ("Conv2D.conv1conv1_bnconv1_relu.3.1.1600000000000003", "conv1_relu.0.1600000000000101.npy", (2, 19, 5, 7)),
        ("MatMulV2.fc1.8.1.1600000000000008", "fc1.0.1600000000000106.npy", None),
    ],
)
def test_a_fused_networks_values_are_the_original_models_within_float16(file, reference, logical_shape):
    wanted = np.load(FUSED / "right" / reference)
    view = open_output(FUSED / "left" / file, 0)
    shape, letters = target(view.spec, rule_format=None, rule_shape=logical_shape or wanted.shape)
    found = logical(view, logical_shape=shape, logical_format=letters)
    assert found.shape == wanted.shape
    assert np.allclose(values_of(found), wanted, rtol=4e-3, atol=4e-3)
    assert np.ptp(wanted) > 1
