"""Sentences of suggest, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
paired_by | paired by | 配对依据
asked_not_paired | asked for, but not paired ({n}): | 要求配对但未配对（{n}）：
match_total | {n:n_pairs}; {paired} of {total} right tensors have a partner ({share}); without one: {left} left, {right} right | {n:n_pairs}；右侧 {total} 个张量已配对 {paired} 个（{share}）；未配对：左侧 {left} 个，右侧 {right} 个
nothing_pairs | nothing pairs: no left tensor has a partner on the right | 没有任何配对：左侧没有张量在右侧找到配对
init_heading | A first suite, made by msdump init. What every key means: docs/reference/suite_file.md | 由 msdump init 生成的比对配置文件。各键的含义：docs/reference/suite_file.md
init_written | {file} is written | 已写入 {file}
init_limits | limits: profile {profile}, since {why} | 阈值：方案 {profile}，因为{why}
init_calibrate | limits of this very model: msdump calibrate measures them, by one extra run of the reference | 该模型自身的阈值：msdump calibrate 可通过多运行一次标杆测出
profile_mixed | the {side:word} side ran in mixed precision: {policy} | {side:word}以混合精度运行：{policy}
profile_coarse | some tensors are {dtype} | 部分张量为 {dtype}
profile_no_device | nothing says on which device the left side ran | 无从得知左侧在哪种设备上运行
profile_device | {device} may compute products of float32 with fewer bits | {device} 可能以较低精度计算 float32 的乘法
profile_said | {file} says so | {file} 如此指定
profile_cpu | both sides computed float32 on the CPU | 两侧均在 CPU 上以 float32 计算
suggested_by | suggested by msdump match: {text} | 由 msdump match 建议：{text}
suggested_entries | {entries:n_entries}, {ambiguous} ambiguous (commented out), {rest:n_right} without a suggestion | {entries:n_entries}，{ambiguous} 个无法确定（已注释），{rest:n_right}没有建议
stands_for | stands for {entries:n_entries}; the one that differs most: {text} | 代表 {entries:n_entries}，其中差异最大的一个：{text}
suite_ties | both sides chose the largest of these values: where the error explains it, another choice is a near tie and warns | 两侧都选取了这些值中的最大项：若误差足以解释，不同的选择即为近似并列，仅告警
suite_unread | {n} of {pairs} pairs cannot be read, e.g. {why} | {pairs} 对中有 {n} 对无法读取，例如 {why}
suite_fails | it was run once: {n} of {pairs} pairs fail; the port is wrong there, or the pair is: look at {names} | 已试运行一次：{pairs} 对中有 {n} 对未通过；该处移植有误，或配对有误：请查看 {names}
suite_doubtful | it fails until an entry names the partner of (min_coverage): {names} | 在有条目写明以下张量的配对之前不会通过（min_coverage）：{names}
suggested_none | no suggestion for these right tensors | 以下右侧张量没有建议
suggested_copies | these right tensors hold the values of another one that has a partner | 以下右侧张量与另一个已配对的张量数值相同
suggested_unread | not looked at | 未查看
ambiguous_against | ambiguous: {name}: values are those of another tensor than names or order say; has the port mixed them up? Then take the entry whose names are right, which fails until the port is mended | 无法确定：{name}：数值与名称或次序所指的张量不符；移植模型是否将两者弄混？若是，请采用名称正确的条目，移植模型修正之前它不会通过
ambiguous_one | uncomment this entry to compare {name} | 取消注释以下条目即可比对 {name}
ambiguous_among | uncomment one of these {n} entries to compare {name} | 取消注释以下 {n} 个条目之一即可比对 {name}
"""
)
