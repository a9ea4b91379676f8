"""Sentences on replays, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

REPLAY = read_rows(
    """
# what a replay says of a tensor: findings and the line of a failure
local_wrong_score | wrong by itself: for the left's own inputs its error is {score} times the reference's own, limit {bound} | 自身有误：以左侧自己的输入，其误差为参考模型自身误差的 {score} 倍，阈值 {bound}
local_wrong_flips | wrong by itself: for the left's own inputs {score} of its elements are not correctly rounded, limit {bound} | 自身有误：以左侧自己的输入，{score} 的元素未正确舍入，阈值 {bound}
local_wrong_differing | wrong by itself: for the left's own inputs {score} of its elements are others | 自身有误：以左侧自己的输入，有 {score} 个元素不同
local_wrong_element | wrong by itself: for the left's own inputs an element is {score} rounding units off, limit {bound} | 自身有误：以左侧自己的输入，有元素偏离 {score} 个舍入单位，阈值 {bound}
local_wrong_nonfinite | wrong by itself: for the left's own inputs {score} elements are NaN or infinite on one side alone | 自身有误：以左侧自己的输入，有 {score} 个元素仅在一侧为 NaN 或无穷
local_right_score | right by itself: for the left's own inputs its error is {score} times the reference's own, limit {bound} | 自身正确：以左侧自己的输入，其误差为参考模型自身误差的 {score} 倍，阈值 {bound}
local_right_flips | right by itself: {score} of the elements are not correctly rounded, limit {bound} | 自身正确：{score} 的元素未正确舍入，阈值 {bound}
local_right_differing | right by itself: no element differs | 自身正确：没有元素不同
local_error | damaged: {reason} | 已损坏：{reason}
local_not_replayable | not replayable, because {reason} | 无法重放：{reason}
local_segment | judged together with {names} | 与 {names} 一并判定
# why there is no judgement
local_random | {operation} draws random numbers | {operation} 使用随机数
local_single | {operation} has no kernel for float64 | {operation} 没有 float64 内核
local_unsteady | the reference gives another shape each time that it runs | 参考模型每次运行给出的形状不同
local_elsewhere | it is of another iteration or rank than the one that was replayed | 它属于另一次迭代或另一个 rank，未重放
local_not_called | the reference has no call {call} of a module {module}, counted from 0 | 参考模型没有模块 {module} 的第 {call} 次调用（从 0 计）
local_inside | it runs inside of {module}, which is no functional model and is judged as a whole | 它在 {module} 内部运行；后者不是函数式模型，作为整体判定
local_forward_only | gradients of Keras models are not replayed | 不重放 Keras 模型的梯度
local_no_gradient | no such gradient came: give a function that runs the model with its loss and backward pass | 没有得到该梯度；请给出执行模型、损失及反向传播的函数
local_input | it is an input, and what made it is judged | 它是输入，判定的是产生它的算子
local_weight | it is a weight, which nothing computes; its comparison judges it | 它是权重，并非计算所得；由其比对结果判定
local_optimizer | the reference does not take step {step} of its optimizer, counted from 0: give a function that does | 参考模型没有执行优化器的第 {step} 步（从 0 计）；请给出执行该步的函数
local_before_step | of what went into this step of the optimizer, {name} was not recorded | 优化器该步的输入中，{name} 未记录
local_no_state | the reference's optimizer keeps no {name} | 参考模型的优化器不保存 {name}
local_unseen | the left has only statistics of it | 左侧只有其统计量
local_sample | a part of a tensor cannot stand for it | 张量的一部分不能代替它
local_shape | {reason} | {reason}
local_unreadable | {reason} | {reason}
local_kind | the left stores {dtype}, and the reference gives {other} | 左侧以 {dtype} 存储，而参考模型给出 {other}
local_raised | the reference raised in float64: {reason} | 参考模型在 float64 下抛出异常：{reason}
local_dtype | the left stores {dtype}, and the reference has no finer type to judge it by | 左侧以 {dtype} 存储，没有更精细的类型可作判定
local_behind | something went into it that was wrong at {module} already, and no tensor of the left stands between | 进入它的某个值在 {module} 处已判定有误，其间没有左侧的张量
local_empty | it has no elements | 它没有元素
local_nonfinite | no element is finite on both sides | 没有两侧均为有限值的元素
# why a kernel's call is not replayed
replay_no_definition | no definition of {name} | 没有 {name} 的定义
replay_no_graph | no graph of the run has it, so its attributes are not known | 运行的计算图中没有此算子，其属性未知
replay_no_input | what its input {slot} was is not known | 其输入 {slot} 的值未知
replay_original | it is fused, and no graph has its original {name}; name one from before the fusion with --graph FILE | 这是融合算子，没有计算图含其原算子 {name}；用 --graph FILE 指定融合前的图
replay_original_input | it is fused, and {name}, which goes into its originals, does not go into it | 这是融合算子，其原算子的输入 {name} 不是它的输入
replay_no_attribute | its attribute {name} is not known | 其属性 {name} 未知
replay_no_shape | the shape of its output {slot} is not known | 其输出 {slot} 的形状未知
replay_no_output | of its outputs none is judged that was dumped | 已 dump 的输出都不在判定之列
replay_not_dumped | {name} was not dumped | {name} 未 dump
replay_before | {name} was not dumped as it was before this step | {name} 在此步之前的值未 dump
replay_not_whole | of {name} only a part or statistics were saved | {name} 只保存了一部分或统计量
replay_unreadable | {name} cannot be read: {why} | 无法读取 {name}：{why}
replay_shapes | {name} does not have the shape that it has in the graph | {name} 的形状与计算图中的不符
replay_other_shape | {name} has {n} elements, and its operator makes {shape} | {name} 有 {n} 个元素，而其算子产生 {shape}
replay_other_type | {name} is stored in {dtype}, and its operator makes {other} | {name} 以 {dtype} 存储，而其算子产生 {other}
replay_constant | the constant {text} cannot be read | 无法读取常量 {text}
replay_constant_digits | its constant {text} has no more digits in the graph, and was not dumped | 常量 {text} 在计算图中位数不足，且未 dump
replay_variant | the definition does not cover {name} | 定义不支持 {name}
replay_random | it draws random numbers | 该算子产生随机数
replay_failed | its attributes do not fit its inputs: {why} | 属性与输入不符：{why}
# roles, suggestions and the summary
fits_by_replay | the reference makes it of the left's own values, {shape}; values differ by {apart} of their norm | 参考模型由左侧自己的值得出，{shape}；相对欧氏距离 {apart}
why_local | wrong by itself, as a replay shows | 重放表明其自身有误
why_local_inherited | right by itself: of the left's own inputs the reference makes the same | 自身正确：以左侧自己的输入，参考模型得到相同结果
why_local_accumulated | right by itself, and so is all that was replayed before it: what rounding leaves has grown to this | 自身正确，此前重放的算子也均正确：由舍入误差逐步增大而来
replayed | replay: {wrong} wrong by themselves, {right} right, {rest} not replayable | 重放：{wrong} 个自身有误，{right} 个自身正确，{rest} 个无法重放
replay_wrong | wrong by themselves: {names} | 自身有误：{names}
replay_rest | {n} tensor not replayable, because {reason}: {names} | {n} tensors not replayable, because {reason}: {names} | {n} 个张量无法重放：{reason}：{names}
replay_damaged | {n} tensor damaged: {names}: {reason} | {n} tensors damaged: {names}: {reason} | {n} 个张量已损坏：{names}：{reason}
replay_not_judged | {n} operator of the reference not judged: {names} | {n} operators of the reference not judged: {names} | 参考模型有 {n} 个算子未判定：{names}
replayed_below | the replay judged {k} of {total} operators that it can, below the {wanted} asked for (min_replayed) | 重放只判定了 {total} 个可重放算子中的 {k} 个，低于要求的 {wanted}（min_replayed）
"""
)
