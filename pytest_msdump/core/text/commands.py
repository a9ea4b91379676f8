"""Sentences of single commands, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

COMMANDS = read_rows(
    """
# counts within sentences
n_tensors | {n} tensor | {n} tensors | {n} 个张量
n_operators | {n} operator | {n} operators | {n} 个算子
n_files | {n} file | {n} files | {n} 个文件
n_pairs | {n} pair | {n} pairs | {n} 对
n_runs | {n} run | {n} runs | {n} 次运行
n_calls | {n} operator call | {n} operator calls | {n} 次算子调用
n_outputs | {n} output | {n} outputs | {n} 个输出
# words of several commands
about_dump | {command}: {directory} (reader {reader}) | {command}: {directory}（读取器 {reader}）
next_command | next: | 下一步：
and_more_operators | and {n} more operators | 另有 {n} 个算子
nth_operator | op {place} of {operators} | 第 {place} 个算子（共 {operators} 个）
note | note: {text} | 说明：{text}
# match
op | op | 序号
# init, and match --suggest
init_reached_all | {share} of the right tensors have a partner, and less will fail (min_coverage) | 右侧张量已配对 {share}，低于此值将不通过（min_coverage）
init_reached_less | {share} of the right tensors have a partner, and less than {wanted} will fail (min_coverage) | 右侧张量已配对 {share}，低于 {wanted} 将不通过（min_coverage）
init_reached_lost | {share} of the right tensors have a partner, and it fails until the model's own outputs are compared: {names} | 右侧张量已配对 {share}；在比对模型自身的输出之前不会通过：{names}
init_reached_kept | {share} of the right tensors have a partner, and min_coverage stays {kept} | 右侧张量已配对 {share}，min_coverage 保持 {kept}
n_entries | {n} entry | {n} entries | {n} 个条目
n_right | {n} right tensor | {n} right tensors | 右侧 {n} 个张量
# calibrate
kind_forward_small | forward small | 前向小张量
kind_forward_large | forward large | 前向大张量
kind_gradient_small | gradient small | 小梯度
kind_gradient_large | gradient large | 大梯度
limits | limits | 阈值
unstable | {n} unstable: integers that a perturbed or control run flips | {n} 个不稳定：扰动运行或对照运行使其翻转的整数
chaotic | {n} chaotic: judged by the profile, since rounding alone changes them by any amount | {n} 个混沌：仅舍入即可使其任意变化，故按阈值方案判定
# accept
accepted | accepted until {date} in {file}: | 已接受至 {date}，写入 {file}：
# replay
score_sum | off by {value:number} rounding units of its terms; limit {limit:limit} | 偏离其各项之和的 {value:number} 个舍入单位；阈值 {limit:limit}
score_approximation | off by {value:number} rounding units of its size; limit {limit:limit} | 偏离其大小的 {value:number} 个舍入单位；阈值 {limit:limit}
not_replayable | {name}: not replayable: {why} | {name}：无法重放：{why}
# files that are written: convert, sketch, rename, prototxt, report, details
converted | converted {n} of {total:n_files}: {written:n_files} in {place} | 已转换 {total:n_files}中的 {n} 个：{place} 中有 {written:n_files}
sketched | {n:n_tensors} in {place}, {size} MB | {place} 中有 {n:n_tensors}，{size} MB
renamed | {n:n_files} renamed; to take it back: {line} | 已重命名 {n:n_files}；如需撤销：{line}
no_browser | no browser was found to open it; open {file} | 没有找到可用的浏览器；请自行打开 {file}
details_of | details of {name}: {file} | {name} 的逐元素明细：{file}
more_without_details | {n} more failing tensors have no details; --detail N for the first N | 另有 {n} 个未通过的张量没有逐元素明细；--detail N 可写出前 N 个
details_of_run | details of {n} failing tensor: {folder} | details of {n} failing tensors: {folder} | {n} 个未通过张量的逐元素明细：{folder}
details_for_no_more | none for {n} more | 另有 {n} 个没有
details_left_out | left out, since {n} failing tensor of this run has its already; --msdump-detail={more} for more | left out, since {n} failing tensors of this run have theirs already; --msdump-detail={more} for more | 已略去，因为本次运行已有 {n} 个未通过的张量写出了明细；--msdump-detail={more} 可写出更多
no_details | no details: {why} | 没有逐元素明细：{why}
# repeat
repeat_alone_left | not in run {run} | 不在第 {run} 次运行中
repeat_alone_right | in run {run}, not in run 1 | 在第 {run} 次运行中，不在第 1 次中
repeat_lead_first | first: {text} | 最先：{text}
repeat_lead_further | also: {text} | 其他：{text}
repeat_lead_apart | apart: {text} | 另列：{text}
repeat_passing | all of its inputs that were compared are equal | 其已比对的输入均相同
repeat_first | the first to differ in execution order; nothing shows what feeds it | 按执行顺序最先不同；无法得知其输入来自何处
# names
did_you_mean | did you mean '{name}'? | 是否想写 '{name}'？
known_are | known: {names} | 可用：{names}
every_iteration | every iteration | 每次迭代
"""
)


# Sentences on replays, in English and in Chinese beside each other.

REPLAY = read_rows(
    """
# what a replay says of a tensor: findings and the line of a failure
local_wrong_score | wrong by itself: for the left's own inputs its error is {score} times the reference's own, limit {bound} | 自身有误：以左侧自己的输入，其误差为参考模型自身误差的 {score} 倍，阈值 {bound}
local_wrong_flips | wrong by itself: for the left's own inputs {score} of its elements are not correctly rounded, limit {bound} | 自身有误：以左侧自己的输入，{score} 的元素未正确舍入，阈值 {bound}
local_wrong_differing | wrong by itself: for the left's own inputs {score} of its elements are others | 自身有误：以左侧自己的输入，有 {score} 个元素不同
local_wrong_element | wrong by itself: for the left's own inputs an element is {score} rounding units off, limit {bound} | 自身有误：以左侧自己的输入，有元素偏离 {score} 个舍入单位，阈值 {bound}
local_wrong_nonfinite | wrong by itself: for the left's own inputs {score} elements are NaN or infinite on one side alone | 自身有误：以左侧自己的输入，有 {score} 个元素仅在一侧为 NaN 或无穷
local_wrong_before | wrong before the input of {name}: of the left's own tensors above it the reference makes something else | 在 {name} 的输入之前有误：以左侧自己在其上方的张量，参考模型得到不同结果
local_right_score | right by itself: for the left's own inputs its error is {score} times the reference's own, limit {bound} | 自身正确：以左侧自己的输入，其误差为参考模型自身误差的 {score} 倍，阈值 {bound}
local_right_flips | right by itself: {score} of the elements are not correctly rounded, limit {bound} | 自身正确：{score} 的元素未正确舍入，阈值 {bound}
local_right_differing | right by itself: no element differs | 自身正确：没有元素不同
local_error | damaged: {reason} | 已损坏：{reason}
local_not_replayable | not replayable, because {reason} | 无法重放：{reason}
local_segment | judged together with {names} | 与 {names} 一并判定
local_after | from {names} on | 自 {names} 起
# why there is no judgement
local_random | {operation} draws random numbers | {operation} 使用随机数
local_single | {operation} has no kernel for float64 | {operation} 没有 float64 内核
local_unsteady | the reference gives another shape each time that it runs | 参考模型每次运行给出的形状不同
local_elsewhere | it is of another iteration or rank than the one that was replayed | 它属于另一次迭代或另一个 rank，未重放
local_inside | it runs inside of {module}, which is no functional model and is judged as a whole | 它在 {module} 内部运行；后者不是函数式模型，作为整体判定
local_forward_only | gradients of Keras models are not replayed | 不重放 Keras 模型的梯度
local_no_gradient | no such gradient came: give a function that runs the model with its loss and backward pass | 没有得到该梯度；请给出执行模型、损失及反向传播的函数
local_input | it is an input, and what made it is judged | 它是输入，判定的是产生它的算子
local_weight | it is a weight, which nothing computes; its comparison judges it | 它是权重，并非计算所得；由其比对结果判定
local_optimizer | the reference does not take step {step} of its optimizer, counted from 0: give a function that does | 参考模型没有执行优化器的第 {step} 步（从 0 计）；请给出执行该步的函数
local_before_step | of what went into this step of the optimizer, {name} was not recorded | 优化器该步的输入中，{name} 未记录
local_no_state | the reference's optimizer keeps no {name} | 参考模型的优化器不保存 {name}
local_unseen | the left has only statistics of it | 左侧只有其统计量
local_shape | {reason} | {reason}
local_unreadable | {reason} | {reason}
local_kind | the left stores {dtype}, and the reference gives {other} | 左侧以 {dtype} 存储，而参考模型给出 {other}
local_raised | the reference raised in float64: {reason} | 参考模型在 float64 下抛出异常：{reason}
local_dtype | the left stores {dtype}, and the reference has no finer type to judge it by | 左侧以 {dtype} 存储，没有更精细的类型可作判定
local_behind | something went into it that was wrong at {module} already, and no tensor of the left stands between | 进入它的某个值在 {module} 处已判定有误，其间没有左侧的张量
local_empty | it has no elements | 它没有元素
local_nonfinite | no element is finite on both sides | 没有两侧均为有限值的元素
# why a kernel's call is not replayed
replay_no_input | what its input {slot} was is not known | 其输入 {slot} 的值未知
replay_no_attribute | its attribute {name} is not known | 其属性 {name} 未知
replay_no_shape | the shape of its output {slot} is not known | 其输出 {slot} 的形状未知
replay_constant | the constant {text} cannot be read | 无法读取常量 {text}
replay_constant_digits | its constant {text} has no more digits in the graph, and was not dumped | 常量 {text} 在计算图中位数不足，且未 dump
# roles, suggestions and the summary
fits_by_replay | the reference makes it of the left's own values, {shape}; values differ by {apart} of their norm | 参考模型由左侧自己的值得出，{shape}；相对欧氏距离 {apart}
replayed | replay: {wrong} wrong by themselves, {right} right, {rest} not replayable | 重放：{wrong} 个自身有误，{right} 个自身正确，{rest} 个无法重放
replay_explained | {n} more differ by quantisation, or by a cause before them: {names} | 另有 {n} 个存在差异，源于量化或其之前的原因：{names}
replay_wrong | wrong by themselves: {names} | 自身有误：{names}
replay_rest | {n} tensor not replayable, because {reason}: {names} | {n} tensors not replayable, because {reason}: {names} | {n} 个张量无法重放：{reason}：{names}
replay_damaged | {n} tensor damaged: {names}: {reason} | {n} tensors damaged: {names}: {reason} | {n} 个张量已损坏：{names}：{reason}
replay_not_judged | {n} operator of the reference not judged: {names} | {n} operators of the reference not judged: {names} | 参考模型有 {n} 个算子未判定：{names}
replayed_below | the replay judged {k} of {total} operators that it can, below the {wanted} that min_replayed demands | 重放只判定了 {total} 个可重放算子中的 {k} 个，低于 min_replayed 要求的 {wanted}
"""
)
