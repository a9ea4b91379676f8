"""What kind of operator a type, or a name, speaks of."""

from __future__ import annotations

import re

from pytest_msdump.facts.kinds import KINDS

_WORDS = re.compile(r"[a-z]+")
# Dimensions and versions: `Conv2d`, `BatchNormV2`.
_SIZE_OR_VERSION = re.compile(r"(?:[1-5]d|v\d{1,2}|\d{1,3})$")
# Types that say nothing as a part of a name.
_NO_NAMES = frozenset({"data", "shape", "range", "mean"})


def kind_of(op_type: str | None, name: str = "") -> str:
    """Return the kind of an operator type, or without one of a name; empty for what is not known.

    >>> kind_of("Conv2d"), kind_of("AdaptiveAvgPool2d"), kind_of("BasicBlock"), kind_of(None, "relu1")
    ('convolution', 'pooling', '', 'activation')
    """
    if not op_type:
        return kind_of_name(name)
    word = op_type.lower()
    while word not in KINDS:
        shorter = _SIZE_OR_VERSION.sub("", word)
        if shorter == word:
            return ""
        word = shorter
    return KINDS[word]


def kind_of_name(name: str) -> str:
    """Return the kind that the last part of a name speaks of; empty where it does not.

    >>> kind_of_name("block.relu1"), kind_of_name("fc2"), kind_of_name("layer1.0")
    ('activation', 'linear', '')
    """
    words = _WORDS.findall(re.split(r"[./]", name)[-1].lower())
    return next((KINDS[word] for word in reversed(words) if word in KINDS and word not in _NO_NAMES), "")
