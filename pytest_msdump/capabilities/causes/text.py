"""Sentences on what explains failures together, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# one mistake behind all iterations
looks_since_iteration | wrong from an iteration on | 自某次迭代起出错
since_iteration | right in {n} iteration before, wrong from iteration {iteration} on; look at what iterations hand on: KV cache, positions, state | right in {n} iterations before, wrong from iteration {iteration} on; look at what iterations hand on: KV cache, positions, state | 之前的 {n} 次迭代正确，自第 {iteration} 次迭代起出错：应检查迭代之间传递的内容，如 KV 缓存、位置、状态
# roles
found_by | {text}; found by {source} | {text}；依据：{source}
by_graph | the run's own graph | 运行自身的计算图
by_right_graph | the right side's graph | 右侧的计算图
by_fusion | the fusion JSON | 融合规则 JSON
by_order | execution order (no graph connects the operators) | 执行顺序（没有计算图说明算子间的连接）
start_unknown | {n} operator fails; whether it started there is unknown: {reason} | {n} operators fail; which one started it is unknown: {reason} | {n} 个算子未通过；无法得知起因在哪一个：{reason}
one_cause | 1 cause: {operator} | 1 个起因：{operator}
cause_line | cause  {operator} (op {place} of {operators}) | 起因  {operator}（第 {place} 个算子，共 {operators} 个）
more_causes | and {n} more causes; --msdump-show=all lists them | 另有 {n} 个起因；--msdump-show=all 可全部列出
same_in | the same in {n} more: {names} | 另有 {n} 处相同：{names}
inherited_count | {n} inherited (--msdump-show=failing) | 被 {n} 个继承（--msdump-show=failing）
inherited_line | {n} inherited: {names} | 被 {n} 个继承：{names}
accumulated_line | accumulated  {operator} (op {place} of {operators}) | 累积  {operator}（第 {place} 个算子，共 {operators} 个）
accumulated_after | {n} accumulated after it: {names} | 其后另有 {n} 个累积：{names}
more_accumulated | and {n} more accumulated; --msdump-show=all lists them | 另有 {n} 个累积；--msdump-show=all 可全部列出
unknown_line | did it start here? unknown  {names}: {reason} | 起因是否在此？无法得知  {names}：{reason}
more_unknown | and {n} more reasons; --msdump-show=all lists them | 另有 {n} 种原因；--msdump-show=all 可全部列出
without_cause | inherited  {names}: their inputs fail, and what made them is unknown (not compared or no graph) | 继承  {names}：其输入未通过，而这些输入的来源未比对，或没有计算图说明来源
amplifying | error amplification (output error / input error): {names} | 误差放大倍数（输出误差 / 输入误差）：{names}
grew_within | grew {step} at {operator}, still within its limit | 误差在 {operator} 处{step}，仍在阈值之内
loose_limits | these limits are loose: the mistake may be far ahead of the first operator that fails | 阈值较宽松，真正出错的算子可能远在最先未通过的算子之前
step_times | × {factor} | 增长 × {factor}
step_from_equal | from 0 | 由 0 增长
largest_growth | the largest growth is {step} at {operator} | 增长最大处为 {operator}：{step}
role_cause | cause | 起因
role_accumulated | accumulated | 累积
role_inherited | inherited | 继承
role_unknown | Did it start here? Unknown | 起因是否在此？无法得知
# why it has its role: the English stands in results.json
why_unseen | not all of its inputs were compared: {suspects} | 其输入没有全部比对：{suspects}
why_shared | other failing operators share an input that was not compared: {suspects} | 其他未通过的算子与它共用一个未比对的输入：{suspects}
why_circle | it is in a loop of operators that all fail: {suspects} | 它所在的环中算子均未通过：{suspects}
why_order | no graph connects the operators: it runs after a failing one, but may be wrong by itself | 没有计算图说明算子间的连接；它排在某个未通过的算子之后，也可能自身就有误
why_no_order | plain folders hold no graph and no order | 普通文件夹不含计算图，也不含执行顺序
why_order_jump | no graph connects the operators; the largest jump before it in execution order is {step} at {at}, still within its limit | 没有计算图说明算子间的连接；此前按执行顺序最大的跳变在 {at} 处（{step}），仍在阈值之内
why_feeds | no graph shows its inputs | 没有计算图说明其输入
why_earlier | its input may come from an earlier part of the run, which fails, too | 其输入可能来自运行中更早的部分，而那部分也未通过
why_ranks | its input comes from other ranks, and some of those fail | 其输入来自其他 rank，其中有未通过的
why_input | its input fails, and the operator that made it was not judged: {suspects} | 其输入未通过，而产生该输入的算子没有判定结论：{suspects}
why_step | through parameters that the iteration before updated: {suspects} | 经由上一次迭代更新的参数：{suspects}
why_before | its input fails; before that: {suspects} | 其输入未通过；在此之前：{suspects}
why_first | the first to fail | 最先未通过
why_passing | all of its inputs that were compared pass | 已比对的输入均通过
why_weight | this weight differs before the run begins | 该权重在运行开始之前就不同
why_grew | an input of it, or an operator before it, fails, too | 它的某个输入或排在其前的算子也未通过
why_jump | it is still within its limit, but operators that take its output fail | 它仍在阈值之内，但使用其输出的算子未通过
why_within | the error grew {step} here, still within its limit, and in small steps afterwards | 误差在该处{step}，仍在阈值之内，此后逐步增大
why_accumulated | error grew from {start} to {end} of the limit over {n} operator; the largest step is {step} at {at} | error grew from {start} to {end} of the limit over {n} operators; the largest step is {step} at {at} | 误差经 {n} 个算子由阈值的 {start} 增至 {end}；最大的一步在 {at} 处（{step}）
region_first | {text}; no graph says what feeds it | {text}；没有计算图说明其输入来源
certainty_proven | proven: {text} | 已证实：{text}
certainty_bounded | bounded: {text} | 已限定范围：{text}
certainty_first_seen | first seen: {text} | 最先发现：{text}
region_operators | {text}; not compared in between: {names} | {text}；其间未比对：{names}
region_lines | {text} ({lines}) | {text}（{lines}）
region_in | in {module}, {text} | 在 {module} 中，{text}
region_after | after {after}, {text} | 位于 {after} 之后，{text}
region_input | before the input of {end} | {end} 的输入之前
region_output | up to the output of {end} | 直到 {end} 的输出
grown | its error grew {step}, from {start} to {end} of its limit | 其误差{step}，由阈值的 {start} 增至 {end}
grown_from_equal | its error is {end} of its limit, and its inputs are equal | 其误差为阈值的 {end}，而其输入相等
left_out | its input on the right has no partner: {names} | 它在右侧的输入没有配对：{names}
or_before | the mistake is in {operator}, or in {suspects} before it (not compared) | 错误在 {operator}，或在其之前的 {suspects}（未比对）
between_choices |  or  | 或
given_unseen | not compared: {names} | 未比对：{names}
given_before | not compared with their values before the step: {names} | 未比对本步之前的值：{names}
operators_before | {n} operator before {operator} | {n} operators before {operator} | {operator} 之前的 {n} 个算子
operations_before | operations before {operator} | {operator} 之前的运算
state_not_dumped | not dumped | 未落盘
state_not_replayed | not replayed | 未重放
state_not_run | not run | 未运行
state_no_partner | no partner | 未配对
state_compared_in_part | compared in part | 仅部分比对
state_not_selected | not selected | 未选中
state_fails | fails | 未通过
state_passes | passes | 通过
role_from | {role} from {names} | {role}（来自 {names}）
# pairs that look wrong
better_right | {names} on the right fits far better ({why}): a wrong pair, or the left computes the wrong tensor here | 右侧的 {names} 更吻合（{why}）：配对有误，或左侧在此处算出了别的张量
better_left | {names} on the left fits the right far better ({why}): a wrong pair, or the left computes this tensor elsewhere | 左侧的 {names} 与右侧更吻合（{why}）：配对有误，或左侧在别处算出了该张量
with_doubt | {text}; ambiguous: {doubt} | {text}；无法确定：{doubt}
doubt_several | several tensors have these values | 有多个张量的值与此相同
doubt_values | too few different values to recognise a tensor | 不同的值太少，无法辨认张量
doubt_names | names or the fusion file pair these two, so the operator may just pass its input through | 名称或融合规则将两者配对，该算子可能只是透传了输入
more_suspicious | and {n} more suspicious pairs; --msdump-show=all lists them | 另有 {n} 个可疑配对；--msdump-show=all 可全部列出
do_map_instead | if a pair is wrong, msdump.toml needs: | 若配对有误，应在 msdump.toml 中写：
in_place_of | in place of {entry} | 取代 {entry}
# roles, suggestions and the summary
why_local | wrong by itself, as a replay shows | 重放表明其自身有误
why_local_inherited | right by itself: of the left's own inputs the reference makes the same | 自身正确：以左侧自己的输入，参考模型得到相同结果
why_local_unjudged | right by itself; before it, not judged: {suspects} | 自身正确；此前未判定：{suspects}
why_local_accumulated | right by itself, and so is all that was replayed before it: what rounding leaves has grown to this | 自身正确，此前重放的算子也均正确：由舍入误差逐步增大而来
"""
)
