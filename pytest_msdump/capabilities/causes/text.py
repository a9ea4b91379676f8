"""Sentences on what explains failures together, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# one mistake behind all failing gradients
looks_loss_scaled | a loss that is scaled | 损失被缩放
looks_since_iteration | wrong from an iteration on | 自某次迭代起出错
since_iteration | right in the iteration before, wrong from iteration {iteration} on; look at what iterations hand on: KV cache, positions, state | right in the {n} iterations before, wrong from iteration {iteration} on; look at what iterations hand on: KV cache, positions, state | 之前的 {n} 次迭代正确，自第 {iteration} 次迭代起出错：应检查迭代之间传递的内容，如 KV 缓存、位置、状态
looks_gradients_clipped | gradients that are clipped on one side | 仅一侧裁剪了梯度
gradients_scaled | all {n} gradients are {factor:.6g} times the right's: the loss is scaled or reduced otherwise (mean or sum, loss scale, steps of accumulation) | 全部 {n} 个梯度均为右侧的 {factor:.6g} 倍：损失的缩放或归约方式不同（均值或求和、loss scale、梯度累积步数）
gradients_clipped | the gradients of all {n} weights are {factor:.6g} times the right's, and those of activations are right: they are clipped or divided behind the backward pass, to a norm of {left:.6g} (right {right:.6g}) | 全部 {n} 个权重的梯度均为右侧的 {factor:.6g} 倍，而激活的梯度正确：反向之后被裁剪或除过，范数为 {left:.6g}（右侧 {right:.6g}）
gradients_clipped_to | the gradients of all {n} weights are {factor:.6g} times the right's: one side's are clipped to a norm (left {left:.6g}, right {right:.6g}) | 全部 {n} 个权重的梯度均为右侧的 {factor:.6g} 倍：仅一侧按范数裁剪（左侧 {left:.6g}，右侧 {right:.6g}）
gradients_cut | the gradients of all {n} weights agree but for what is beyond ±{value:.6g}: they are clipped by value, on the right they are not | 全部 {n} 个权重的梯度除超出 ±{value:.6g} 的元素外均一致：左侧按值裁剪，右侧没有
gradients_cut_right | the gradients of all {n} weights agree but for what is beyond ±{value:.6g}: on the right they are clipped by value, on the left they are not | 全部 {n} 个权重的梯度除超出 ±{value:.6g} 的元素外均一致：右侧按值裁剪，左侧没有
looks_gradients_kept | gradients that were not set to zero | 梯度未清零
gradients_kept | the gradients of all {n} weights are the right's of iteration {iteration} and of all before, added up: they are not set to zero (zero_grad) | 全部 {n} 个权重的梯度等于右侧第 {iteration} 次迭代与此前各次之和：梯度未清零（zero_grad）
gradients_kept_right | the right's gradients of all {n} weights are those of iteration {iteration} and of all before, added up: the right does not set them to zero (zero_grad) | 右侧全部 {n} 个权重的梯度等于左侧第 {iteration} 次迭代与此前各次之和：右侧未清零梯度（zero_grad）
looks_passes_differ | another number of passes in a step | 每步的前向与反向次数不同
passes_differ | a step is made of {left} forward passes, on the right of {right}: gradients are accumulated over another number of batches | 每步包含 {left} 次前向，右侧为 {right} 次：梯度累积的批次数不同
looks_loss_differs | another loss | 损失不同
loss_differs | what the model gives passes, and {n} of {of} gradients fail from the last on: the loss, or what is done to gradients behind it | 模型的输出通过，而 {of} 个梯度中有 {n} 个自最后一层起即不通过：问题在损失函数，或其后对梯度的处理
loss_smoothing | the loss smooths labels by {left:.4g} (right {right:.4g}), by the gradient of the scores | 由得分的梯度可知，损失的标签平滑为 {left:.4g}（右侧 {right:.4g}）
loss_ignores | {left} of {n} rows of scores have no gradient (right {right}): the loss ignores other targets | {n} 行得分中有 {left} 行没有梯度（右侧 {right} 行）：损失忽略的标签不同
loss_targets | {n} of {of} rows of scores are drawn to another target, by their gradient | 由梯度可知，{of} 行得分中有 {n} 行的目标不同
loss_divisor | the gradient of the scores is divided by {left:.6g} (right {right:.6g}): the loss is reduced otherwise | 得分的梯度除以 {left:.6g}（右侧 {right:.6g}）：损失的归约方式不同
# what is left behind by a step
looks_statistics_momentum | running statistics with another momentum | 滑动统计量的动量不同
statistics_momentum | {n} running statistics move {factor:.4g} times as far as the right's: another momentum (0.9 for 0.1 makes 9: frameworks count it from either end) | {n} 个滑动统计量的变化量为右侧的 {factor:.4g} 倍：动量不同（0.9 与 0.1 相差 9 倍：各框架的定义方向不同）
looks_optimizer_differs | an optimizer that is set otherwise | 优化器的设置不同
optimizer_differs | all {of} gradients pass, and {n} weights after the step fail: the optimizer, or what it is set to | 全部 {of} 个梯度通过，而更新后的 {n} 个权重不通过：问题在优化器或其设置
optimizer_found | {what}; so the steps of all {n} weights in {iterations} iterations come out within rounding | {what}；据此，{n} 个权重在 {iterations} 次迭代中的更新均在舍入误差内吻合
weights_all | all {n} weights | 全部 {n} 个权重
weights_some | {n} of {of} weights ({names}) | {of} 个权重中的 {n} 个（{names}）
optimizer_still | {where} stand still: frozen, or not given to the optimizer | {where}未更新：被冻结，或未交给优化器
optimizer_rate | the learning rate of {where} is {left:.6g} times the right's | {where}的学习率为右侧的 {left:.6g} 倍
optimizer_rates | the learning rate by iteration is {left} (right {right}), as shares of the first: another schedule or warmup | 各次迭代的学习率相对首次为 {left}（右侧 {right}）：学习率调度或预热不同
optimizer_decay | the weight decay of {where} is {left:.4g} (right {right:.4g}) | {where}的权重衰减为 {left:.4g}（右侧 {right:.4g}）
optimizer_coupled | weight decay is added to the gradients (Adam), on the right taken off the weights (AdamW) | 权重衰减加在梯度上（Adam），右侧则直接作用于权重（AdamW）
optimizer_coupled_right | weight decay is taken off the weights (AdamW), on the right added to the gradients (Adam) | 权重衰减直接作用于权重（AdamW），右侧则加在梯度上（Adam）
optimizer_decoupled | weight decay is taken off the weights, on the right added to the gradients | 权重衰减直接作用于权重，右侧则加在梯度上
optimizer_decoupled_right | weight decay is added to the gradients, on the right taken off the weights | 权重衰减加在梯度上，右侧则直接作用于权重
optimizer_momentum | the momentum of the optimizer is {left:.4g} (right {right:.4g}) | 优化器的动量为 {left:.4g}（右侧 {right:.4g}）
optimizer_dampening | the dampening of momentum is {left:.4g} (right {right:.4g}) | 动量的阻尼（dampening）为 {left:.4g}（右侧 {right:.4g}）
optimizer_beta | Adam's beta{which} is {left:.4g} (right {right:.4g}) | Adam 的 beta{which} 为 {left:.4g}（右侧 {right:.4g}）
optimizer_epsilon | Adam's epsilon is {left:.3g} (right {right:.3g}) | Adam 的 epsilon 为 {left:.3g}（右侧 {right:.3g}）
optimizer_nesterov | momentum is Nesterov's, on the right plain | 使用 Nesterov 动量，右侧为普通动量
optimizer_nesterov_right | momentum is plain, on the right Nesterov's | 使用普通动量，右侧为 Nesterov 动量
optimizer_inside | Adam's epsilon is inside of the root, on the right outside | Adam 的 epsilon 在根号内，右侧在根号外
optimizer_inside_right | Adam's epsilon is outside of the root, on the right inside | Adam 的 epsilon 在根号外，右侧在根号内
optimizer_uncorrected | Adam's bias correction is missing | 缺少 Adam 的偏差修正
optimizer_uncorrected_right | Adam's bias correction is missing on the right | 右侧缺少 Adam 的偏差修正
optimizer_largest | Adam keeps the largest second moment (amsgrad), on the right it does not | Adam 保留最大的二阶矩（amsgrad），右侧不保留
optimizer_largest_right | Adam keeps the largest second moment on the right (amsgrad), on the left it does not | 右侧的 Adam 保留最大的二阶矩（amsgrad），左侧不保留
optimizer_clip_norm | gradients are clipped to a norm between backward pass and step, on the right they are not | 反向与更新之间按范数裁剪了梯度，右侧没有
optimizer_clip_norm_right | gradients are clipped to a norm between backward pass and step on the right, on the left they are not | 右侧在反向与更新之间按范数裁剪了梯度，左侧没有
optimizer_clip_value | gradients are clipped by value between backward pass and step, on the right they are not | 反向与更新之间按值裁剪了梯度，右侧没有
optimizer_clip_value_right | gradients are clipped by value between backward pass and step on the right, on the left they are not | 右侧在反向与更新之间按值裁剪了梯度，左侧没有
# roles
found_by | {text}; found by {source} | {text}；依据：{source}
by_graph | the run's own graph | 运行自身的计算图
by_right_graph | the right side's graph | 右侧的计算图
by_fusion | the fusion JSON | 融合规则 JSON
by_order | execution order (no graph connects the operators) | 执行顺序（没有计算图说明算子间的连接）
cause_line | cause  {operator} (op {place} of {operators}): {reason} | 起因  {operator}（第 {place} 个算子，共 {operators} 个）：{reason}
more_causes | and {n} more causes; --msdump-show=all lists them | 另有 {n} 个起因；--msdump-show=all 可全部列出
same_in | the same in {n} more: {names} | 另有 {n} 处相同：{names}
inherited_line | {n} inherited: {names} | 被 {n} 个继承：{names}
accumulated_line | accumulated  {operator} (op {place} of {operators}): {reason} | 累积  {operator}（第 {place} 个算子，共 {operators} 个）：{reason}
accumulated_after | {n} accumulated after it: {names} | 其后另有 {n} 个累积：{names}
more_accumulated | and {n} more accumulated; --msdump-show=all lists them | 另有 {n} 个累积；--msdump-show=all 可全部列出
unknown_line | unknown  {names}: {reason} | 来源不明  {names}：{reason}
more_unknown | and {n} more reasons; --msdump-show=all lists them | 另有 {n} 种原因；--msdump-show=all 可全部列出
without_cause | inherited  {names}: their inputs fail, and what made them is unknown (not compared or no graph) | 继承  {names}：其输入未通过，而这些输入的来源未比对，或没有计算图说明来源
amplifying | error amplification (output error / input error): {names} | 误差放大倍数（输出误差 / 输入误差）：{names}
grew_within | grew {step} at {operator}, still within its limit | 误差在 {operator} 处{step}，仍在阈值之内
loose_limits | these limits are loose: the mistake may be far ahead of the first operator that fails | 阈值较宽松，真正出错的算子可能远在最先未通过的算子之前
step_times | × {factor} | 增长 × {factor}
step_from_equal | from 0 | 由 0 增长
largest_growth | the largest growth is {step} at {operator} | 增长最大处为 {operator}：{step}
role_cause | role cause | 角色：起因
role_accumulated | role accumulated | 角色：累积
role_inherited | role inherited | 角色：继承
role_unknown | role unknown | 角色：来源不明
# why it has its role: the English stands in results.json
why_unseen | not all of its inputs were compared: {suspects} | 其输入没有全部比对：{suspects}
why_shared | other failing operators share an input that was not compared: {suspects} | 其他未通过的算子与它共用一个未比对的输入：{suspects}
why_circle | it is in a loop of operators that all fail: {suspects} | 它所在的环中算子均未通过：{suspects}
why_order | no graph connects the operators: it runs after a failing one, but may be wrong by itself | 没有计算图说明算子间的连接；它排在某个未通过的算子之后，也可能自身就有误
why_no_order | no graph connects the operators, and nothing says in which order they ran | 没有计算图说明算子间的连接，执行顺序也未知
why_order_jump | no graph connects the operators; the largest jump before it in execution order is {step} at {at}, still within its limit | 没有计算图说明算子间的连接；此前按执行顺序最大的跳变在 {at} 处（{step}），仍在阈值之内
why_feeds | no graph shows its inputs | 没有计算图说明其输入
why_earlier | its input may come from an earlier part of the run, which fails, too | 其输入可能来自运行中更早的部分，而那部分也未通过
why_ranks | its input comes from other ranks, and some of those fail | 其输入来自其他 rank，其中有未通过的
why_input | its input fails, and the operator that made it was not judged: {suspects} | 其输入未通过，而产生该输入的算子没有判定结论：{suspects}
why_step | through parameters that the iteration before updated: {suspects} | 经由上一次迭代更新的参数：{suspects}
why_before | its input fails; before that: {suspects} | 其输入未通过；在此之前：{suspects}
why_first | the first to fail | 最先未通过
why_passing | all of its inputs that were compared pass | 已比对的输入均通过
why_grew | an input of it, or an operator before it, fails, too | 它的某个输入或排在其前的算子也未通过
why_jump | it is still within its limit, but operators that take its output fail | 它仍在阈值之内，但使用其输出的算子未通过
why_within | the error grew {step} here, still within its limit, and in small steps afterwards | 误差在该处{step}，仍在阈值之内，此后逐步增大
why_accumulated | error grew from {start} to {end} of the limit over {n} operator; the largest step is {step} at {at} | error grew from {start} to {end} of the limit over {n} operators; the largest step is {step} at {at} | 误差经 {n} 个算子由阈值的 {start} 增至 {end}；最大的一步在 {at} 处（{step}）
region_first | the first to fail, and no graph says what feeds it: {text} | 最先未通过，且没有计算图说明其输入来源：{text}
region_operators | {text}; not compared in between: {names} | {text}；其间未比对：{names}
region_lines | {text} ({lines}) | {text}（{lines}）
region_in | in {module}, {text} | 在 {module} 中，{text}
region_after | after {after}, {text} | 位于 {after} 之后，{text}
region_input | before the input of {end} | {end} 的输入之前
region_output | up to the output of {end} | 直到 {end} 的输出
grown | its error grew {step}, from {start} to {end} of its limit | 其误差{step}，由阈值的 {start} 增至 {end}
grown_from_equal | its error is {end} of its limit, and its inputs are equal | 其误差为阈值的 {end}，而其输入相等
left_out | its input on the right has no partner: {names} | 它在右侧的输入没有配对：{names}
or_before | it, or an operator before it that was not compared: {suspects} | 起因是它，或在它之前未比对的算子：{suspects}
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
role_because | {role}: {reason} | {role}；{reason}
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

# Diagnoses of all failures together: what the one cause is.
TOGETHER = (
    *("loss_scaled", "gradients_clipped", "gradients_kept", "passes_differ", "loss_differs"),
    *("statistics_momentum", "optimizer_differs", "quantised"),
)
