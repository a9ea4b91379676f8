"""Sentences on what became better and worse, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# how many tensors became what
diff_n_broken | {n} broken | {n} 个新出现不通过
diff_n_worse | {n} worse | {n} 个变差
diff_n_new_failing | {n} new and failing | {n} 个新增且不通过
diff_n_not_judged | {n} not judged any more | {n} 个不再有结论
diff_n_loosened | {n} passing by looser judgement | {n} 个因判定放宽而通过
diff_n_fixed | {n} fixed | {n} 个已修复
diff_n_better | {n} better | {n} 个变好
diff_n_new | {n} new | {n} 个新增
diff_n_gone | {n} gone | {n} 个消失
diff_n_unchanged | {n} as before | {n} 个与之前相同
# titles of lists
diff_title_broken | broken: passed before, fails now | 新出现不通过：之前通过，现在不通过
diff_title_worse | worse | 变差
diff_title_new_failing | new, and failing | 新增且不通过
diff_title_not_judged | not judged any more | 不再有结论
diff_title_loosened | passes by looser judgement, not fixed | 现在通过，但并未修复：判定比之前宽松
diff_title_fixed | fixed: failed before, passes now | 已修复：之前不通过，现在通过
diff_title_better | better | 变好
diff_title_new | new | 新增
diff_title_gone | gone: no longer compared | 消失：不再比对
diff_more | and {n} more | 另有 {n} 个
# why
diff_turned | {before} → {after} | {before} → {after}
diff_number | {metric:metric} {before} → {after}, limit {limit} | {metric:metric} {before} → {after}，阈值 {limit}
diff_changed | {metric:metric} {before} → {after} | {metric:metric} {before} → {after}
diff_crossed | {metric:metric} {before} → {after}: beyond the limit before, {limit}, and within the one now, {bound} | {metric:metric} {before} → {after}：超出之前的阈值 {limit}，但在现在的阈值 {bound} 之内
diff_loosened | limit loosened: {metric:metric} {before} → {after}, limit {limit} → {bound} | 阈值放宽：{metric:metric} {before} → {after}，阈值 {limit} → {bound}
diff_tightened | limit tightened: {metric:metric} {before} → {after}, limit {bound} → {limit} | 阈值收紧：{metric:metric} {before} → {after}，阈值 {bound} → {limit}
diff_permitted | passes by a permission or an excuse that it did not have | 凭之前没有的许可或豁免通过
diff_judged_otherwise | the profile or the rule for NaN and Inf is another one | 阈值方案或 NaN、Inf 的规则不同
diff_fewer | {n:,} of {total:,} elements are compared now | 现在只比对 {total:,} 个元素中的 {n:,} 个
diff_run_not_ended | passes, but its run is not complete | 通过，但其运行不完整
# the whole
diff_before | before: {file}: {counts}, {share} of the reference compared, profile {profile} | 之前：{file}：{counts}，已比对参考的 {share}，阈值方案 {profile}
diff_after | after:  {file}: {counts}, {share} of the reference compared, profile {profile} | 之后：{file}：{counts}，已比对参考的 {share}，阈值方案 {profile}
diff_nothing_meets | no tensor is in both results; are they of one suite? | 两份结果没有共同的张量；它们属于同一套件吗？
diff_not_complete | the later run is not complete: what it did not judge is not fixed | 之后的运行不完整：未判定的不算修复
diff_coverage_fell | less of the reference is compared: {before} → {after} | 参考的比对比例下降：{before} → {after}
diff_coverage_fails | coverage fails now: {text} | 覆盖率现在不通过：{text}
diff_outcome_worse | something became worse: {counts} | 有变差：{counts}
diff_outcome_same | nothing became worse: {counts} | 没有变差：{counts}
diff_since | since {file}: {verdict} (the verdict of this run is its own) | 自 {file} 以来：{verdict}（不影响本次运行的结论）
diff_page | Since {file} | 自 {file} 以来
"""
)
