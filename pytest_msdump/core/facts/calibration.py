"""Limits that are measured: which metrics they are of, and the figures that were chosen instead of measured.

References
----------
The figures were measured on twelve networks, forward and backward, with 360 harmless runs (threads, kernels, layouts,
order of sums) and 799 seeded mistakes: `benchmarks/limits.py`, ``docs/explanation/limits_from_perturbation.md``.
Noise on inputs averages out in the long sums of gradients, and the error of their order does not; TorchDynamo's
`same()` widens its rule for small tensors for that reason.
"""

from __future__ import annotations

from collections.abc import Mapping

# What limits files hold. A changed formula of one of these is a new version, which older files are refused by.
CALIBRATED_METRICS = ("relative_euclidean_distance", "normalized_max_error")
METRIC_VERSION = 1

# A tensor is small below so many elements.
SMALL_ELEMENTS = 1000
# The last part of the names that recorders give to gradients.
GRADIENTS = ("grad", "grad_input", "grad_output")
# Limit = multiplier × what rounding does. Harmless runs reach 7.0 forward and 29 in gradients; of mistakes that are ten
# roundings or more somewhere, 99.7 % exceed these.
ASSUMED_MULTIPLIERS: Mapping[str, float] = {
    "forward_large": 12.0,
    "forward_small": 12.0,
    "gradient_large": 64.0,
    "gradient_small": 64.0,
}

# The perturbation that tells what a coarser type does to a tensor: float16's unit, which float32 resolves well.
COARSE_UNIT = 2.0**-12
# A tensor whose error grows more than so many times faster than the perturbation, in a run perturbed up to so many
# times as much, is chaotic. Slower growth is no sign of it: rounding inside of operators, which falls otherwise in each
# run, makes the error at a rounding unit up to 16 times that of the perturbation alone.
CHAOTIC_GROWTH, CHAOTIC_WITHIN = 2.0, 64.0
# A base so many times what was measured hides a regression: the limit of a forward tensor is then 120 times that.
STALE = 10.0
# A limit of a file that is more times looser than that of the profile `default` holds only where a person accepts it.
MOST_LOOSER = 10.0
# A run of the reference that is more times as far from it as the assumed multiplier allows is no harmless one. Harmless
# runs reach 2.4 times that (BatchNorm over 50,000 terms in channels-last memory).
OUTLYING = 10.0
