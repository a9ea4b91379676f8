"""Sentences on shards that cannot be put together, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# of shards
ambiguous_axis | dims '{dims}' does not say whether axis {axis} ({n} ranks) cuts the tensor or holds copies; add [{axis}] to a dimension, or {axis}:replicated behind # | dims '{dims}' 未说明轴 {axis}（{n} 个 rank）是切分还是副本；请写 [{axis}] 或 {axis}:replicated
ambiguous_dims | no [[msdump.dims]] matches it, so it may be cut along {axes}, or be the same on all ranks; add an entry | 没有与之匹配的 [[msdump.dims]]，可能按 {axes} 切分，也可能各 rank 相同；请添加条目
ambiguous_placements | its ranks say {placements:and}; add a [[msdump.dims]] | 各 rank 分别记为 {placements:and}；请添加 [[msdump.dims]]
ambiguous_files | {files:and} hold the same shard; keep one | {files:and} 是同一个分片；请只保留一个
ambiguous_stages | ranks {stages:and} along {axis} each have a tensor of this name; add {axis}:replicated if they are copies, or renumber if names count from 0 on each | 沿 {axis} 的 {stages:and} 各有同名张量；请写 {axis}:replicated（副本）或 renumber
shards_axis_twice | dims '{dims}' name axis {axis} twice; a tensor is cut once along each axis | dims '{dims}' 两次写了轴 {axis}；张量沿每个轴只切分一次
shards_do_not_fit | shards of shapes {shape:shape} and {other:shape}, types {dtypes:and}, make no tensor by dims '{dims}'; correct dims, or dump again | 形状 {shape:shape} 与 {other:shape}（{dtypes:and}）的分片按 dims '{dims}' 拼不成一个张量
shards_not_added | shards of {dtype} cannot be added; correct :partial in dims | {dtype} 的分片不能相加；请更正 dims 中的 :partial
shards_not_saved | {file} is a sample, or statistics only; shards and steps are put together from whole tensors | {file} 是采样，或只有统计量；分片与各步只能由完整的张量拼成
shards_of_other_rank | a shard of shape {shape:shape} has other dimensions than dims '{dims}'; correct dims | 形状 {shape:shape} 的分片不具有 dims '{dims}' 的各维；请更正 dims
shards_padded | shards in {memory_format} cannot be joined without their original shape; convert them first | {memory_format} 的分片没有原始形状，无法拼接；请连同形状一起 dump，或先转换
tokens_come_first | tensors are compared token by token, so tokens stay their first axis; leave it out of match | 张量按 token 比较，token 须为第一轴；请在 match 中去掉它
shards_uneven | dimension {dim}: length {n} does not divide by {by}, so it is not of such a cut; correct dims or lengths | 维度 {dim} 的长度 {n} 不能被 {by} 整除，不可能来自这样的切分；请更正 dims 或 lengths
# shapes that do not meet
padded_to_be_cut | {n} of {of} along axis {axis} left out, the padding of an axis that is cut over ranks: {names} | 沿轴 {axis} 略去 {of} 个中的 {n} 个，它们是按 rank 切分的轴的填充：{names}
cut_over_ranks_entries | cut over ranks ({axes}), and the other side is not; in [msdump] of a suite file these put it together: {shards} and {dims} (of several projections in one tensor, dims says the widths, as (q:2+k+v)) | 按 rank 切分（{axes}），另一侧没有；在套件文件的 [msdump] 中写入以下两行即可拼合：{shards} 与 {dims}（一个张量含多个投影时，dims 写明宽度，如 (q:2+k+v)）
"""
)
