"""Sentences on overflow, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# overflow
overflow_origin | ORIGIN | 溢出起点
overflow_propagated | PROPAGATED | 传播而来
overflow_unknown | OVERFLOW | 溢出
overflow_not_dumped | NOT DUMPED | 未落盘
unreadable | UNREADABLE | 无法读取
is_overflow_origin | its dumped inputs are finite | 已落盘的输入均为有限值
is_overflow_propagated | one of its inputs overflows already | 其输入中已有溢出
is_overflow_unknown | its inputs were not dumped, so the overflow may begin here or before | 其输入未落盘，溢出可能始于此处或更早
overflow_none | no operator overflows | 没有算子溢出
overflow_count | {n} of {operators} operators overflow; {origins} of them with finite inputs | {operators} 个算子中有 {n} 个溢出，其中 {origins} 个的输入为有限值
overflow_device | the device's own check reports {n} overflow, in {files:n_files} | the device's own check reports {n} overflows, in {files:n_files} | 设备侧溢出检测报告了 {n} 处溢出，见 {files:n_files}
overflow_task | task {task}, stream {stream}: {unit} {words} | 任务 {task}，流 {stream}：{unit} {words}
overflow_alone | {file}: no dump file of that task and stream beside it | {file}：旁边没有该任务和流的 dump 文件
overflow_of | {counts} of {n:elements}; {place} | {n:elements}中 {counts}；{place}
at_maximum | {n} at the dtype's maximum | {n} 个为该数据类型的最大值
of_kind | {n} {kind} | {n} 个 {kind}
tensor_not_saved | the tensor itself was not saved | 张量本身未保存
first_place | first at {place:index} | 首个位于 {place:index}
device_reports | {unit} reports task {task}, stream {stream}: {words} | {unit} 报告任务 {task}、流 {stream}：{words}
device_status | status {numbers} | 状态码 {numbers}
device_bits | unknown bits {bits} | 含义未知的位 {bits}
# overflow: what a status of the device means
core_negation | negating the smallest signed integer | 对最小的有符号整数取负
core_integer | integer addition, subtraction or multiplication overflows | 整数加、减或乘溢出
core_floating | floating-point operation overflows | 浮点运算溢出
core_unsigned | negative float converted to an unsigned integer | 负浮点数转换为无符号整数
core_float16 | conversion to float16 overflows | 转换为 float16 时溢出
core_cube | CUBE accumulation overflows | CUBE 累加溢出
atomic_overflow | overflow | 上溢
atomic_underflow | underflow | 下溢
atomic_source | the source operand is NaN | 源操作数为 NaN
atomic_destination | the destination operand is NaN | 目的操作数为 NaN
atomic_both | both operands are NaN | 两个操作数均为 NaN
wrote_files | wrote {n:n_files} to {place} | 已将 {n:n_files}写入 {place}
"""
)
