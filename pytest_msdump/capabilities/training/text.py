"""Sentences on mistakes in training, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# one mistake behind all failing gradients
looks_loss_scaled | a loss that is scaled | 损失被缩放
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
optimizer_rate_at | the steps of all {n} weights are {left:.6g} times the right's in iteration {iteration}, and the same before: another schedule or warmup of the learning rate | 全部 {n} 个权重在第 {iteration} 次迭代的更新均为右侧的 {left:.6g} 倍，此前一致：学习率调度或预热不同
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
optimizer_given | all gradients pass, and {n} of {of} averages that the optimizer begins with are {factor:.6g} times the right's: gradients are clipped or divided otherwise before the step (clipped before a loss scale is taken off?), or the first beta differs | 全部梯度通过，而优化器首步的 {of} 个动量中有 {n} 个为右侧的 {factor:.6g} 倍：更新前梯度的裁剪或缩放不同（是否在除去 loss scale 之前裁剪？），或第一个 beta 不同
optimizer_early | Adam's epsilon is added before bias correction (MindSpore, TensorFlow), on the right behind it (PyTorch) | Adam 的 epsilon 在偏差修正之前相加（MindSpore、TensorFlow），右侧在其后（PyTorch）
optimizer_early_right | Adam's epsilon is added behind bias correction (PyTorch), on the right before it (MindSpore, TensorFlow) | Adam 的 epsilon 在偏差修正之后相加（PyTorch），右侧在其前（MindSpore、TensorFlow）
optimizer_uncorrected | Adam's bias correction is missing | 缺少 Adam 的偏差修正
optimizer_uncorrected_right | Adam's bias correction is missing on the right | 右侧缺少 Adam 的偏差修正
optimizer_largest | Adam keeps the largest second moment (amsgrad), on the right it does not | Adam 保留最大的二阶矩（amsgrad），右侧不保留
optimizer_largest_right | Adam keeps the largest second moment on the right (amsgrad), on the left it does not | 右侧的 Adam 保留最大的二阶矩（amsgrad），左侧不保留
optimizer_clip_norm | gradients are clipped to a norm between backward pass and step, on the right they are not | 反向与更新之间按范数裁剪了梯度，右侧没有
optimizer_clip_norm_right | gradients are clipped to a norm between backward pass and step on the right, on the left they are not | 右侧在反向与更新之间按范数裁剪了梯度，左侧没有
optimizer_clip_value | gradients are clipped by value between backward pass and step, on the right they are not | 反向与更新之间按值裁剪了梯度，右侧没有
optimizer_clip_value_right | gradients are clipped by value between backward pass and step on the right, on the left they are not | 右侧在反向与更新之间按值裁剪了梯度，左侧没有
"""
)
