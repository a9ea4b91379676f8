"""Sentences on sequences and tokens, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# where a drift lies
sequences_from | sequence {sequences:and} from token {first} on{when} | 序列 {sequences:and} 自第 {first} 个 token 起{when}
sequences_between | sequence {sequences:and} at tokens {first} to {last}{when} | 序列 {sequences:and} 的第 {first} 至 {last} 个 token{when}
sequences_at | sequence {sequences:and} at token {first}{when} | 序列 {sequences:and} 的第 {first} 个 token{when}
at_step |  (step {step} of the {side:word}) | （{side:word}的第 {step} 步）
"""
)
