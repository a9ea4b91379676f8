"""Sentences on quantised runs, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# why tensors are not compared, and what a pair stands for
dequantised_weight | a weight that is kept in 8 bits | 以 8 位保存的权重
before_quantising | it is quantised next, and compared once it is dequantised | 随后被量化，反量化之后才比对
before_rounding | the same value rounded to 8 bits: it is compared before that | 同一数值舍入到 8 位：在舍入之前比对
dequantised | {tensor}, dequantised | {tensor}，经反量化
# operators by the error that their own quantisation adds
looks_quantised | quantisation | 量化
quant_title | {n} quantised operator, by the error that its own quantisation adds: | {n} quantised operators, by the error that their own quantisation adds: | {n} 个量化算子，按各自量化引入的误差排列：
quant_row | {own}  {text} | {own}  {text}
quant_only | rounding of {n} quantised operators; none is wrong by itself | {n} 个量化算子的舍入；没有哪个自身有误
quant_before | rounding, before what is wrong | 舍入，在有误处之前
quant_or_input | {text}; or {input}: what went in was not saved | {text}；或 {input}：其输入未保存
quant_narrow | {text}; {n} ranges are too small: were they measured on other data? | {text}；{n} 个范围过小：校准数据是否不同？
quant_rounded | {name}: scale {scale}, {clipped} of the values clipped | {name}：scale {scale}，{clipped} 的值被截断
quant_clipped | {name}: scale {scale}, {clipped} of the values clipped; the float side reaches {reaches}: {times} × the range | {name}：scale {scale}，{clipped} 的值被截断；浮点侧达到 {reaches}：为可表示范围的 {times} 倍
quant_misplaced | {name}: scale {scale}, zero point {zero_point}: the range is wide enough and in the wrong place; {clipped} of the values clipped | {name}：scale {scale}，零点 {zero_point}：范围够宽但位置不对；{clipped} 的值被截断
quant_coarse | {name}: scale {scale} is too large: most values use {levels} of {of_levels} levels | {name}：scale {scale} 过大：多数值只用到 {of_levels} 级中的 {levels} 级
quant_shifted | {name}: what comes out is shifted by {reaches}: quantised and dequantised with different zero points | {name}：输出整体偏移 {reaches}：量化与反量化的零点不同
quant_factor | {name}: what comes out is {times} × what went in: quantised and dequantised with different scales | {name}：输出为输入的 {times} 倍：量化与反量化的 scale 不同
quant_unlike | {name}: scale {scale}, zero point {zero_point}: what comes out is not what went in | {name}：scale {scale}，零点 {zero_point}：输出与输入不符
quant_saturated | {name}: {clipped} of its numbers are at an end of the range, and what went in was not saved | {name}：{clipped} 的数位于范围两端，且其输入未保存
quant_outlying | {name}: scale {scale} fits the largest value, {reaches}; most values use {levels} of {of_levels} levels: keep it in floats, or quantise by channel | {name}：scale {scale} 适合最大值 {reaches}；多数值只用到 {of_levels} 级中的 {levels} 级：保留浮点，或按通道量化
quant_layer | {name}: its weights, or what it sums up | {name}：其权重，或其求和
quant_weights | {name}: its inputs are off by {reaches} alone: scale, zero point or axis of its weights | {name}：其输入误差仅为 {reaches}：权重的 scale、零点或轴有误
quant_weights_factor | {name}: {times} × the float side: scale of its weights | {name}：为浮点侧的 {times} 倍：权重的 scale 有误
quant_bias | {name}: each channel is shifted: its bias, whose scale is that of the input times that of the weights | {name}：各通道有偏移：偏置有误，其 scale 应为输入与权重 scale 之积
quant_coarse_weights | {name}: most channels of its weights use few levels: quantise by channel, or look for one far larger | {name}：权重多数通道只用到少数级：按通道量化，或查找大得多的通道
"""
)
