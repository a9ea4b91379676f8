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
"""
)

# Diagnoses of all failures together: what the one cause is.
TOGETHER = ("loss_scaled", "gradients_clipped", "quantised")
