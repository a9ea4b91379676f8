"""Metrics: the vendor's terms in snake case, ours beside them, and which way each of them is good.

References
----------
Ascend "Accuracy Comparison Tool" (algorithms 0 to 9); INTERFACE section 5 for what is ours and for what is undefined.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["METRICS", "RELATIVE_METRICS", "SHORT_FORMS", "MetricFact"]


class MetricFact(NamedTuple):
    """One row: `direction` is "high" (fails below its limit), "low" (fails above) or "none" (takes no limit)."""

    title: str
    direction: str
    short: str | None = None
    vendor_title: str | None = None


METRICS: dict[str, MetricFact] = {
    "cosine_similarity": MetricFact("cosine", "high", "cosine", "CosineSimilarity"),
    "max_absolute_error": MetricFact("max absolute", "low", "max_abs", "MaxAbsoluteError"),
    "accumulated_relative_error": MetricFact("accumulated relative", "low", "acc_rel", "AccumulatedRelativeError"),
    "relative_euclidean_distance": MetricFact("relative Euclid", "low", "rel_euclid", "RelativeEuclideanDistance"),
    "kl_divergence": MetricFact("KL divergence", "low", "kld", "KullbackLeiblerDivergence"),
    "standard_deviation": MetricFact("mean; deviation", "none", None, "StandardDeviation"),
    "mean_absolute_error": MetricFact("mean absolute", "low", "mean_abs", "MeanAbsoluteError"),
    "root_mean_square_error": MetricFact("RMSE", "low", "rmse", "RootMeanSquareError"),
    "max_relative_error": MetricFact("max relative", "low", "max_rel", "MaxRelativeError"),
    "mean_relative_error": MetricFact("mean relative", "low", "mean_rel", "MeanRelativeError"),
    "normalized_max_error": MetricFact("max abs / max |right|", "low", "norm_max"),
    "nonfinite_mismatch": MetricFact("NaN/Inf mismatch", "low"),
    "saturated_count": MetricFact("overflow", "low"),
    # Counts that only a profile sets a limit on: elements outside rtol/atol, and elements whose bits differ.
    "allclose": MetricFact("outside rtol/atol", "low"),
    "bitwise_mismatch": MetricFact("differing bits", "low"),
}

SHORT_FORMS: dict[str, str] = {fact.short: name for name, fact in METRICS.items() if fact.short}

# Any limit on one of these fails while `right_zero_mismatch` is not 0.
RELATIVE_METRICS = frozenset({"max_relative_error", "mean_relative_error", "accumulated_relative_error"})
