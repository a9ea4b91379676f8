"""Sentences on a model that runs in two frameworks, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# inputs
port_inputs_file | both ran on the inputs in {file}: {inputs} | 两侧都使用 {file} 中的输入：{inputs}
port_inputs_returned | both ran on the inputs that {side} returned: {inputs} | 两侧都使用 {side} 返回的输入：{inputs}
port_inputs_drawn | both ran on inputs drawn for {side}: {inputs}; give --inputs FILE.npz for others | 两侧都使用按 {side} 随机生成的输入：{inputs}；如需其他输入，请给出 --inputs FILE.npz
# files
port_suite | the dumps and the suite of this comparison are kept: | 本次比对的数据与套件已保留：
"""
)
