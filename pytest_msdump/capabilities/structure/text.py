"""Sentences on what spoke for a pair, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# how layers of other names were paired
structure_joined | joined: {whole} = {parts} | 拼接：{whole} = {parts}
structure_names | names: {left} ~ {right} | 名称：{left} ~ {right}
structure_parent | order in one parent: {left} ~ {right} | 同一父模块内的次序：{left} ~ {right}
structure_kind | the only ones of a kind and size: {left} ~ {right} | 同种类、同大小的唯一一对：{left} ~ {right}
structure_order | order between pairs: {left} ~ {right} | 已配对者之间的次序：{left} ~ {right}
structure_in_blocks | equal blocks in order, {why} | 相同的块依次对应，{why}
"""
)
