"""Sentences on quantised runs, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# why tensors are not compared, and what a pair stands for
dequantised_weight | a weight that is kept in 8 bits | 以 8 位保存的权重
before_quantising | it is quantised next, and compared once it is dequantised | 随后被量化，反量化之后才比对
before_rounding | the same value rounded to 8 bits: it is compared before that | 同一数值舍入到 8 位：在舍入之前比对
dequantised | {tensor}, dequantised | {tensor}，经反量化
"""
)
