"""Metrics: their names, titles, and which way each of them is good. Statistics of single tensors.

References
----------
Ascend "Accuracy Comparison Tool" (algorithms 0 to 9), whose terms are here in snake case. Distances in ULP: msprobe
8ff00da, ``api_accuracy_checker/compare/algorithm.py``, |l−r| · 2^(mantissa bits − exponent of r), of which it limits
the mean and the shares above 1 and 32. Where r is 0 it takes 0 for the exponent, which makes any small error none; here
it is that of the smallest normal number, as for all that is below it. The other metrics are ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from pytest_msdump.core.registry import entry_points_of


class MetricFact(NamedTuple):
    """One metric.

    Parameters
    ----------
    title : str
        Heading in English tables.
    direction : str
        ``"high"`` (fails below its limit), ``"low"`` (fails above it) or ``"none"`` (takes no limit).
    short : str, optional
        Shorter name for options and rules.
    vendor_title : str, optional
        Heading in the vendor's tables.
    least, most : float
        Range of the number.
    define : callable, optional
        For metrics of other packages, which name such a row by an entry point of the group ``pytest_msdump.metrics``:
        from `metrics.definitions.Totals` to the number. Our own definitions are in `metrics.definitions`.
    golden : str, optional
        The field of `model.comparison.GoldenErrors` of which it is the ratio, left run over other run. Such a metric is
        measured only where a suite has a golden or a third dump (see `metrics.golden`), and is not there elsewhere.
    of : str, optional
        The key of a rule that calls tensors what this metric is for, such as ``"logits"``. Limits of a profile and of
        the command line on it hold for these alone.
    zh : str, optional
        Heading in Chinese tables, and its name in Chinese sentences; the id where there is none.
    """

    title: str
    direction: str
    short: str | None = None
    vendor_title: str | None = None
    least: float = 0.0
    most: float = math.inf
    define: Callable[[Any], Any] | None = None
    golden: str | None = None
    of: str | None = None
    zh: str = ""


METRICS: dict[str, MetricFact] = {
    "cosine_similarity": MetricFact(
        "cosine", "high", "cosine", "CosineSimilarity", least=-1.0, most=1.0, zh="余弦相似度"
    ),
    "max_absolute_error": MetricFact("max absolute", "low", "max_abs", "MaxAbsoluteError", zh="最大绝对误差"),
    "accumulated_relative_error": MetricFact(
        "accumulated relative", "low", "acc_rel", "AccumulatedRelativeError", zh="累积相对误差"
    ),
    "relative_euclidean_distance": MetricFact(
        "relative Euclid", "low", "rel_euclid", "RelativeEuclideanDistance", zh="相对欧氏距离"
    ),
    "kl_divergence": MetricFact("KL divergence", "low", "kld", "KullbackLeiblerDivergence", zh="KL 散度"),
    "standard_deviation": MetricFact("mean; deviation", "none", None, "StandardDeviation", zh="均值与标准差"),
    "mean_absolute_error": MetricFact("mean absolute", "low", "mean_abs", "MeanAbsoluteError", zh="平均绝对误差"),
    "root_mean_square_error": MetricFact("RMSE", "low", "rmse", "RootMeanSquareError", zh="均方根误差"),
    "max_relative_error": MetricFact("max relative", "low", "max_rel", "MaxRelativeError", zh="最大相对误差"),
    "mean_relative_error": MetricFact("mean relative", "low", "mean_rel", "MeanRelativeError", zh="平均相对误差"),
    "normalized_max_error": MetricFact("max abs / max |right|", "low", "norm_max", zh="归一化最大误差"),
    "mean_ulp_distance": MetricFact("mean ULP", "low", "ulp", zh="平均 ULP 距离"),
    "ulp_above_1_share": MetricFact("share above 1 ULP", "low", "ulp_1", most=1.0, zh="超过 1 ULP 的比例"),
    "ulp_above_32_share": MetricFact("share above 32 ULP", "low", "ulp_32", most=1.0, zh="超过 32 ULP 的比例"),
    "signal_to_noise_ratio": MetricFact("SNR in dB", "high", "snr", least=-math.inf, zh="信噪比（dB）"),
    "underflow_share": MetricFact("flushed to zero", "low", "underflow", most=1.0, zh="下溢为零的比例"),
    "worst_slice_error": MetricFact("worst slice", "low", "slice", zh="最差切片误差"),
    "nonfinite_mismatch": MetricFact("NaN/Inf mismatch", "low", zh="NaN/Inf 不一致数"),
    "saturated_count": MetricFact("overflow", "low", zh="溢出数"),
    # Counts that only a profile sets a limit on: elements outside rtol/atol, and elements whose bits differ.
    "allclose": MetricFact("outside rtol/atol", "low", zh="超出 rtol/atol 的元素数"),
    "bitwise_mismatch": MetricFact("differing bits", "low", zh="逐位不同的元素数"),
    # How many times the error of the other run, both against one golden tensor.
    "golden_rmse_ratio": MetricFact("golden RMSE ratio", "low", "golden_rmse", golden="rmse", zh="真值均方根误差比"),
    "golden_normal_rmse_ratio": MetricFact(
        "golden RMSE ratio, no small values",
        "low",
        "golden_normal",
        golden="normal_rmse",
        zh="真值均方根误差比（不计小值）",
    ),
    "golden_max_relative_error_ratio": MetricFact(
        "golden max relative ratio", "low", "golden_max_rel", golden="max_relative_error", zh="真值最大相对误差比"
    ),
    "golden_mean_relative_error_ratio": MetricFact(
        "golden mean relative ratio",
        "low",
        "golden_mean_rel",
        golden="mean_relative_error",
        zh="真值平均相对误差比",
    ),
    "golden_small_value_ratio": MetricFact(
        "golden small ratio", "low", "golden_small", golden="small_value_share", zh="真值小值误差比"
    ),
    "golden_error_balance_ratio": MetricFact(
        "golden error balance ratio", "none", "golden_balance", golden="error_balance", zh="真值误差均衡性比"
    ),
    # Of tensors that a rule calls logits, along the last axis.
    "softmax_kl": MetricFact("KL of softmax, mean", "low", of="logits", zh="softmax 的 KL 均值"),
    "p99_softmax_kl": MetricFact("KL of softmax, 99 %", "low", of="logits", zh="softmax 的 KL 99 % 分位"),
    "max_softmax_kl": MetricFact("KL of softmax, largest", "low", of="logits", zh="softmax 的 KL 最大值"),
    "log_probability_error": MetricFact(
        "log-probability of the token", "low", of="logits", zh="所选 token 的对数概率误差"
    ),
    "top1_agreement": MetricFact("top-1 agreement", "high", "top1", most=1.0, of="logits", zh="top-1 一致率"),
    "top5_overlap": MetricFact("top-5 overlap", "high", "top5", most=1.0, of="logits", zh="top-5 重合率"),
    # Of indices that a rule says route tokens.
    "changed_routes": MetricFact("changed routes", "low", most=1.0, of="routes", zh="路由改变的比例"),
}
# Here, so that every table that is made of this one has them, too.
METRICS.update((point.name, point.load()) for point in entry_points_of("pytest_msdump.metrics"))


def title_of(metric: str, language: str) -> str:
    """Return what a metric is called in a language; one that is not known, or not in that language, by its id."""
    fact = METRICS.get(metric)
    return metric if fact is None else (fact.zh or metric) if language == "zh" else fact.title


SHORT_FORMS: dict[str, str] = {fact.short: name for name, fact in METRICS.items() if fact.short}

# Any limit on one of these fails while `right_zero_mismatch` is not 0.
RELATIVE_METRICS = frozenset({"max_relative_error", "mean_relative_error", "accumulated_relative_error"})

# Counts of NaN, Inf and overflow: they say nothing of how far finite values are apart.
CLASS_METRICS = frozenset({"nonfinite_mismatch", "saturated_count"})
# Elements dominate all others, as those of a mask do: binades, or powers of two, of the least one and of the gap below
# them, how many binades they take up at most, and that one in so many elements is such a one.
DOMINATING_FROM, DOMINATING_GAP, DOMINATING_BINADES, DOMINATING_ONE_IN = 10, 6, 2, 100
# A few elements that are far larger than all others leave no trace of these: limits are held to the others, too.
NORM_METRICS = frozenset(
    {
        "cosine_similarity",
        "relative_euclidean_distance",
        "root_mean_square_error",
        "normalized_max_error",
        "signal_to_noise_ratio",
        "golden_rmse_ratio",
        "golden_normal_rmse_ratio",
    }
)

# Measured where one of them has a limit.
ULP_METRICS = frozenset({"mean_ulp_distance", "ulp_above_1_share", "ulp_above_32_share"})

# What the size of the values has no part in: of two tensors of rounding errors alone these say nothing.
SCALE_FREE_METRICS = (
    RELATIVE_METRICS
    | ULP_METRICS
    | {name for name, fact in METRICS.items() if fact.golden}
    | {
        "cosine_similarity",
        "relative_euclidean_distance",
        "kl_divergence",
        "normalized_max_error",
        "signal_to_noise_ratio",
        "underflow_share",
        "worst_slice_error",
        "allclose",
    }
)


# What a writer puts where there was nothing to compute with, e.g. the maximum of a tensor of NaN alone.
ABSENT = frozenset({"", "null"})

# Significant digits that streams of C++ print by default.
DIGITS = 6


class StatisticFact(NamedTuple):
    """One statistic: `kind` is value, count or digest; `columns` its titles in tables, lower case; `says` it in words.

    Values are of the finite elements alone, but for norms, which are NaN or infinite with any such element. A digest
    has so many `hex_digits`. Equal ones of a kind that `proves` it are of equal bytes. The others are easily equal (any
    even number of equal words has an XOR of 0), and only say something where they differ.
    """

    kind: str
    columns: tuple[str, ...]
    says: str
    hex_digits: int = 0
    proves: bool = False

    def is_digest(self, text: object) -> bool:
        """Whether a text is a whole digest of this kind, in lower case."""
        return isinstance(text, str) and len(text) == self.hex_digits and _HEX.issuperset(text)


_HEX = frozenset("0123456789abcdef")


STATISTICS: Mapping[str, StatisticFact] = {
    "maximum": StatisticFact("value", ("max value",), "largest finite element"),
    "minimum": StatisticFact("value", ("min value",), "smallest finite element"),
    "mean": StatisticFact("value", ("avg value",), "mean of the finite elements"),
    "l2_norm": StatisticFact("value", ("l2norm value", "l2 value", "l2norm"), "square root of the sum of squares"),
    "l1_norm": StatisticFact("value", ("l1norm value",), "sum of the magnitudes"),
    "count": StatisticFact("count", ("count",), "number of elements"),
    "negative_count": StatisticFact("count", ("negative zero count",), "finite elements below 0"),
    "positive_count": StatisticFact("count", ("positive zero count",), "finite elements above 0"),
    "zero_count": StatisticFact("count", ("zero count",), "elements that are 0"),
    "nan_count": StatisticFact("count", ("nan count",), "elements that are NaN"),
    "negative_inf_count": StatisticFact("count", ("negative inf count",), "elements that are -Inf"),
    "positive_inf_count": StatisticFact("count", ("positive inf count",), "elements that are +Inf"),
    "md5": StatisticFact("digest", ("md5",), "MD5 of the tensor's bytes", 32, proves=True),
    "sha1": StatisticFact("digest", ("sha1",), "SHA-1 of the tensor's bytes", 40, proves=True),
    "blake2b": StatisticFact("digest", ("blake2b",), "BLAKE2b of the tensor's bytes, 16 bytes", 32, proves=True),
    "xxh3_128": StatisticFact("digest", ("xxh3_128",), "XXH3 of the tensor's bytes, 16 bytes", 32, proves=True),
    "xxh64": StatisticFact("digest", ("xxh64",), "XXH64 of the tensor's bytes", 16, proves=True),
    "crc32": StatisticFact("digest", ("crc32",), "CRC-32 of the tensor's bytes", 8),
    "xor64": StatisticFact("digest", ("xor64",), "XOR of the tensor's bytes, 8 at a time, whatever their order", 16),
    "xor64_wide": StatisticFact("digest", ("xor64_wide",), "XOR of the elements as float64 or int64, in any order", 16),
}

# The share of elements that may lie on the other side of 0, by the coarser data type (types that are not here are as
# the coarsest). Ours, no vendor's: the drift that `normalized_max_error` allows by default turns about so many elements
# of a normal distribution.
SIGN_CHANGES: Mapping[str, float] = {"float64": 0.01, "float32": 0.01, "float16": 0.05, "bfloat16": 0.1}

# Columns that say which tensor a row is about, and what else is known of it, by their title in lower case.
LABEL_COLUMNS: Mapping[str, str] = {
    "op type": "op_type",
    "op name": "op",
    "task id": "task",
    "stream id": "stream",
    "timestamp": "timestamp",
    "io": "io",
    "input/output": "io",
    "slot": "slot",
    "index": "slot",
    "data size": "data_bytes",
    "data type": "dtype",
    "format": "memory_format",
    "shape": "shape",
}
