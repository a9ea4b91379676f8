"""Sentences of upgrades, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# verdicts
upgrade_kernel | same inputs, other bits; right by replay in both | 输入相同而比特不同；两侧经重放均正确
upgrade_setting | settings differ: {names:and} | 设置不同：{names:and}
upgrade_code | {what} was {was}, is {now} | {what} 由 {was} 变为 {now}
upgrade_only_old | only the old environment has it | 仅旧环境有此算子
upgrade_only_new | only the new environment has it | 仅新环境有此算子
upgrade_wrong_old | the old environment is wrong: off by {score:number}, limit {bound:number} | 旧环境有误：偏差 {score:number}，阈值 {bound:number}
upgrade_wrong_new | the new environment is wrong: off by {score:number}, limit {bound:number} | 新环境有误：偏差 {score:number}，阈值 {bound:number}
upgrade_wrong_both | both environments are wrong: off by {score:number}, limit {bound:number} | 两个环境都有误：偏差 {score:number}，阈值 {bound:number}
upgrade_inherited | same bits when both are given the same inputs | 给予相同输入时比特相同
upgrade_inherited_right | its inputs differ; right by replay in both | 其输入不同；两侧经重放均正确
upgrade_unsteady | differs between two runs of one environment; right by replay in both | 同一环境的两次运行之间不同；两侧经重放均正确
upgrade_not_judged | it was not replayed: {why} | 未能重放：{why}
upgrade_no_replay | nothing says what it should be | 没有依据说明其应有的结果
# a pair of environments
upgrade_head | {old} > {new}: {differing} of {tensors} tensors differ | {old} > {new}：{tensors} 个张量中 {differing} 个不同
upgrade_equal | {old} > {new}: all {tensors} tensors have the same bits | {old} > {new}：全部 {tensors} 个张量比特相同
upgrade_inherit | inherited  {n} operator, e.g. {names} | inherited  {n} operators, e.g. {names} | inherited  {n} 个算子，例如 {names}
upgrade_beyond | beyond the limits of {profile}: {names} | 超出 {profile} 阈值：{names}
upgrade_given | not given the same: {names} | 得到的输入、权重或种子不同：{names}
upgrade_settings | settings that differ: {names} | 不同的设置：{names}
upgrade_packages | packages that differ: {names} | 不同的软件包：{names}
upgrade_pinned | the same in both: {names} | 两侧相同：{names}
upgrade_unforced | the recording does not hand tensors on: a changed kernel may hide among the inherited | 采集不支持传递张量：继承的算子中可能仍有改变的核函数
upgrade_skipped | skipped {name}: {why} | 已跳过 {name}：{why}
upgrade_tried | {n} of {total} releases tried | 共 {total} 个版本，尝试了 {n} 个
upgrade_fine | nothing that matters changed | 没有重要的变化
upgrade_bad | the upgrade changes what matters | 升级改变了重要的结果
upgrade_unknown | not all of it could be judged | 未能全部判断
upgrade_cannot | cannot be judged: {why} | 无法判断：{why}
# files
upgrade_title | Numerics changelog | 数值变更日志
upgrade_operator | operator | 算子
upgrade_written | report: {files} | 报告：{files}
"""
)
