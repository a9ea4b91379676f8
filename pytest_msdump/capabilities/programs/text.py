"""Sentences of programs, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
repeat_equal | {runs:n_runs}, {tensors:n_tensors} each: all equal | {runs:n_runs}，每次 {tensors:n_tensors}：全部相同
repeat_differ | {runs:n_runs}, {tensors:n_tensors} each: {n} differs between runs | {runs:n_runs}, {tensors:n_tensors} each: {n} differ between runs | {runs:n_runs}，每次 {tensors:n_tensors}：{n} 个在各次运行之间不同
repeat_given | the runs were not given the same: {names} | 各次运行得到的输入或权重不同：{names}
repeat_alone | not all runs have the same operators: {names} | 各次运行的算子不完全相同：{names}
repeat_run | run {numbers} | 第 {numbers} 次运行
repeat_runs | runs {numbers} | 第 {numbers} 次运行
repeat_differs | {name} differs from run 1 in {runs}{line} | {name} 在{runs}中与第 1 次不同{line}
repeat_made_at | , made at {place} | ，产生于 {place}
repeat_but_given | {why}, but the runs were not given the same | {why}，但各次运行得到的输入或权重不同
repeat_weight | a weight, and nothing that was recorded changed it: are its initial values seeded? | 这是权重，且采集到的算子均未改变它：初始值是否设置了随机种子？
repeat_unseeded | random by design: seed it ({problem}) | 本就随机：请设置随机种子（{problem}）
repeat_seeded | random by design: its seeds are equal; is each run seeded before it? | 本就随机：随机种子相同；每次运行是否都在此之前设置了种子？
repeat_no_seed | no seed was recorded | 未记录随机种子
repeat_seeds_differ | seeds differ from run 1 in {runs} | {runs}的随机种子与第 1 次不同
"""
)
