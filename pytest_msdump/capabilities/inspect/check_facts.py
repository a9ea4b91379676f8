"""Checks of a run by itself, without a reference: what MindInsight's offline debugger watches for, and its defaults.

References
----------
MindInsight 1.x to 2.0, "Using the offline debugger" and `mindinsight.debugger` (`OperatorOverflowCondition` to
`TensorRangeCondition`). The activation ranges, and 1e-9 for gradients, are what its pages recommend.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

_NOTHING: Mapping[str, float | None] = MappingProxyType({})


class CheckFact(NamedTuple):
    """One check.

    `target` is weight, gradient, activation, tensor or operator; `family` which measurement it takes; `parameters` what
    can be set, with defaults (``None`` = not looked at until set).
    """

    target: str
    family: str
    parameters: Mapping[str, float | None]


_TOO_LARGE: Mapping[str, float | None] = {"abs_mean_gt": None, "max_gt": None, "min_gt": None, "mean_gt": None}
_TOO_SMALL: Mapping[str, float | None] = {"abs_mean_lt": None, "max_lt": None, "min_lt": None, "mean_lt": None}
_RANGE: Mapping[str, float | None] = {
    "range_start_inclusive": None,
    "range_end_inclusive": None,
    "range_percentage_lt": None,
    "range_percentage_gt": None,
    "max_min_lt": None,
    "max_min_gt": None,
}

# In the order in which hits of one tensor are listed. Of one family the first check that applies to a tensor is used.
CHECKS: Mapping[str, CheckFact] = {
    "operator_overflow": CheckFact("operator", "device", _NOTHING),
    "weight_overflow": CheckFact("weight", "overflow", _NOTHING),
    "gradient_exploding": CheckFact("gradient", "overflow", _NOTHING),
    "tensor_overflow": CheckFact("tensor", "overflow", _NOTHING),
    "weight_initialization": CheckFact(
        "weight",
        "initial",
        {"zero_percentage_ge": 100.0, "max_gt": None, "min_lt": None},
    ),
    "tensor_all_zero": CheckFact("tensor", "zero", {"zero_percentage_ge": 100.0}),
    "weight_too_large": CheckFact("weight", "bounds", _TOO_LARGE),
    "weight_too_small": CheckFact("weight", "bounds", _TOO_SMALL),
    "gradient_too_large": CheckFact("gradient", "bounds", _TOO_LARGE),
    "gradient_vanishing": CheckFact("gradient", "bounds", {**_TOO_SMALL, "abs_mean_lt": 1e-9}),
    "tensor_too_large": CheckFact("tensor", "bounds", _TOO_LARGE),
    "tensor_too_small": CheckFact("tensor", "bounds", _TOO_SMALL),
    "weight_not_changed": CheckFact(
        "weight",
        "unchanged",
        {"rtol": 1e-5, "atol": 1e-8, "equal_nan": 0.0},
    ),
    "weight_change_too_large": CheckFact("weight", "change", {"abs_mean_update_ratio_gt": 0.1, "epsilon": 1e-9}),
    "weight_change_too_small": CheckFact("weight", "change", {"abs_mean_update_ratio_lt": 1e-4, "epsilon": 1e-9}),
    "activation_range": CheckFact("activation", "range", _RANGE),
    "tensor_range": CheckFact("tensor", "range", _RANGE),
}

# What thresholds are about: a parameter is a quantity and `_gt`, `_ge` or `_lt`.
QUANTITIES = (
    *("abs_mean", "max", "min", "mean", "zero_percentage", "range_percentage", "max_min", "abs_mean_update_ratio"),
)

_TANH_8_8 = 0.9999999545590812
_SIGMOID_16_2 = 0.9999999078640001
_RELU: Mapping[str, float] = {"range_start_inclusive": -1.0, "range_end_inclusive": 0.0, "range_percentage_gt": 99.9}

# Recommended parameters of `activation_range`, by operator type in lower case.
ACTIVATIONS: Mapping[str, Mapping[str, float]] = {
    "tanh": {"range_start_inclusive": -_TANH_8_8, "range_end_inclusive": _TANH_8_8, "range_percentage_lt": 0.1},
    "sigmoid": {
        "range_start_inclusive": 1.0 - _SIGMOID_16_2,
        "range_end_inclusive": _SIGMOID_16_2,
        "range_percentage_lt": 0.1,
    },
    "relu": _RELU,
    "reluv2": _RELU,
    "relu6": _RELU,
}

# How weights end among Parameters, which are a network's inputs and an optimizer's states, too; after `.` or `_`.
WEIGHT_ENDINGS = ("weight", "bias", "gamma", "beta", "embedding_table")

# Those that are added and begin at 0 by design: a change relative to their own size means nothing.
SHIFT_ENDINGS = ("bias", "beta")

# The first output, by operator type in lower case, that only the operator's gradient (or nothing at all) reads. Kernels
# leave those that they do not need at 0.
#
# MindSpore 2.10 `ops.BatchNorm` (batch_mean, batch_variance, reserve_space_1, reserve_space_2), CANN operator list
# (BNTrainingUpdate; BatchNormGrad: reserve_space_4, reserve_space_5), TensorFlow `FusedBatchNormV3`.
AUXILIARY_OUTPUTS: Mapping[str, int] = {
    **dict.fromkeys(("batchnorm", "batchnormwithactivation", "batchnormwithaddandactivation", "bninfer"), 1),
    **dict.fromkeys(("bntrainingupdate", "bntrainingupdatev2", "bntrainingupdatev3"), 1),
    **dict.fromkeys(("fusedbatchnorm", "fusedbatchnormex", "fusedbatchnormv2", "fusedbatchnormv3"), 1),
    **dict.fromkeys(("instancenorm", "syncbatchnorm"), 1),
    **dict.fromkeys(("batchnormgrad", "batchnormgradwithactivation", "batchnormgradwithaddandactivation"), 3),
    **dict.fromkeys(("fusedbatchnormgradv2", "fusedbatchnormgradv3"), 3),
}

# How the states of optimizers begin; what follows is the weight's own name.
_ADAM = ("moments", "moment1", "moment2", "vhat")
OPTIMIZER_STATES = (*_ADAM, "accum", "accumulation", "stat", "mean_square", "mean_grad")

# First scope of the operators that compute gradients, in lower case.
GRADIENT_SCOPES = ("gradients",)
