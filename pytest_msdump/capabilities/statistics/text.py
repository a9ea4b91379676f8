"""Sentences on what statistics and sketches say of a pair, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# a number and its limit
detail_interval | : {low:number} to {high:number} by sketches | ，按概要在 {low:number} 与 {high:number} 之间
# from statistics
statistic_explains | {why}: {statistic} is {left:number} left, {right:number} right | {why}：{statistic} 左侧 {left:number}，右侧 {right:number}
slice_norms_explain | {why}, at least: the norm of slices {first} to {last} is {left:number} left, {right:number} right | {why}，这是下限：切片 {first} 至 {last} 的范数，左侧 {left:number}，右侧 {right:number}
no_accuracy_limit_judged | no limit on accuracy could be judged without the tensors: {listed}; give one that can, e.g. {metric}, or compare the tensors themselves | 没有张量，精度阈值均无法判定：{listed}；请给出能判定的，例如 {metric:metric}，或比对张量本身
no_common_statistic | the sides have no finite statistic of their values in common: the left has {left}; the right has {right} | 两侧没有共有的有限数值统计量：左侧有 {left}；右侧有 {right}
statistic_changed_sign | {statistic} changed its sign: {left:number} left, {right:number} right | {statistic} 的符号改变：左侧 {left:number}，右侧 {right:number}
elements_changed_sign | at least {n} of {elements} elements changed their sign, more than {share:g} of them | {elements} 个元素中至少 {n} 个符号改变，超过 {share:g}
zeros_differ | zeros: {left} left, {right} right, of {elements} elements | 零的个数：左侧 {left}，右侧 {right}，共 {elements} 个元素
judged_by_statistics | judged by statistics ({listed}): {unseen}; metrics only where these allow it | 按统计量（{listed}）判定：{unseen}；只有这些统计量支持的指标
judged_by_sketches | judged by sketches and statistics ({listed}): {unseen}; metrics only where these allow it | 按概要与统计量（{listed}）判定：{unseen}；只有它们支持的指标
none_in_common | none in common | 没有共有的
not_saved_left | the left tensor was not saved | 左侧张量未保存
not_saved_right | the right tensor was not saved | 右侧张量未保存
not_saved_both | neither tensor was saved | 两侧张量均未保存
digests_differ | digests differ: the tensors are not equal bit for bit | 摘要不同：张量并非逐位相等
digests_equal | digests are equal, and so are all bits | 摘要相同：逐位相等
digests_prove_nothing | {listed} is equal, which proves nothing: other values can have it, too | {listed} 相同不能证明什么：其他数值也可能得到它
places_not_saved | both sides have NaN or Inf, at places that were not saved: nonfinite_mismatch is not judged ({rule}); compare the tensors themselves | 两侧都有 NaN 或 Inf，但位置未保存：nonfinite_mismatch 未判定（{rule}）；请比对张量本身
too_close | {metric} is at {low:g} to {high:g} of its limit {limit} by sketches ({rule}): compare the tensors themselves | 按概要，{metric:metric} 为其阈值 {limit} 的 {low:g} 至 {high:g} 倍（{rule}）：请比对张量本身
sketches_equal_digests_differ | digests differ, and sketches see no difference; compare the tensors themselves | 摘要不同，而概要看不出差异；请比对张量本身
sketches_of_two_sizes | sketches of {left} and {right} buckets cannot be compared; record or sketch one side again | {left} 个桶与 {right} 个桶的概要无法比对；请重新记录或概括其中一侧
sketches_of_two_orders | sketches of tensors whose axes are in another order cannot be compared; keep the tensors of one side | 两侧张量的轴顺序不同，其概要无法比对；请保留一侧的张量
statistics_do_not_tell | not judged, since statistics do not show it: {listed} | 统计量无法体现，因此未判定：{listed}
shapes_not_compared | the {sides:and} table has no shapes, so shapes were not compared | {sides:and}的统计表没有形状，因此未比对形状
zeros_added | statistics of {memory_format} include its padding: {n} zeros were added to the other side's | {memory_format} 的统计量包含其填充：已为另一侧加上 {n} 个零
# why a metric has no number
bits_not_told | the sides have no digest in common that proves equal bits (md5, sha1, blake2b, xxh3_128); equal statistics, CRC and XOR do not | 两侧没有能证明逐位相等的共有摘要（md5、sha1、blake2b、xxh3_128）；统计量、CRC、XOR 相等不能证明
one_side_nonfinite | one side has {title}, and the statistics of the {side:word} do not count them | 一侧含有 {title}，而{side:word}的统计量没有计数
# shapes that do not meet
statistics_of_part | only statistics were saved, and those of a whole tensor say nothing of a part of it; save the tensors, or pair the whole ones | 仅保存了统计量，而整个张量的统计量不能说明其中一部分；请保存张量，或将完整张量配对
"""
)
