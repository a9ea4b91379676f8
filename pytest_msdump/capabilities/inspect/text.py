"""Sentences on one dump or file, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# a dump
holds_in_files | {tensors:n_tensors} of {operators:n_operators}; {size} in {files:n_files} | {operators:n_operators}的 {tensors:n_tensors}；{files:n_files}共 {size}
odd_title | what is odd | 异常之处
odd_unreadable | {name} cannot be read | {name} 无法读取
more_unreadable | and {n} more that cannot be read; --all lists them all | 另有 {n} 个无法读取；--all 可全部列出
more_listed | and {n} more; --all lists them all | 另有 {n} 项；--all 可全部列出
odd_unexplained | {n:n_files} that no reader knows: {names} | 没有读取器能识别的文件有 {n} 个：{names}
odd_empty | {n:n_tensors} without elements: {names} | {n:n_tensors}没有元素：{names}
odd_types | {n:n_tensors} of another type than in the graph: {names} | {n:n_tensors}的数据类型与计算图不同：{names}
odd_type | {name} is {left}, {right} in {file} | {name} 为 {left}，{file} 中为 {right}
odd_iterations | {n:n_operators} in some iterations only: {names} | {n:n_operators}仅见于部分迭代：{names}
asked_for | asked for | 配置要求
asked_for_is | {io} of {kernels}, {times} ({source}) | {kernels}的{io}，{times}（{source}）
io_all | inputs and outputs | 输入和输出
io_input | inputs | 输入
io_output | outputs | 输出
iterations_are | iterations {iterations} | 迭代 {iterations}
every_operator | every operator | 所有算子
script_operators | the operators that the script names | 脚本指定的算子
types | types | 数据类型
formats | formats | 内存格式
graph_file | graph file | 计算图文件
graph_file_is | {source}{where}: {n:n_operators}{final} | {source}{where}：{n:n_operators}{final}
of_where |  of {where} | ，位于 {where}
not_final | ; not the one that ran | ；不是实际运行的计算图
column_in | in | 输入
column_out | out | 输出
column_size | size | 大小
column_type | type | 类型
column_first | first output | 首个输出
column_operator | operator | 算子
operator_below | operator below | 算子名见下一行
varies | varies, or cannot be read | 不一，或无法读取
# an operator
line_made | {line} made {n:n_operators} | {line} 产生 {n:n_operators}
place_in_graph | op {place} of {operators} in {graph} | {graph} 中第 {place} 个算子（共 {operators} 个）
attributes | attributes | 属性
slot_from | from {name} | 来自 {name}
slot_to | to   {name} input {slot} | 送往 {name} 输入 {slot}
slot_to_none | to   no operator in this graph | 此计算图中没有算子使用它
kernel_arguments_title | kernel arguments | 内核参数
on_host | host {spec} | host 侧 {spec}
on_device | device {spec} | device 侧 {spec}
on_host_and_device | host and device {spec} | host 侧与 device 侧均为 {spec}
no_tensor | no tensor, or its shape is unknown | 没有张量，或形状未知
from_constant | the constant {text} | 常量 {text}
from_nothing | a constant, or nothing | 常量，或没有输入
from_parameter | {name} (a weight or an input of the network) | {name}（网络的权重或输入）
from_output | {name} output {slot} | {name} 输出 {slot}
not_dumped | not dumped | 未落盘
calls_title | calls, outermost first | 调用栈（最外层在前）
# a file
is_graph | a graph | 计算图
is_statistics | a table of statistics | 统计量表
is_overflow | an overflow file of the device | 设备侧的溢出文件
is_tensors | {kind}{n:n_tensors} (reader {reader}) | {kind}{n:n_tensors}（读取器 {reader}）
graph_final | the graph that ran: {n:n_operators}, {k:n_parameters} | 实际运行的计算图：{n:n_operators}，{k:n_parameters}
graph_earlier | an earlier graph, not the one that ran: {n:n_operators}, {k:n_parameters} | 较早的计算图，不是实际运行的：{n:n_operators}，{k:n_parameters}
n_parameters | {n} parameter | {n} parameters | {n} 个参数
n_weights | {n} weight | {n} weights | {n} 个权重
n_rows | {n} row | {n} rows | {n} 行
cannot_be_read | cannot be read | 无法读取
overflow_unit | {unit}: task {task}, stream {stream}: {words} | {unit}：任务 {task}，流 {stream}：{words}
no_unit | no unit is in it | 其中没有任何计算单元的记录
header_is | header: {text} | 文件头：{text}
of_earlier_run | of an earlier run into the same directory | 属于同一目录中较早的一次运行
in_file_names | in file names: {name} | 文件名中写作：{name}
stored_as | stored as {spec} | 存储为 {spec}
joined_from | joined from {n} slices, each in a file of its own | 由 {n} 个切片拼成，各在一个文件中
first_odd_element | first NaN, Inf or saturated element at {place} | 首个 NaN、Inf 或饱和元素位于 {place}
header_original | original shape {shape} | 原始形状 {shape}
header_groups | {n} groups | {n} 组
header_bytes | {n} bytes from byte {start} | 自第 {start} 字节起 {n} 字节
header_address | address {address} | 地址 {address}
count_zero | {n} zero | {n} 个为零
count_negative | {n} below 0 | {n} 个小于 0
count_positive | {n} above 0 | {n} 个大于 0
saturated | {n} at the type's maximum | {n} 个为该类型的最大值
range_is | range {low} to {high} | 范围 {low} 至 {high}
mean_is | mean {value} | 均值 {value}
norm_is | L2 norm {value} | L2 范数 {value}
modulus_is | modulus {low} to {high}, its mean {mean} | 模 {low} 至 {high}，均值 {mean}
bin_to | {low} to {high} | {low} 至 {high}
# checks
checked | {n:n_tensors} of {operators:n_operators} looked at, {weights:n_weights} among them{compared} | 已检查 {operators:n_operators}的 {n:n_tensors}，其中 {weights:n_weights}{compared}
checked_steps | ; {n:n_weights} held against an iteration before | ；{n:n_weights}已与上一次迭代比较
reported | REPORTED | 设备报告
hit | HIT | 命中
nothing_checked | there is no tensor in this dump, so nothing was checked | 此 dump 中没有张量，未作任何检查
no_hit | no check hit | 没有检查项命中
no_hit_unreadable | no check hit, but not every tensor could be read | 没有检查项命中，但有张量无法读取
hits | {n} hit: {by_check} | {n} hits: {by_check} | 命中 {n} 次：{by_check}
hit_in | {text}; in {first} | {text}；见 {first}
hit_again | {text}; in {first}, again in {names} | {text}；见 {first}，又见 {names}
check_operator_overflow | the device's own check reports an overflow | 设备侧溢出检测报告了溢出
check_weight_overflow | the weight holds NaN or Inf | 权重含 NaN 或 Inf
check_gradient_exploding | the gradient holds NaN or Inf | 梯度含 NaN 或 Inf
check_tensor_overflow | the tensor holds NaN or Inf | 张量含 NaN 或 Inf
check_weight_initialization | the weight begins with values that it does not learn from | 权重的初始值使其无法学习
check_tensor_all_zero | the tensor is zero all over | 张量全为零
check_weight_too_large | the weight is large | 权重过大
check_weight_too_small | the weight is small | 权重过小
check_gradient_too_large | the gradient is large | 梯度过大
check_gradient_vanishing | the gradient is too small to learn from | 梯度消失：小到无法学习
check_tensor_too_large | the tensor is large | 张量过大
check_tensor_too_small | the tensor is small | 张量过小
check_weight_not_changed | the weight is as it was an iteration before | 权重与上一次迭代相同
check_weight_change_too_large | the weight changes by much | 权重变化过大
check_weight_change_too_small | the weight hardly changes | 权重几乎不变
check_activation_range | the activation works outside of its useful range | 激活函数工作在有效范围之外
check_tensor_range | the tensor's values are spread as they should not be | 张量的值分布异常
quantity_abs_mean | mean magnitude | 绝对值的均值
quantity_max | maximum | 最大值
quantity_min | minimum | 最小值
quantity_mean | mean | 均值
quantity_zero_percentage | zeros | 零的占比
quantity_range_percentage | elements within the range | 范围内元素的占比
quantity_max_min | maximum less minimum | 最大值与最小值之差
quantity_abs_mean_update_ratio | mean change / mean magnitude | 平均变化 / 绝对值的均值
crossed | {quantity}: {value} ({name}={limit}) | {quantity}：{value}（{name}={limit}）
crossed_range | {why}; the range is {low} to {high} | {why}；范围为 {low} 至 {high}
crossed_since | {why}, since iteration {iteration} | {why}，自迭代 {iteration} 起
unchanged | nothing of it changed since iteration {iteration} ({n:elements}; {tolerance}) | 自迭代 {iteration} 起毫无变化（{n:elements}；{tolerance}）
hardly_changed | no element changed by more than {largest:.3g} since iteration {iteration} ({n:elements}; {tolerance}) | 自迭代 {iteration} 起没有元素的变化超过 {largest:.3g}（{n:elements}；{tolerance}）
nonfinite_of | {counts:and} of {n:elements}{where} | {n:elements}中 {counts:and}{where}
then_first | ; first at {place} | ；首个位于 {place}
only_statistics | {n:n_tensors} of these were saved as statistics only: checked as far as these allow | 其中 {n:n_tensors}只保存了统计量：仅作其所能支持的检查
blind_statistics | {n} of them without counts of NaN and Inf, or a norm: overflow was not checked there | 其中 {n} 个既无 NaN 和 Inf 的个数，也无范数：未检查溢出
nothing_dumped_of_it | {why}; nothing was dumped of it | {why}；没有落盘它的任何数据
no_weight | no tensor of a weight is in this dump: changes of weights were not checked | 此 dump 中没有权重：未检查权重的变化
one_iteration | every weight is here in one iteration only: changes of weights were not checked | 每个权重只有一次迭代：未检查权重的变化
no_training | no operator of this run computes gradients, so its weights are not expected to change: not checked; --check-set weight_not_changed=on checks it | 这次运行没有计算梯度的算子，权重本不应变化，故未检查；--check-set weight_not_changed=on 可检查
# tensors and the statistics that their run saved
verified | {n} of {total:n_tensors} held against statistics of the run | {total:n_tensors}中有 {n} 个已与运行保存的统计量核对
nothing_verified | no tensor of this dump has a row in a table of statistics, so nothing was verified | 此 dump 中没有张量在统计量表中有对应的行，未作任何核对
all_agree | all of them agree | 全部一致
n_differ | {n} tensor differs | {n} tensors differ | {n} 个张量不一致
DIFFERS | DIFFERS | 不一致
saved_computed | {what}: {saved} in the table, {computed} in the tensor | {what}：表中为 {saved}，张量中为 {computed}
no_number | nothing | 无
table_line | {file}, line {line} | {file}，第 {line} 行
"""
)
