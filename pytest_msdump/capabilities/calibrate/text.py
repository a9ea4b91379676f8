"""Sentences of calibrate, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
limits_rose | {n} limits rose: {reason} | {n} 个阈值有所放宽：{reason}
limits_written | {file} is written: {n} tensors, {limited} with limits | 已写入 {file}：{n} 个张量，其中 {limited} 个有阈值
multipliers | limit = a multiple of the measured rounding: {judged} | 阈值为实测舍入的倍数：{judged}
kind_model | {m:g} × for {n} {kind} | {kind} {n} 个为 {m:g} 倍
looser_limits | {n} with a limit more than {most:g} × looser than profile default, which holds with --accept-looser of compare only: {names} | {n} 个的阈值比 default 方案宽松 {most:g} 倍以上，仅在 compare 使用 --accept-looser 时生效：{names}
"""
)
