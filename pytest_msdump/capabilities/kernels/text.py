"""Sentences of kernels that are computed again, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
ACCUSED | ACCUSED | 有误
DAMAGED | DAMAGED | 已损坏
more_accused | and {n} more accused output; --all lists them | and {n} more accused outputs; --all lists them | 另有 {n} 个有误的输出；--all 可全部列出
op_at | op {n} | 第 {n} 个算子
output_slot | output {n} | 输出 {n}
replay_worst | worst at {place}: stored {stored}, from its inputs {expected} | 最差处 {place}：落盘值 {stored}，由其输入算得 {expected}
score_exact | {n:elements} of {elements} differ; they have to be equal | {elements} 个元素中有 {n} 个不同；本应相等
score_flips | {share} % of {n:elements} are not rounded correctly; limit 0.1 % | {n:elements}中有 {share} % 未正确舍入；阈值 0.1 %
calls_not_replayed | not replayed: {n} call | not replayed: {n} calls | 未重放：{n} 次调用
likewise | likewise {names} | 同样：{names}
replayed_calls | replayed {n} of {total:n_calls}, {outputs:n_outputs}{undumped} | 已重放 {total:n_calls}中的 {n} 次，共 {outputs:n_outputs}{undumped}
replay_undumped | ; {n:n_operators} of the graphs without a dumped output | ；计算图中有 {n:n_operators}没有落盘的输出
replay_nothing | {text}: NOTHING WAS JUDGED{why} | {text}：没有判定任何算子{why}
replay_without_graph | ; the dump has no graph of its run: name a saved .ir with --graph FILE | ；该 dump 没有其运行的计算图：请用 --graph FILE 指定保存的 .ir
replay_accused | {text}; {n:n_operators} accused{damaged} | {text}；{n:n_operators}有误{damaged}
replay_none_accused | {text}; no operator accused{damaged} | {text}；没有算子有误{damaged}
and_damaged | , {n:n_tensors} damaged | ，{n:n_tensors}已损坏
replay_no_definition | no definition of {name} | 没有 {name} 的定义
replay_no_graph | no graph of the run has it, so its attributes are not known | 运行的计算图中没有此算子，其属性未知
replay_original | it is fused, and no graph has its original {name}; name one from before the fusion with --graph FILE | 这是融合算子，没有计算图含其原算子 {name}；用 --graph FILE 指定融合前的图
replay_original_input | it is fused, and {name}, which goes into its originals, does not go into it | 这是融合算子，其原算子的输入 {name} 不是它的输入
replay_no_output | of its outputs none is judged that was dumped | 已 dump 的输出都不在判定之列
replay_not_dumped | {name} was not dumped | {name} 未 dump
replay_before | {name} was not dumped as it was before this step | {name} 在此步之前的值未 dump
replay_not_whole | of {name} only a part or statistics were saved | {name} 只保存了一部分或统计量
replay_unreadable | {name} cannot be read: {why} | 无法读取 {name}：{why}
replay_shapes | {name} does not have the shape that it has in the graph | {name} 的形状与计算图中的不符
replay_other_shape | {name} has {n} elements, and its operator makes {shape} | {name} 有 {n} 个元素，而其算子产生 {shape}
replay_other_type | {name} is stored in {dtype}, and its operator makes {other} | {name} 以 {dtype} 存储，而其算子产生 {other}
replay_variant | the definition does not cover {name} | 定义不支持 {name}
replay_random | it draws random numbers | 该算子产生随机数
replay_failed | its attributes do not fit its inputs: {why} | 属性与输入不符：{why}
"""
)
