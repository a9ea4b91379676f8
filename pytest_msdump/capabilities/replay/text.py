"""Sentences of replay, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
local_not_called | the reference has no call {call} of a module {module}, counted from 0 | 参考模型没有模块 {module} 的第 {call} 次调用（从 0 计）
local_sample | a part of a tensor cannot stand for it | 张量的一部分不能代替它
"""
)
