"""Sentences on what runtimes save, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# notes on files
note_order_of_outputs | in the order in which the runner gave its outputs | 按运行器给出输出的先后
"""
)
