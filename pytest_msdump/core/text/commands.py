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
wrote_files | wrote {n:n_files} to {place} | 已将 {n:n_files}写入 {place}
and_more_operators | and {n} more operators | 另有 {n} 个算子
nth_operator | op {place} of {operators} | 第 {place} 个算子（共 {operators} 个）
note | note: {text} | 说明：{text}
# match
op | op | 序号
paired_by | paired by | 配对依据
asked_not_paired | asked for, but not paired ({n}): | 要求配对但未配对（{n}）：
match_total | {n:n_pairs}; {paired} of {total} right tensors have a partner ({share}); without one: {left} left, {right} right | {n:n_pairs}；右侧 {total} 个张量已配对 {paired} 个（{share}）；未配对：左侧 {left} 个，右侧 {right} 个
nothing_pairs | nothing pairs: no left tensor has a partner on the right | 没有任何配对：左侧没有张量在右侧找到配对
# init, and match --suggest
init_heading | A first suite, made by msdump init. What every key means: docs/reference/suite_file.md | 由 msdump init 生成的比对配置文件。各键的含义：docs/reference/suite_file.md
init_written | {file} is written | 已写入 {file}
init_reached_all | {share} of the right tensors have a partner, and less will fail (min_coverage) | 右侧张量已配对 {share}，低于此值将不通过（min_coverage）
init_reached_less | {share} of the right tensors have a partner, and less than {wanted} will fail (min_coverage) | 右侧张量已配对 {share}，低于 {wanted} 将不通过（min_coverage）
init_reached_lost | {share} of the right tensors have a partner, and it fails until the model's own outputs are compared: {names} | 右侧张量已配对 {share}；在比对模型自身的输出之前不会通过：{names}
init_reached_kept | {share} of the right tensors have a partner, and min_coverage stays {kept} | 右侧张量已配对 {share}，min_coverage 保持 {kept}
init_limits | limits: profile {profile}, since {why} | 阈值：方案 {profile}，因为{why}
init_calibrate | limits of this very model: msdump calibrate measures them, by one extra run of the reference | 该模型自身的阈值：msdump calibrate 可通过多运行一次标杆测出
profile_mixed | the {side:word} side ran in mixed precision: {policy} | {side:word}以混合精度运行：{policy}
profile_coarse | some tensors are {dtype} | 部分张量为 {dtype}
profile_no_device | nothing says on which device the left side ran | 无从得知左侧在哪种设备上运行
profile_device | {device} may compute products of float32 with fewer bits | {device} 可能以较低精度计算 float32 的乘法
profile_said | {file} says so | {file} 如此指定
profile_cpu | both sides computed float32 on the CPU | 两侧均在 CPU 上以 float32 计算
suggested_by | suggested by msdump match: {text} | 由 msdump match 建议：{text}
suggested_entries | {entries:n_entries}, {ambiguous} ambiguous (commented out), {rest:n_right} without a suggestion | {entries:n_entries}，{ambiguous} 个无法确定（已注释），{rest:n_right}没有建议
n_entries | {n} entry | {n} entries | {n} 个条目
n_right | {n} right tensor | {n} right tensors | 右侧 {n} 个张量
stands_for | stands for {entries:n_entries}; the one that differs most: {text} | 代表 {entries:n_entries}，其中差异最大的一个：{text}
suite_fails | it was run once: {n} of {pairs} pairs fail; the port is wrong there, or the pair is: look at {names} | 已试运行一次：{pairs} 对中有 {n} 对未通过；该处移植有误，或配对有误：请查看 {names}
suite_doubtful | it fails until an entry names the partner of (min_coverage): {names} | 在有条目写明以下张量的配对之前不会通过（min_coverage）：{names}
suggested_none | no suggestion for these right tensors | 以下右侧张量没有建议
suggested_copies | these right tensors hold the values of another one that has a partner | 以下右侧张量与另一个已配对的张量数值相同
suggested_unread | not looked at | 未查看
ambiguous_against | ambiguous: {name}: values are those of another tensor than names or order say; has the port mixed them up? Then take the entry whose names are right, which fails until the port is mended | 无法确定：{name}：数值与名称或次序所指的张量不符；移植模型是否将两者弄混？若是，请采用名称正确的条目，移植模型修正之前它不会通过
ambiguous_one | ambiguous: {name} may be this one | 无法确定：{name} 可能是以下这一个
ambiguous_among | ambiguous: {name} may be any of these {n} | 无法确定：{name} 可能是以下 {n} 个之一
# calibrate
limits_rose | {n} limits rose: {reason} | {n} 个阈值有所放宽：{reason}
limits_written | {file} is written: {n} tensors, {limited} with limits | 已写入 {file}：{n} 个张量，其中 {limited} 个有阈值
multipliers | multipliers: {judged} | 倍数：{judged}
kind_model | {n} {kind} ({m:g} x) | {kind} {n} 个（{m:g} 倍）
kind_forward_small | forward small | 前向小张量
kind_forward_large | forward large | 前向大张量
kind_gradient_small | gradient small | 小梯度
kind_gradient_large | gradient large | 大梯度
limits | limits | 阈值
unstable | {n} unstable: integers that a perturbed or control run flips | {n} 个不稳定：扰动运行或对照运行使其翻转的整数
chaotic | {n} chaotic: judged by the profile, since rounding alone changes them by any amount | {n} 个混沌：仅舍入即可使其任意变化，故按阈值方案判定
looser_limits | {n} with a limit more than {most:g} × looser than profile default, which holds with --accept-looser of compare only: {names} | {n} 个的阈值比 default 方案宽松 {most:g} 倍以上，仅在 compare 使用 --accept-looser 时生效：{names}
# accept
accepted | accepted until {date} in {file}: | 已接受至 {date}，写入 {file}：
# replay
ACCUSED | ACCUSED | 有误
DAMAGED | DAMAGED | 已损坏
more_accused | and {n} more accused output; --all lists them | and {n} more accused outputs; --all lists them | 另有 {n} 个有误的输出；--all 可全部列出
op_at | op {n} | 第 {n} 个算子
output_slot | output {n} | 输出 {n}
replay_worst | worst at {place}: stored {stored}, from its inputs {expected} | 最差处 {place}：落盘值 {stored}，由其输入算得 {expected}
score_exact | {n:elements} of {elements} differ; they have to be equal | {elements} 个元素中有 {n} 个不同；本应相等
score_flips | {share} % of {n:elements} are not rounded correctly; limit 0.1 % | {n:elements}中有 {share} % 未正确舍入；阈值 0.1 %
score_sum | off by {value:number} rounding units of its terms; limit {limit:limit} | 偏离其各项之和的 {value:number} 个舍入单位；阈值 {limit:limit}
score_approximation | off by {value:number} rounding units of its size; limit {limit:limit} | 偏离其大小的 {value:number} 个舍入单位；阈值 {limit:limit}
calls_not_replayed | not replayed: {n} call | not replayed: {n} calls | 未重放：{n} 次调用
not_replayable | {name}: not replayable: {why} | {name}：无法重放：{why}
likewise | likewise {names} | 同样：{names}
replayed_calls | replayed {n} of {total:n_calls}, {outputs:n_outputs}{undumped} | 已重放 {total:n_calls}中的 {n} 次，共 {outputs:n_outputs}{undumped}
replay_undumped | ; {n:n_operators} of the graphs without a dumped output | ；计算图中有 {n:n_operators}没有落盘的输出
replay_nothing | {text}: NOTHING WAS JUDGED{why} | {text}：没有判定任何算子{why}
replay_without_graph | ; the dump has no graph of its run: name a saved .ir with --graph FILE | ；该 dump 没有其运行的计算图：请用 --graph FILE 指定保存的 .ir
replay_accused | {text}; {n:n_operators} accused{damaged} | {text}；{n:n_operators}有误{damaged}
replay_none_accused | {text}; no operator accused{damaged} | {text}；没有算子有误{damaged}
and_damaged | , {n:n_tensors} damaged | ，{n:n_tensors}已损坏
# files that are written: convert, sketch, rename, prototxt, report, details
converted_to | converted {n:n_tensors}: {place} | 已转换 {n:n_tensors}：{place}
converted | converted {n} of {total:n_files}: {written:n_files} in {place} | 已转换 {total:n_files}中的 {n} 个：{place} 中有 {written:n_files}
wrote_of | wrote {n} of {total:n_files} into {place} | 已将 {total:n_files}中的 {n} 个写入 {place}
ran_user_code | ran user code: {names} | 已运行用户代码：{names}
convert_failed | FAILED {path}: {why}{more} | 失败 {path}：{why}{more}
convert_more |  (and {n} more of this file) | （此文件另有 {n} 个）
convert_failures | {n:n_files} of {total} failed; all reasons are in {place} | {total} 个文件中有 {n} 个失败；全部原因见 {place}
left_out_no_dump | left out, no dump files: {n:n_files}, e.g. {name} | 已略去非 dump 文件：{n:n_files}，如 {name}
left_out_other_names | left out, of other names: {n:n_files}, e.g. {name} | 已略去名称不符者：{n:n_files}，如 {name}
sketched | {n:n_tensors} in {place}, {size} MB | {place} 中有 {n:n_tensors}，{size} MB
would_rename | {n:n_files} would be renamed; nothing was changed | 将重命名 {n:n_files}；未作任何改动
renamed | {n:n_files} renamed; to take it back: {line} | 已重命名 {n:n_files}；如需撤销：{line}
renamed_back | {n:n_files} renamed back | 已恢复 {n:n_files}的原名
renamed_none | every file has its old name already | 所有文件均已是原名
left_alone_named | left alone: {n:n_files} with such a name already | 未改动：{n:n_files}，其名称已符合
left_alone_others | left alone: {n:n_files} that the pattern does not fit: {names} | 未改动：{n:n_files}，与模式不符：{names}
tops_renamed | wrote {file} ({n} in-place top renamed) | wrote {file} ({n} in-place tops renamed) | 已写入 {file}（重命名 {n} 个 in-place 的 top）
tops_none | wrote {file} (no layer is in place: a copy) | 已写入 {file}（没有 in-place 层：与原文件相同）
holds_bytes_of | {layer}: its file holds the bytes of {over}, which is in place on {blob} | {layer}：其文件保存的是 {over} 的数据，后者在 {blob} 上 in-place 执行
make_reference_again | make the reference again with what 'msdump prototxt {file}' writes | 请用 'msdump prototxt {file}' 写出的网络重新生成标杆数据
holds_no_bytes_of | no layer holds the bytes of another in place on it | 没有层保存了在其上 in-place 执行的层的数据
no_browser | no browser was found to open it; open {file} | 没有找到可用的浏览器；请自行打开 {file}
details_of | details of {name}: {file} | {name} 的逐元素明细：{file}
more_without_details | {n} more failing tensors have no details; --detail N for the first N | 另有 {n} 个未通过的张量没有逐元素明细；--detail N 可写出前 N 个
details_of_run | details of {n} failing tensor: {folder} | details of {n} failing tensors: {folder} | {n} 个未通过张量的逐元素明细：{folder}
details_for_no_more | none for {n} more | 另有 {n} 个没有
details_left_out | left out, since {n} failing tensor of this run has its already; --msdump-detail={more} for more | left out, since {n} failing tensors of this run have theirs already; --msdump-detail={more} for more | 已略去，因为本次运行已有 {n} 个未通过的张量写出了明细；--msdump-detail={more} 可写出更多
no_details | no details: {why} | 没有逐元素明细：{why}
# repeat
repeat_equal | {runs:n_runs}, {tensors:n_tensors} each: all equal | {runs:n_runs}，每次 {tensors:n_tensors}：全部相同
repeat_differ | {runs:n_runs}, {tensors:n_tensors} each: {n} differs between runs | {runs:n_runs}, {tensors:n_tensors} each: {n} differ between runs | {runs:n_runs}，每次 {tensors:n_tensors}：{n} 个在各次运行之间不同
repeat_given | the runs were not given the same: {names} | 各次运行得到的输入或权重不同：{names}
repeat_alone | not all runs have the same operators: {names} | 各次运行的算子不完全相同：{names}
repeat_alone_left | not in run {run} | 不在第 {run} 次运行中
repeat_alone_right | in run {run}, not in run 1 | 在第 {run} 次运行中，不在第 1 次中
repeat_run | run {numbers} | 第 {numbers} 次运行
repeat_runs | runs {numbers} | 第 {numbers} 次运行
repeat_lead_first | first: {text} | 最先：{text}
repeat_lead_further | also: {text} | 其他：{text}
repeat_lead_apart | apart: {text} | 另列：{text}
repeat_differs | {name} differs from run 1 in {runs}{line} | {name} 在{runs}中与第 1 次不同{line}
repeat_made_at | , made at {place} | ，产生于 {place}
repeat_passing | all of its inputs that were compared are equal | 其已比对的输入均相同
repeat_first | the first to differ in execution order; nothing shows what feeds it | 按执行顺序最先不同；无法得知其输入来自何处
repeat_but_given | {why}, but the runs were not given the same | {why}，但各次运行得到的输入或权重不同
repeat_weight | a weight, and nothing that was recorded changed it: are its initial values seeded? | 这是权重，且采集到的算子均未改变它：初始值是否设置了随机种子？
repeat_unseeded | random by design: seed it ({problem}) | 本就随机：请设置随机种子（{problem}）
repeat_seeded | random by design: its seeds are equal; is each run seeded before it? | 本就随机：随机种子相同；每次运行是否都在此之前设置了种子？
repeat_no_seed | no seed was recorded | 未记录随机种子
repeat_seeds_differ | seeds differ from run 1 in {runs} | {runs}的随机种子与第 1 次不同
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
