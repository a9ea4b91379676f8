"""Sentences of headers, tables, summaries and pages, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# what joins parts of a sentence
between_names | ,  | 、
between_parts | ,  | ，
between_numbers | ,  | ；
between_clauses | ;  | ；
after_label | {label}: {text} | {label}：{text}
in_brackets | {text} ({aside}) | {text}（{aside}）
names_and_more | {names} and {n} more | {names} 等，另有 {n} 个
same | (same) | （同上）
in_two_languages | {en} | {zh}
left | left | 左侧
right | right | 右侧
golden | golden | 真值侧
third | third | 第三侧
# verdicts: as the first word of a failure, and counted
PASS | PASS | 通过
WARN | WARN | 警告
FAIL | DRIFT | 超限
UNDEFINED | UNDEFINED | 无定义
ERROR | ERROR | 错误
NOT_RUN | NOT RUN | 未运行
NO_DRIFT | FAIL | 未通过
count_pass | {n} pass | 通过 {n}
count_warn | {n} warn | 警告 {n}
count_fail | {n} fail | 超限 {n}
count_undefined | {n} undefined | 无定义 {n}
count_error | {n} error | 错误 {n}
count_not_run | {n} not run | 未运行 {n}
# header
header_left | msdump: left  = under test  {side} | msdump: 左侧 = 待测  {side}
header_right |         right = reference   {side} |         右侧 = 标杆  {side}
header_golden |         golden = more exact {side} |         真值 = 更精确  {side}
header_third |         third = another run {side} |         第三 = 另一次运行  {side}
header_pairs | {n} pair to compare, profile {profile} | {n} pairs to compare, profile {profile} | 待比对 {n} 对张量，阈值方案 {profile}
header_kernel | kernel: {kernel} | 计算内核: {kernel}
side | {directory}  ({about}) | {directory}（{about}）
reader | reader {reader} | 读取器 {reader}
given_different_inputs | the two runs had different inputs, so later results differ for that reason, too: {names} | 两次运行的输入不同，其后的结果也因此不同：{names}
given_other_types | inputs and weights are {left} on the left and {right} on the right, so their digests do not show whether they are the same: {names} | 左侧输入与权重为 {left}，右侧为 {right}，因此摘要无法表明两者是否相同：{names}
given_different_weights | the two runs had different weights, so later results differ for that reason, too: {names} | 两次运行的权重不同，其后的结果也因此不同：{names}
batch_norm_folded | no {norms} on the {side:word}, where BatchNorm is probably folded into {names} | {side:word}没有 {norms}，且其前各层的权重不同：BatchNorm 似已折叠进 {names}
perturbed_run | this run's inputs and weights were perturbed, to find what rounding does: it is no reference | 这次运行的输入和权重加过扰动，用于测量舍入的影响，不能作标杆
sides_look_swapped | warning: the sides look swapped: the left is a folder of op.index.timestamp.npy files, the right a {reader} dump; left = run under test, right = reference | 警告：左右两侧疑似写反：左侧是 op.index.timestamp.npy 文件夹，右侧是 {reader} 格式的 dump 数据；左侧应为待测，右侧应为标杆
dump_not_collected | pytest collects nothing in {directory}, which is a dump; keep tests outside of dumps | {directory} 是 dump 目录，pytest 不从中收集测试；请勿将测试放在 dump 目录中
uncompared | {n} compared tensor has more occurrences, which were not compared: {k} | {n} compared tensors have more occurrences, which were not compared: {k} | {n} 个已比对的张量另有未比对的重复，共 {k} 次
partial_run | {side}: the directory holds a partial second run: {newer} of {n} tensor | {side}: the directory holds a partial second run: {newer} of {n} tensors | {side}：目录中有一次不完整的第二次运行：{n} 个张量中的 {newer} 个
not_understood | {n} file is in no known format and was left out: {names} | {n} files are in no known format and were left out: {names} | 有 {n} 个文件格式未知，已略去：{names}
by_statistics | {unseen} of {n} pair by saved statistics or sketches only, without values | {unseen} of {n} pairs by saved statistics or sketches only, without values | {n} 对中有 {unseen} 对只有统计量或概要，没有张量数据
flat_steps | each of its {names} names is there {times} times, pass after pass, and the other side has {iterations} iterations: taken as the iterations {numbers}; a folder for each (0, 1, …) says it without guessing | {names} 个名称各出现 {times} 次，一遍接一遍，而另一侧有 {iterations} 个迭代：按迭代 {numbers} 处理；每个迭代放入单独的文件夹（0、1…）则无需猜测
flat_steps_left_alone | each of its {names} names is there {times} times, pass after pass: steps of a training, or runs into one folder? Taken as runs, of which the newest is compared; for steps, put each into a folder, 0 to {last} | {names} 个名称各出现 {times} 次，一遍接一遍：是训练的多个 step，还是多次运行写入同一文件夹？按多次运行处理，只比较最新一次；若是多个 step，请分别放入文件夹 0 到 {last}
steps_shifted | {n} of {tried} failing tensors agree with the right's next or last iteration: the sides count steps differently; compare them with {arguments} | {tried} 个失败张量中有 {n} 个与右侧相邻迭代一致：两侧 step 计数不同；请用 {arguments} 比对
weights_saved_before | {n} of {tried} failing weights agree with the right's next iteration: the right saved them before its step, the left after; save them after the step, or compare these with {arguments} | {tried} 个失败权重中有 {n} 个与右侧下一迭代一致：右侧在 step 之前保存，左侧在之后；请在 step 之后保存，或用 {arguments} 比对
weights_saved_after | {n} of {tried} failing weights agree with the right's last iteration: the left saved them before its step, the right after; save them on one side of it, or compare these with {arguments} | {tried} 个失败权重中有 {n} 个与右侧上一迭代一致：左侧在 step 之前保存，右侧在之后；请在同一时刻保存，或用 {arguments} 比对
weights_of_one_step | only {n} weight fails: MindSpore writes it after its step; if the right saved it before, save it after | only {n} weights fail: MindSpore writes them after its step; if the right saved them before, save them after | 只有权重（{n} 个）失败：MindSpore 在 step 之后写出；若右侧在 step 之前保存，请改为之后保存
random_operators | {names} drew masks at random: what follows cannot agree element by element, and fails; compare in evaluation mode, with p = 0, or with the same masks on both sides | {names} 随机生成掩码：其后的算子无法逐元素一致；请在推理模式、p = 0 或相同掩码下比对
goes_on | its model goes on after {after}: its output {name} is compared with nothing; hook the right's model | 其模型在 {after} 之后仍有计算：输出 {name} 没有可比对的张量；请对右侧模型本身也加 hook
golden_graph_differs | its graph is not that of the right side: is it of the same model? | 其计算图与右侧不同：是同一模型吗？
limits_between | {file}: limits are {low:short} to {high:short} × what rounding does to a tensor | {file}：阈值为舍入对各张量影响的 {low:short} 至 {high:short} 倍
limits_unchecked | {file} is used without a check: nothing shows that it was made with this reference | {file} 未经核对即使用：无法确认它由此参考数据生成
limits_lack | the profile judges {n} right tensor, which {file} does not have | the profile judges {n} right tensors, which {file} does not have | 右侧有 {n} 个张量不在 {file} 中，按 profile 判定
newest_files | {n} older file of a tensor is left out, as the vendor's tool does; msdump compare keeps it: {names} | {n} older files of tensors are left out, as the vendor's tool does; msdump compare keeps them: {names} | 与厂商工具一样，同一张量只比对最新的文件，略去 {n} 个较旧的（msdump compare 会保留）：{names}
# summary
permits | {by} lets {n} pair pass that profile {profile} fails{factor} | {by} lets {n} pairs pass that profile {profile} fails{factor} | {by} 使 {profile} 判为失败的 {n} 对张量通过{factor}
permits_looser | , at most {factor:.3g} × looser | ，最多宽松 {factor:.3g} 倍
permits_beyond | , at most {factor:.3g} × its limit | ，最多为其阈值的 {factor:.3g} 倍
more_permits | and {n} more rule, which lets {pairs} pairs pass | and {n} more rules, which let {pairs} pairs pass | 另有 {n} 条规则使 {pairs} 对张量通过
calibrate_hint | if this may be rounding: record the reference once more with perturb=Perturbation(1), then type msdump calibrate REFERENCE PERTURBED | 若可能是舍入：以 perturb=Perturbation(1) 再采集一次标杆，然后执行 msdump calibrate REFERENCE PERTURBED
limits_stale | {n} limit could be {times:short} times lower, as this run shows: --limits-update=tighten lowers it | {n} limits could be {times:short} times lower, as this run shows: --limits-update=tighten lowers them | 本次运行表明有 {n} 个张量的阈值可降低至 1/{times:short} 以下：可用 --limits-update=tighten 收紧
limits_lowered | {file}: limits of {n} tensor lowered | {file}: limits of {n} tensors lowered | {file}：已收紧 {n} 个张量的阈值
matched | matched {paired} of {total} right tensors | 右侧 {total} 个张量已配对 {paired} 个
without_partner | {text}; without a partner: {sides} | {text}；未配对：{sides}
count_of_left | {n} left | 左侧 {n} 个
count_of_right | {n} right | 右侧 {n} 个
more_reasons | {tensors}: {n} more reason, see results.json | {tensors}: {n} more reasons, see results.json | {tensors} 个：另有 {n} 种原因，见 results.json
outcomes | {n} tensor: {counts} | {n} tensors: {counts} | {n} 个张量：{counts}
share_compared | {share} of the reference compared | 已比对参考侧的 {share}
not_compared | not compared: {names} | 未比对：{names}
partner_of | the partner of {name} | {name} 的配对张量
compared_share | {share} compared | 已比对 {share}
unlisted | {n} right tensor does not count, since the left was configured to dump listed operators alone | {n} right tensors do not count, since the left was configured to dump listed operators alone | 右侧有 {n} 个张量不计入，因为左侧配置为只落盘列出的算子
first_failing | first failing: op {place} of {operators}, {line} | 最先未通过：第 {place} 个算子（共 {operators} 个），{line}
more_warnings | and {n} more warnings; results.json has them all | 另有 {n} 个警告，全部见 results.json
sides_identical | the two sides are identical, bit for bit; was a run compared with itself? | 左右两侧逐位相同；是否把同一次运行与自身作了比对？
pairs_equal | every pair is equal, bit for bit | 每一对都逐位相等
coverage_is | coverage: {problem} | 覆盖率：{problem}
reports | reports: {files} | 报告：{files}
incomplete_left | THE LEFT SIDE IS AN INCOMPLETE RECORDING: tensors missing from it were not compared | 左侧的采集不完整：缺失的张量未比对
incomplete_right | THE RIGHT SIDE IS AN INCOMPLETE RECORDING: tensors missing from it were not compared | 右侧的采集不完整：缺失的张量未比对
not_complete | some pairs were not run; a tensor that was not compared has not passed | 部分张量对没有运行；未比对不算通过
not_ended | the run did not finish, so there is nothing to judge; run it again | 该运行没有正常结束，无法判定；请重新运行
also_failing | also failing (--msdump-show=all shows each in full): | 其他未通过的算子（--msdump-show=all 可完整显示）：
more_failing | and {n} more operator; --msdump-show=failing lists it | and {n} more operators; --msdump-show=failing lists them | 另有 {n} 个算子；--msdump-show=failing 可全部列出
more_of_operator | {line} (and {n} more tensor) | {line} (and {n} more tensors) | {line}（此算子另有 {n} 个张量未通过）
both_sides | left {left}, right {right} | 左侧 {left}，右侧 {right}
foreign_results | ERROR: {n} results come from other dumps than this process sees: files changed during the run, or workers see other files | 错误：{n} 个结果来自其他 dump 数据：运行期间文件被改动，或各工作进程看到的文件不同
# coverage
selected_nothing | --select {glob} matched no operator; {hint} | --select {glob} 没有匹配任何算子；{hint}
nothing_selected | nothing was compared: no tensor is selected | 没有比对任何张量：没有选中任何张量
nothing_compared | nothing was compared: no left tensor has a partner on the right | 没有比对任何张量：左侧没有张量在右侧找到配对
missing_mapped | {n} map entry found no pair | {n} map entries found no pair | {n} 条映射没有找到配对
missing_fused | {n} mapped or fused pair is missing | {n} mapped or fused pairs are missing | 缺少 {n} 个由映射或融合规则得出的配对
coverage_below | coverage is {share}, below the {wanted} of min_coverage: {paired} of {total} right tensors have a partner | 覆盖率为 {share}，低于 min_coverage 的 {wanted}：右侧 {total} 个张量中有 {paired} 个已配对
coverage_below_half | coverage is {share}, below the {wanted} that is demanded unless min_coverage says otherwise: {paired} of {total} right tensors have a partner | 覆盖率为 {share}，低于 {wanted}，且没有 min_coverage 说明更低亦可：右侧 {total} 个张量中有 {paired} 个已配对
outputs_not_compared | not compared of the model's own outputs: {names}; pair them by map entries, or name them in allow_uncompared | 模型自身的输出未比对：{names}；请用 map 条目配对，或将其列入 allow_uncompared
of_these_partly | {text}, {n} of them compared in part | {text}，其中 {n} 个只比对了一部分
coverage_fails | COVERAGE: {problem} | 覆盖率：{problem}
met | met | 配对
met_of | {paired} of {total} right tensors in the selection; {share} of the reference compared | 所选右侧 {total} 个张量中的 {paired} 个；已比对参考侧的 {share}
holds_nothing | {directory} (an empty folder) | {directory}（空文件夹）
holds | {directory} ({n} tensors; reader {reader}) | {directory}（{n} 个张量；读取器 {reader}）
missing_title_mapped | mapped, but not paired ({n}): | 已映射但未配对（{n}）：
missing_title_fused | mapped or fused, but not paired ({n}): | 已映射或融合但未配对（{n}）：
alone_left | left tensors without a partner ({n}): | 左侧未配对的张量（{n}）：
alone_right | right tensors without a partner ({n}): | 右侧未配对的张量（{n}）：
reason | reason | 原因
tensors | tensors | 张量数
first_of_them | the first of them: | 其中最前的几个：
nearest |  (nearest: {names}) | （相近的名称：{names}）
do_check_dump | what to do: check that the run wrote its dump there, and that the path is its root | 下一步：确认 dump 数据已落盘到该处，且该路径是 dump 的根目录
do_check_selection | what to do: the selection leaves out every tensor; check select, deselect, io, iteration, rank and graph | 下一步：所选范围内没有任何张量；请检查 select、deselect、io、iteration、rank 和 graph
do_map | what to do: give both sides the same operator names, or name the pairs in msdump.toml: | 下一步：让两侧算子同名，或在 msdump.toml 中写明配对：
do_suggest | msdump match --suggest finds partners by structure, names and values, and writes the entries | msdump match --suggest 可按结构、名称和数值查找配对，并写出这些条目
partners | partners: {how} | 可能的配对：{how}
next_entry | the next entry to write: | 下一条可写：
keep_scopes | and in [msdump], since map entries turn off pairing by structure: | 并在 [msdump] 中写明，因为有映射条目时不再按结构配对：
the_left_operator | the left operator | 左侧算子
the_right_operator | the right operator | 右侧算子
more_tensors | and {n} more tensors; results.json has them all | 另有 {n} 个张量，全部见 results.json
rest_reasons | and {n} more reasons; results.json has them all | 另有 {n} 种原因，全部见 results.json
# pairs that look wrong
suspicious | {n} suspicious pair: another tensor fits far better | {n} suspicious pairs: another tensor fits far better | {n} 个可疑配对：另有张量更吻合
fits | values agree to {apart}, {shape} | 数值相差 {apart}，{shape}
fits_equal | values are equal, {shape} | 数值相等，{shape}
fits_by_against | names or order say so, {shape}; values differ by {apart} of their norm | 名称或执行顺序如此表明，{shape}；相对欧氏距离 {apart}
fits_by_structure | the same step of both runs, {shape}; values differ by {apart} of their norm | 两次运行中的同一步，{shape}；相对欧氏距离 {apart}
fits_by_nearest | by far the nearest to each other of all that have this size, {shape}; values differ by {apart} of their norm | 在同样大小的张量中彼此最接近且远近于其他，{shape}；相对欧氏距离 {apart}
fits_by_statistics | type, shape, end of the name and all statistics agree | 类型、形状、名称末段及全部统计量均相符
shape_same | same shape | 形状相同
shape_transposed | axes of the right in another order | 右侧轴序不同
shape_reshaped | other shape | 形状不同
# a failing tensor
and_more | and {n} more | 另有 {n} 项
equal | equal | 相等
differ | differ | 不同
every_limit_met | every limit met | 均在阈值之内
statistics_only | by statistics only | 仅比对统计量
sketches_only | by sketches only | 仅比对概要
largest_error | max abs {value} | 最大绝对误差 {value}
against | against {name} | 对 {name}
at | {text} at {place} | {text}，位于 {place}
slice | slice {n} | 切片 {n}
rerun | re-run just this: | 仅重新比对它：
accept | to accept it: msdump accept {directory} GLOB --reason TEXT --until DATE | 暂时接受该偏差：msdump accept {directory} GLOB --reason TEXT --until DATE
place | op {place} of {operators} | 按执行顺序第 {place} 个算子（共 {operators} 个）
place_by_name | op {place} of {operators} in name order | 按名称顺序第 {place} 个算子（共 {operators} 个）
paired | paired: {by} | 配对依据：{by}
by_map | a map entry | 映射条目
by_rule_file | the fusion file | 融合规则文件
made_by | made by | 产生于
right_made_by | right made by | 右侧产生于
right_is | {value} (right {other}) | {value}（右侧 {other}）
left_read_as | left read as {memory_format} | 左侧按 {memory_format} 读取
right_read_as | right read as {memory_format} | 右侧按 {memory_format} 读取
right_transposed | right side transposed {axes} | 右侧已按 {axes} 转置
right_reshaped | right side reshaped | 右侧已变形
piece | {side:word}: {ranges} of {shape:shape} | {side:word}：{shape:shape} 中的 {ranges}
piece_range | {start} to {last} of axis {axis} | 轴 {axis} 的 {start} 至 {last}
row_of_file | {file}, line {row} | {file}，第 {row} 行
dtype_unknown | dtype unknown, | 数据类型未知
shape_unknown | shape unknown: not opened | 形状未知：未打开
# its table of limits
metric | metric | 指标
value | value | 数值
limit | limit | 阈值
rule | rule | 规则
verdict | verdict | 结论
is_fail | FAIL | 超限
is_undefined | undefined | 无定义
is_warn | warn | 警告
is_ok | ok | 符合
is_skipped | skipped | 略过
# its other numbers
also | also | 其他
overflow | overflow | 溢出
moments | mean {mean} (right {right_mean}), deviation {deviation} (right {right_deviation}) | 均值 {mean}（右侧 {right_mean}），标准差 {deviation}（右侧 {right_deviation}）
on_both | {n} {title} the same on both sides | 两侧相同的 {title} {n} 个
on_left | {n} {title} left only | 仅左侧有的 {title} {n} 个
on_right | {n} {title} right only | 仅右侧有的 {title} {n} 个
first_differing | first that differs at {place} | 首个不同处位于 {place}
first_at | first at {place} | 首个位于 {place}
number | number | 可表示的数
overflowed | {n} left element is NaN, Inf or the largest {dtype}, where the right is finite and different | {n} left elements are NaN, Inf or the largest {dtype}, where the right is finite and different | 左侧有 {n} 个元素为 NaN、Inf 或 {dtype} 最大值，而右侧为有限且不同的值
exceed | {n} exceed {allowed} | {n} 个超出允许误差 {allowed}
orients | err / allowed: for orientation, does not decide | 误差 / 允许：仅供参考，不作判定
worst_elements | {differing} of {elements} elements differ | {elements} 个元素中有 {differing} 个不同
index | index | 下标
err_allowed | err / allowed | 误差 / 允许
statistic | statistic | 统计量
# its findings
finding_fail | fail | 超限
finding_undefined | undefined | 无定义
finding_error | error | 错误
finding_warn | warn | 警告
finding_note | note | 说明
zeros_left_out | relative errors leave out {n} element where the right is 0 and the left is not | relative errors leave out {n} elements where the right is 0 and the left is not | 相对误差未计入右侧为 0 而左侧不为 0 的 {n} 个元素
near_zero | {n} element is 0 on one side and next to 0 on the other (at most 2 of the smallest steps): relative error 0 | {n} elements are 0 on one side and next to 0 on the other (at most 2 of the smallest steps): relative error 0 | {n} 个元素一侧为 0，另一侧不超过最小正数的 2 倍：相对误差按 0 计
would_pass | would pass | 可通过
pass_with | with {limits} | 放宽到 {limits}
not_by_limits | not by limits alone ({names}); the others {text} | 仅放宽阈值不够（{names}）；其余项{text}
the_rest | the rest | 其余
differs | differs | 参数不同
more_differ | and {n} more; results.json has them all | 另有 {n} 个，全部见 results.json
arguments | arguments | 参数
on_both_sides | both sides | 两侧相同
none | none | 无
has_none | has none | 没有
looks_like | looks like | 疑似
confidence_high | high | 确定
confidence_medium | medium | 可能
# words within sentences
text | {text} | {text}
clauses | {parts:clauses} | {parts:clauses}
at_place | {why} (at {place}) | {why}（{place}）
by_rule |  ({rule}) | （{rule}）
elements | {n} element | {n} elements | {n} 个元素
only_element | its only element | 唯一的元素
unknown_place | an unknown place | 未知的位置
input | input | 输入
output | output | 输出
coordinate | {name} {value} | {name} {value}
# why a metric has no number
not_measured | it was not measured | 未测量
golden_not_measured | neither golden nor the third run has this tensor saved | 真值侧与第三侧均未保存该张量
golden_nothing_finite | no position is finite in a run and in golden | 没有在运行与真值中均为有限值的位置
golden_other_is_exact | the other run is exactly golden, and nothing of it is rounded | 另一次运行与真值完全相同，且没有舍入
left_out_by | it was left out by {rule} | 已由 {rule} 略去
no_elements | no elements | 没有元素
nothing_finite | no position where both sides are finite | 没有两侧均为有限值的位置
left_all_zero | all elements of the left side are 0 | 左侧所有元素均为 0
right_all_zero | all elements of the right side are 0 | 右侧所有元素均为 0
both_all_zero | all elements of both sides are 0 | 两侧所有元素均为 0
one_element | cosine does not apply to a tensor of one element | 余弦不适用于单元素张量
no_channels | a tensor of fewer than two axes has no channels | 少于两个轴的张量没有通道
no_such_axis | slices along axis {axis} need a tensor that has it; this one has {n} | 沿轴 {axis} 的切片需要有该轴的张量，此张量有 {n} 个轴
slices_too_small | slices along axis {axis} have {n} elements each, fewer than {least} | 沿轴 {axis} 的每个切片有 {n} 个元素，少于 {least} 个
no_units | {dtype} has no units of the last place | {dtype} 没有末位单位（ULP）
no_noise | nothing differs where both sides are finite | 两侧均为有限值之处没有差异
right_zero_everywhere | the right side is 0 and the left side is not, at every position where both are finite | 在两侧均为有限值的每个位置上，右侧为 0 而左侧不为 0
number_too_large | the number is larger than float64 can hold | 数值超出 float64 的范围
difference_too_large | the difference of two elements is larger than float64 can hold | 两个元素之差超出 float64 的范围
modulus_too_large | the modulus of an element is larger than float64 can hold | 某个元素的模超出 float64 的范围
moduli_too_small | the moduli of the right side are too small for float64 to hold exactly | 右侧的模太小，float64 无法精确表示
relative_error_too_large | a relative error is larger than float64 can hold | 某个相对误差超出 float64 的范围
range_too_large | the range of a side is larger than float64 can hold | 某一侧的取值范围超出 float64
tensors_are_complex | the tensors are complex | 张量为复数
right_zero_left_next_to_it | the right side is all 0, and the left differs from it by no more than {dtype} rounds | 右侧全为 0，左侧与其相差不超过 {dtype} 的舍入误差
bits_of_other_types | dtypes differ: {left} and {right} | 数据类型不同：{left} 与 {right}
counted_with_other_tolerance | it was counted with rtol {rtol:g} and atol {atol:g}; another tolerance needs the data: compare again | 它是按 rtol {rtol:g}、atol {atol:g} 计数的；换用其他容差需要数据：请重新比对
# shapes that do not meet
element_counts_differ | left {left:shape} has {n:elements}, right {right:shape} has {m:elements}: not the same tensor, or not the same input; name the intended pair in the map | 左侧 {left:shape} 有 {n:elements}，右侧 {right:shape} 有 {m:elements}：不是同一张量，或输入不同；请在映射中指明应配对的张量
one_length_differs | left {left:shape} and right {right:shape} differ along axis {axis} alone: another input; or other padding or steps of the same tokens (`tokens` under [msdump.shards]); or a padded axis (`crop = {axis}` in a map entry) | 左侧 {left:shape} 与右侧 {right:shape} 仅轴 {axis} 不同：输入不同；或同一批 token 的填充或步不同（[msdump.shards] 的 `tokens`）；或该轴经过填充（映射条目中的 `crop = {axis}`）
last_length_differs | left {left:shape} and right {right:shape} differ along axis {axis} alone: not the same tensor; or a padded axis (`crop = {axis}` in a map entry) | 左侧 {left:shape} 与右侧 {right:shape} 仅轴 {axis} 不同：不是同一张量；或该轴经过填充（映射条目中的 `crop = {axis}`）
dimensions_reordered | left {left:shape} and right {right:shape} have the same dimensions in another order: {remedy} | 左侧 {left:shape} 与右侧 {right:shape} 维度相同而次序不同：{remedy}
transpose_once | `transpose = {axes:index}` | `transpose = {axes:index}`
transpose_instead | `transpose = {axes:index}` instead of {applied:index} | `transpose = {axes:index}`，取代 {applied:index}
other_orders_fit | {why}; other orders fit too, since dimensions repeat: check the axes | {why}；因有相同的维度，其他轴序也相符，请核对各轴
grouped_differently | left {left:shape} and right {right:shape} have {n:elements} each, grouped differently: `reshape = true` if the values come in the same order | 左侧 {left:shape} 与右侧 {right:shape} 各有 {n:elements}，而形状不同：若值的次序相同，可写 `reshape = true`
parts_do_not_join | tensors of shapes {shapes} do not lie side by side along axis {axis}: their other axes differ; name the tensors that do, or the axis as `join = AXIS` | 形状为 {shapes} 的张量不能沿轴 {axis} 并排：其余各轴不同；请指明应并排的张量，或用 `join = 轴` 指明轴
parts_make_another | {shapes} side by side along axis {axis} are {joined:shape}, and the tensor on the {side:word} is {whole:shape}; name all its parts in their order, or the axis as `join = AXIS` | {shapes} 沿轴 {axis} 并排为 {joined:shape}，而{side:word}的张量为 {whole:shape}；请依次指明其全部组成部分，或用 `join = 轴` 指明轴
no_such_index | the tensor on the {side:word} is {whole:shape}: no [{index}] along its first axis | {side:word}的张量为 {whole:shape}：首轴上没有 [{index}]
part_absent | the entry joins {n} tensors, and {name} is not among those that were dumped here | 条目拼接 {n} 个张量，而此处没有转储 {name}
part_of_unknown_shape | the shape of {name} is not known, so nothing says which part of the other it is | 不知道 {name} 的形状，无法得知它是对侧张量的哪一部分
piece_of_other_shape | the file holds {shape:shape}, and parts of {expected:shape} were named: compare again | 文件中是 {shape:shape}，而所指的是 {expected:shape} 的部分：请重新比对
crop_of_unknown_axis | `crop = "{axis}"`: nothing says which axis of {left:shape} and {right:shape} that is; write its number, -1 for the last | `crop = "{axis}"`：无从得知它是 {left:shape} 与 {right:shape} 的哪一轴；请写轴号，-1 为末轴
crop_of_no_axis | `crop = {axis}`: left {left:shape} and right {right:shape} have no such axis in common; count from the end, -1 for the last | `crop = {axis}`：左侧 {left:shape} 与右侧 {right:shape} 没有这一共同的轴；请从末尾数起，-1 为末轴
cropped | {side:word}: {n} of {of} along axis {axis} left out, since the other side has {kept} (crop) | {side:word}：因另一侧只有 {kept}，沿轴 {axis} 略去 {of} 个中的 {n} 个（crop）
cut_over_ranks | {here} = {there} / {n} along axis {axis}: the {side:word} is cut over ranks ({mesh}) and the other side is not, so this part was not compared; the header has the entries that put it together | 沿轴 {axis} 有 {here} = {there} / {n}：{side:word}按 rank 切分（{mesh}），另一侧没有，故未比对这一部分；表头列出将其拼合的条目
# how two tensors were paired
same_name | same name | 名称相同
same_name_as | same name as {name} | 与 {name} 同名
same_scope | same module {scope} | 同一模块 {scope}
same_graph | same place in the graph | 在图中位置相同
"""
)
