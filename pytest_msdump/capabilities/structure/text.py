"""Sentences on what spoke for a pair, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# how layers of other names were paired
structure_joined | joined: {whole} = {parts} | 拼接：{whole} = {parts}
structure_names | names: {left} ~ {right} | 名称：{left} ~ {right}
structure_order | order, kind and size: {left} ~ {right} | 次序、种类与大小：{left} ~ {right}
structure_inside | what is inside: {left} ~ {right} | 内部的层：{left} ~ {right}
structure_weights | the only ones of their size: {left} ~ {right} | 同一大小中仅有的一对：{left} ~ {right}
structure_module | of a module that is paired: {left} ~ {right} | 属于已配对的模块：{left} ~ {right}
"""
)
