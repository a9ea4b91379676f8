"""Statistics of tensors: what MindSpore and CANN save in tables in the place of tensors, and what they call it.

References
----------
MindSpore "Dump" documentation, releases 1.6 to 2.10, ``statistic.csv`` and `statistic_category`; CANN "Dump Data"
(acl.json), `dump_stats`. The columns named after a zero hold something else than they say: elements below and above 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

__all__ = ["ABSENT", "DIGITS", "LABEL_COLUMNS", "SIGN_CHANGES", "STATISTICS", "StatisticFact"]

# What a writer puts where there was nothing to compute with, e.g. the maximum of a tensor of NaN alone.
ABSENT = frozenset({"", "null"})

# Streams of C++ print so many significant digits unless told otherwise.
DIGITS = 6


class StatisticFact(NamedTuple):
    """One statistic: `kind` is value, count or digest; `columns` its titles in tables, lower case; `says` it in words.

    Values are of the finite elements alone, but for the norm, which is NaN or infinite with any such element.
    """

    kind: str
    columns: tuple[str, ...]
    says: str


STATISTICS: Mapping[str, StatisticFact] = {
    "maximum": StatisticFact("value", ("max value",), "largest finite element"),
    "minimum": StatisticFact("value", ("min value",), "smallest finite element"),
    "mean": StatisticFact("value", ("avg value",), "mean of the finite elements"),
    "l2_norm": StatisticFact("value", ("l2norm value", "l2 value", "l2norm"), "square root of the sum of squares"),
    "count": StatisticFact("count", ("count",), "number of elements"),
    "negative_count": StatisticFact("count", ("negative zero count",), "finite elements below 0"),
    "positive_count": StatisticFact("count", ("positive zero count",), "finite elements above 0"),
    "zero_count": StatisticFact("count", ("zero count",), "elements that are 0"),
    "nan_count": StatisticFact("count", ("nan count",), "elements that are NaN"),
    "negative_inf_count": StatisticFact("count", ("negative inf count",), "elements that are -Inf"),
    "positive_inf_count": StatisticFact("count", ("positive inf count",), "elements that are +Inf"),
    "md5": StatisticFact("digest", ("md5",), "MD5 of the tensor's bytes"),
    "sha1": StatisticFact("digest", ("sha1",), "SHA-1 of the tensor's bytes"),
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
