"""What an operator computes, by its type or its name."""

from __future__ import annotations

import re

from pytest_msdump.facts.kinds import KINDS

__all__ = ["kind_of", "kind_of_name"]

_WORDS = re.compile(r"[a-z]+")
# `Conv2d`, `Conv2dTranspose`; `BatchNormV2`, `ReLU6`.
_DIMENSIONS = re.compile(r"[1-5]d(?=[a-z]|$)")
_VERSION = re.compile(r"(?:v\d{1,2}|\d{1,3})$")
# Types that say nothing as a part of a name.
_NO_NAMES = frozenset({"data", "shape", "range", "mean"})


def kind_of(op_type: str | None, name: str = "") -> str:
    """Return the kind of an operator type, or without one of a name; empty for what is not known.

    Examples
    --------
    >>> kind_of("Conv2dTranspose"), kind_of("FusedBatchNormV3"), kind_of("BasicBlock"), kind_of(None, "relu1")
    ('transposed convolution', 'batch norm', '', 'activation')
    """
    if not op_type:
        return kind_of_name(name)
    word = _DIMENSIONS.sub("", op_type.lower())
    return KINDS.get(word) or KINDS.get(_VERSION.sub("", word), "")


def kind_of_name(name: str) -> str:
    """Return the kind that the last part of a name speaks of; empty where it does not.

    Examples
    --------
    >>> kind_of_name("block.relu1"), kind_of_name("fc2"), kind_of_name("layer1.0")
    ('activation', 'linear', '')
    """
    words = _WORDS.findall(re.split(r"[./]", name)[-1].lower())
    return next((KINDS[word] for word in reversed(words) if word in KINDS and word not in _NO_NAMES), "")
