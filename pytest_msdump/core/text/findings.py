"""What is found of a pair, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

FINDINGS = read_rows(
    """
# a number and its limit
below_limit | {metric} {value} is below {limit} ({rule}){detail} | {metric:metric} 为 {value}，低于阈值 {limit}（{rule}）{detail}
above_limit | {metric} {value} is above {limit} ({rule}){detail} | {metric:metric} 为 {value}，高于阈值 {limit}（{rule}）{detail}
below_warning_level | {metric} {value} is below warning level {limit} ({rule}){detail} | {metric:metric} 为 {value}，低于警告值 {limit}（{rule}）{detail}
above_warning_level | {metric} {value} is above warning level {limit} ({rule}){detail} | {metric:metric} 为 {value}，高于警告值 {limit}（{rule}）{detail}
golden_above_limit | {metric}: {detail}: ratio {value} > {limit} ({rule}) | {metric:metric}：{detail}：比值 {value} > {limit}（{rule}）
golden_above_warning_level | {metric}: {detail}: ratio {value} > warning level {limit} ({rule}) | {metric:metric}：{detail}：比值 {value} > 警告值 {limit}（{rule}）
detail_golden | left against {golden:word} {left:number}, {other_run:word} against {golden:word} {other:number} | 左侧相对{golden:word} {left:number}，{other_run:word}相对{golden:word} {other:number}
golden_not_judged | not judged by golden: a tensor was not saved, and not all runs have sketches; the profile's limits hold | 未按真值判定：有张量未保存，且并非各侧都有草图；沿用阈值方案的阈值
golden_of_other_shape | {run:word} against {golden:word}: {why} | {run:word}相对{golden:word}：{why}
golden_is_stale | {run:word} is {factor:.3g} × as far from {golden:word} as profile default allows {dtype} ({metric} {value:number}), more than 10 ×: {golden:word} or {run:word} is of another model, weights or inputs | {run:word}与{golden:word}的距离为 default 对 {dtype} 所允许的 {factor:.3g} 倍（{metric:metric} {value:number}），超过 10 倍：{golden:word}或{run:word}属于另一模型、权重或输入
golden_is_elsewhere | {golden:word} has NaN where {run:word} has none, or the other way round, or one is all 0: {golden:word} or {run:word} is of another model, weights or inputs | {golden:word}与{run:word}的 NaN 位置不同，或一方全为 0：{golden:word}或{run:word}属于另一模型、权重或输入
detail_place | , at {place:place} | ，位于 {place:place}
detail_slice | , at slice {n} | ，位于切片 {n}
detail_nonfinite | : NaN left {nan_left}, right {nan_right}; Inf left {inf_left}, right {inf_right}; first at {place:place} | ：NaN 左侧 {nan_left}、右侧 {nan_right}；Inf 左侧 {inf_left}、右侧 {inf_right}；首个位于 {place:place}
detail_saturated | : NaN, Inf or at its dtype's maximum on the left, where the right is finite and different; first at {place:place} | ：左侧为 NaN、Inf 或其数据类型的最大值，而右侧为有限且不同的值；首个位于 {place:place}
detail_others | , of the {n} other element alone, beside those near {near:rough} | , of the {n} other elements alone, beside those near {near:rough} | ，仅计 {near:rough} 附近元素之外的 {n} 个元素
metric_undefined_of_others | {metric} of the other elements alone, beside those near {near:rough}, is undefined, because {why} ({rule}) | 仅计 {near:rough} 附近元素之外的元素时，{metric:metric} 未定义：{why}（{rule}）
dominated | dominated: {n} of {elements} elements near {near:rough}; each limit is held to the worse number, of all elements or of the others alone | 被主导：{elements} 个元素中有 {n} 个在 {near:rough} 附近；各阈值按全部元素与其余元素中较差的数值判定
dominated_zeros | dominated: {n} of {elements} elements near {near:rough}; the others are 0 on the right, and not judged apart | 被主导：{elements} 个元素中有 {n} 个在 {near:rough} 附近；其余元素在右侧为 0，故不单独判定
outliers | {n} of {elements} elements, near {near:rough}, is far larger than all others; these are not judged apart | {n} of {elements} elements, near {near:rough}, are far larger than all others; these are not judged apart | {elements} 个元素中有 {n} 个在 {near:rough} 附近，远大于其余元素；其余元素不单独判定
statistics_dominated | at least {share:percent} of the elements are near {near:rough}, and nothing judges the others, which are far smaller | 至少 {share:percent} 的元素在 {near:rough} 附近，而此处无从判定其余小得多的元素
detail_tolerance | : elements outside rtol {rtol:limit}, atol {atol:limit} | ：超出 rtol {rtol:limit}, atol {atol:limit} 的元素数
leaves_out_zeros | {metric} {value} leaves out {n} element where the right is 0 and the left is not, so its limit {limit} is not met ({rule}) | {metric} {value} leaves out {n} elements where the right is 0 and the left is not, so its limit {limit} is not met ({rule}) | {metric:metric} 为 {value}，但未计入右侧为 0 而左侧不为 0 的 {n} 个元素，因此阈值 {limit} 不成立（{rule}）
limit_skipped_near_zero | {metric} does not apply to values that are all 0 or next to it; its limit is skipped ({rule}) | {metric:metric} 不适用于全为 0 或仅差最小正数的张量，其阈值略过（{rule}）
limit_skipped_one_element | {metric} does not apply to one-element tensors; its limit is skipped ({rule}) | {metric:metric} 不适用于单元素张量，其阈值略过（{rule}）
limit_skipped | {metric} does not apply, because {why}; its limit is skipped ({rule}) | {metric:metric} 不适用：{why}，其阈值略过（{rule}）
metric_undefined | {metric} is undefined, because {why} ({rule}) | {metric:metric} 无定义：{why}（{rule}）
drift_accepted_down_to | {why}; accepted down to {limit:limit} by {rule} | {why}；{rule} 允许低至 {limit:limit}
drift_accepted_up_to | {why}; accepted up to {limit:limit} by {rule} | {why}；{rule} 允许高至 {limit:limit}
drift_alone_down_to | {metric} {value} is accepted down to {limit} by {rule}; it has no other limit | {metric:metric} 为 {value}，{rule} 允许低至 {limit}；没有其他阈值
drift_alone_up_to | {metric} {value} is accepted up to {limit} by {rule}; it has no other limit | {metric:metric} 为 {value}，{rule} 允许高至 {limit}；没有其他阈值
drift_expired | known drift "{reason}" expired on {date}: the normal limits apply | 已知偏差“{reason}”已于 {date} 到期：按正常阈值判定
# limits of a limits file
limit_derived | {metric} limit {limit:limit} = {m:short} × {base:number} | {metric:metric} 阈值 {limit:limit} = {m:short} × {base:number}
limit_squared | {metric} limit {limit:limit} = ({m:short} × {base:number})² | {metric:metric} 阈值 {limit:limit} = ({m:short} × {base:number})²
limits_derived | {what}, from {n} perturbed run{golden}; {multiplier} | {what}, from {n} perturbed runs{golden}; {multiplier} | {what}，来自 {n} 次扰动运行{golden}，{multiplier}
and_golden |  and a golden run | 及一次高精度运行
multiplier_assumed | the multiplier is a default, give --control to measure it | 倍数为默认值，可用 --control 实测
multiplier_raised | the multiplier is a default, and high enough for {n} control run | the multiplier is a default, and high enough for {n} control runs | 倍数为默认值，且满足 {n} 次对照运行
multiplier_earned | false alarms ≤ {alpha:percent} of runs, from {n} control runs | 误报 ≤ {alpha:percent} 的运行，来自 {n} 次对照运行
multiplier_tightened | lowered to what a passing run measured | 已收紧到一次通过的运行的实测值
limits_chaotic | the profile judges this tensor, since rounding alone changes it by any amount ({file}: chaotic) | 该张量按 profile 判定：仅舍入即可使其任意变化（{file}：chaotic）
# what a person permits
permitted | {by} lets it pass: {metric} {value:number}, where {rule} has {limit:limit} | {by} 使其通过：{metric:metric} {value:number}，而 {rule} 为 {limit:limit}
permitted_looser | {by} lets it pass, {factor:.3g} × looser: {metric} {value:number}, where {rule} has {limit:limit} | {by} 使其通过，宽松 {factor:.3g} 倍：{metric:metric} {value:number}，而 {rule} 为 {limit:limit}
permitted_beyond | {by} lets it pass: {metric} {value:number}, {factor:.3g} × the {limit:limit} of {rule} | {by} 使其通过：{metric:metric} {value:number}，为 {rule} 之 {limit:limit} 的 {factor:.3g} 倍
limits_too_loose | the profile judges this tensor: the limit of {file} is {factor:.3g} × looser than profile default for {dtype}, more than 10 ×; --accept-looser (pytest: --msdump-accept-looser) lets it hold | 该张量按 profile 判定：{file} 的阈值比 {dtype} 的 default 宽松 {factor:.3g} 倍，超过 10 倍；--accept-looser（pytest：--msdump-accept-looser）使其生效
limits_of_other_tensor | {file} has this name for a tensor of {elements:elements}, class {kind}; the right one has {n:elements}: the file is of another reference, or was edited; calibrate again | {file} 中此名称的张量有 {elements} 个元素，类别 {kind}，而右侧有 {n} 个：该文件属于另一参考或被改动，请重新标定
limits_not_for_gradients | the profile judges this gradient: no perturbed run shows what {dtype} does to gradients ({file}) | 该梯度按 profile 判定：没有扰动运行能说明 {dtype} 对梯度的影响（{file}）
limits_not_scaled | the profile judges this tensor, since {file} has no coarse run that shows what {dtype} does to it: record the reference perturbed by 2**-12 for msdump calibrate --coarse | 该张量按 profile 判定：{file} 没有说明 {dtype} 对其影响的粗扰动运行：请按 2**-12 扰动采集标杆，用于 msdump calibrate --coarse
# data types, NaN and Inf, what was not compared
dtypes_differ | dtypes differ: left {left}, right {right} | 数据类型不同：左侧 {left}，右侧 {right}
dtypes_must_be_equal | dtypes differ: left {left}, right {right}, but must be equal ({rule}) | 数据类型不同：左侧 {left}，右侧 {right}，而要求相同（{rule}）
dtypes_judged_as_coarser | dtypes differ: left {left}, right {right}; judged as {dtype}, the coarser side | 数据类型不同：左侧 {left}，右侧 {right}；按较粗的 {dtype} 判定
dtypes_differ_values_equal | dtypes differ: left {left}, right {right}; all values are equal | 数据类型不同：左侧 {left}，右侧 {right}；所有值相等
dtypes_and_values_differ | dtypes differ: left {left}, right {right}; accepted only if all values are equal, and {n} are not | 数据类型不同：左侧 {left}，右侧 {right}；仅当所有值相等时才允许，而有 {n} 个不等
complex_against_real | dtypes differ: left {left}, right {right}; a real and a complex tensor are not compared; if it is intended, add {entry} | 数据类型不同：左侧 {left}，右侧 {right}；实数张量不与复数张量比对；如确有此意，请添加 {entry}
nonfinite_forbidden | NaN and Inf are forbidden ({rule}) but occur at {n} of {elements} positions: NaN matched {nan_both}, else left {nan_left}, right {nan_right}; Inf matched {inf_both}, else left {inf_left}, right {inf_right}; first at {place:place} | 不允许 NaN 和 Inf（{rule}），而 {elements} 个位置中有 {n} 个：NaN 两侧相同 {nan_both}，否则左侧 {nan_left}、右侧 {nan_right}；Inf 两侧相同 {inf_both}，否则左侧 {inf_left}、右侧 {inf_right}；首个位于 {place:place}
device_overflow | the device's own check found an overflow: {told} | 设备侧检测到溢出：{told}
device_overflow_right | the device's check of the right side: {told} | 设备侧对右侧的检测：{told}
uncompared_occurrences | called more often on the {side:word} than on the other side: {n} further call was not compared{by} | called more often on the {side:word} than on the other side: {n} further calls were not compared{by} | {side:word}的调用次数多于另一侧：另有 {n} 次未比对{by}
nothing_compared_empty | nothing was compared: both sides are empty | 没有比对任何内容：两侧均为空
no_limit_applies | the sides differ, but no limit applies to them; give one, e.g. max_absolute_error | 两侧不同，但没有适用的阈值；请给出一个，例如 max_absolute_error
sampled | sampled {n} of {elements} elements: the run saved no more | 抽样比对 {elements} 个元素中的 {n} 个：运行没有保存更多
sampled_of_unknown | sampled {n} of an unknown number of elements: the run saved no more | 抽样比对 {n} 个元素，总数未知：运行没有保存更多
only_first_compared | only the first {n} of {elements} elements were compared | 仅比对了 {elements} 个元素中的前 {n} 个
repeated_tensor | the {side:word} side has this tensor {n} times, and this is occurrence {occurrence} | {side:word}有此张量 {n} 次，这是第 {occurrence} 次（从 0 起）
written_input | {type} overwrites its input {slot}, which the {side:word} run may have dumped only afterwards | {type} 会改写其输入 {slot}，{side:word}可能在改写之后才将其落盘
# of the files
trailing_bytes | the {side:word} file has {bytes} bytes more than its header describes; they were not compared | {side:word}文件比其文件头所描述的多 {bytes} 个字节，这些字节未比对
coarser_values | the {side:word} file is {dtype}, but all its values are {values} | {side:word}文件为 {dtype}，但其所有值均为 {values}
computed_in | the {side:word} file is {dtype}, but was computed in {values}, as its manifest says | {side:word}文件为 {dtype}，但清单表明以 {values} 计算
judged_as_computed | {why}; judged as {dtype} | {why}；按 {dtype} 判定
integers_differ | {n:,} of {elements:,} integers differ, first at {place:index}: {left} left, {right} right ({rule}) | {elements:,} 个整数中有 {n:,} 个不同，首个在 {place:index}：左 {left}，右 {right}（{rule}）
random_masks | not comparable element by element, as masks are drawn at random: the shares set to zero agree ({left:number} left, {right:number} right), and so do the {kept:elements} that both sides kept | 掩码随机生成，无法逐元素比对：置零比例一致（左 {left:number}，右 {right:number}），两侧都保留的 {kept:elements}也一致
random_masks_differ | masks are drawn at random, but the left set {left:number} of the elements to zero, the right {right:number}: another probability, or one side is not in training | 掩码随机生成，但左侧置零比例为 {left:number}，右侧为 {right:number}：概率不同，或一侧不在训练模式
random_masks_swapped | the left set {left:number} of the elements to zero, the right {right:number}: was MindSpore's keep probability given as p, or p as keep_prob? | 左侧置零比例为 {left:number}，右侧为 {right:number}：是否把 keep_prob 与 p 混用？
random_masks_kept_differ | the shares that random masks set to zero agree ({left:number} left, {right:number} right), but the {kept:elements} that both sides kept do not: what goes in differs, or the factor 1 / (1 - p) | 随机掩码的置零比例一致（左 {left:number}，右 {right:number}），但两侧都保留的 {kept:elements}不一致：输入不同，或系数 1 / (1 - p) 不同
zero_in_exact_arithmetic | zero in exact arithmetic: it is the sum of {terms} gradients that cancel out, and both sides (norm {left:number} left, {right:number} right) are below {floor:number}, the rounding error in {dtype} | 按精确算术应为 0：它是 {terms} 个相互抵消的梯度之和，两侧（范数：左 {left:number}，右 {right:number}）均低于 {dtype} 的舍入误差 {floor:number}
other_formats_fit | {why}; with {entry} in the suite file, and no other axis order, the shapes meet: is that so? | {why}；若套件文件中只写 {entry}，不写其他轴序，两侧形状即可对齐：是否如此？
not_as_in_graph | {graph} says {said} for the {side:word} file, whose header, which was followed, says {held} | {graph} 中{side:word}文件为 {said}，而文件头为 {held}；以文件头为准
shape_from_graph | the {side:word} file has shape {stored:shape}; it was compared in {used:shape}, the shape in the graph of its run | {side:word}文件的形状为 {stored:shape}；按其计算图中的形状 {used:shape} 比对
file_not_accepted | {why}; not accepted ({rule}) | {why}；不予接受（{rule}）
judged_by_hint | {why}; judged as {dtype}, by {entry} | {why}；依据 {entry} 按 {dtype} 判定
hint_would_help | {why}, but it was judged as {dtype}; if it was computed that way, add {entry} under [{section}] | {why}，却按 {dtype} 判定；如确以此精度计算，请在 [{section}] 下添加 {entry}
# of shards
replica | {n} copy on the {side:word} side should hold the same, but differs: {rank} from {first} by up to {value}, at {place:place} | {n} copies on the {side:word} side should hold the same, but differ: e.g. {rank} from {first} by up to {value}, at {place:place} | {side:word}侧有 {n} 个副本本应相同却不同，如 {rank} 与 {first} 至多相差 {value}，在 {place:place}
incomplete | {n} of {shards} shards of the {side:word} side is missing: that of {at}; dump all ranks, or correct axes | {n} of {shards} shards of the {side:word} side are missing, e.g. that of {at}; dump all ranks, or correct axes | {side:word}侧的 {shards} 个分片中缺 {n} 个，其中有 {at} 的；请 dump 所有 rank，或更正 axes
ambiguous | ambiguous: {why} | 无法确定：{why}
shards_joined | {n} tensor put together from {shards} shards ({axes}) | {n} tensors put together from {shards} shards ({axes}) | 由 {shards} 个分片拼成 {n} 个张量（{axes}）
ranks_absent | {n} of {ranks} ranks has no file: {at}; dump all ranks, or correct axes | {n} of {ranks} ranks have no file, e.g. {at}; dump all ranks, or correct axes | {ranks} 个 rank 中有 {n} 个没有任何文件，如 {at}；请 dump 所有 rank，或更正 axes
# from statistics
digest_contradicted | {digest} says that all bytes are equal, {listed:and} that they are not: one of the two is wrong; dump again | {digest} 表明所有字节相等，{listed:and} 却表明不等：必有一方有误；请重新转储
# roles, which summaries count
count_cause | {n} cause | {n} causes | {n} 个起因
count_accumulated | {n} accumulated | {n} 个累积
count_inherited | {n} inherited | {n} 个继承
count_unknown | {n} unknown | {n} 个来源不明
between_sources |  and  | 和
short_cause | cause: {names} | 起因：{names}
of_total_fail | {n} of {total} tensors fails | {n} of {total} tensors fail | {total} 个张量中 {n} 个未通过
lead_cause | cause {names} | 起因 {names}
lead_first | first {names} | 最先 {names}
"""
)
