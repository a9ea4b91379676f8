"""Why a tensor has no partner, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

UNMATCHED = read_rows(
    """
# why a tensor has no partner: what a rule file says
inserted | inserted by the compiler: no counterpart in the original model | 由编译器插入：原始模型中没有对应的算子
inner | inner node of a many-to-many fusion | 多对多融合的内部节点
fused | fused into {op}: its own output no longer exists in the compiled model | 已融合到 {op}：编译后的模型中不再有它自己的输出
no_origin | {rule} names no tensor of the original model for this output of {op} | {rule} 没有为 {op} 的此输出给出原始模型的张量
no_slot | {rule} lists no {io:word} {slot} of {op} | {rule} 没有列出 {op} 的 {io:word} {slot}
unconnected | {rule} says that nothing feeds input {slot} of {op} | {rule} 表明 {op} 的输入 {slot} 没有来源
unknown_producer | {rule} has no operator {op}, which should feed this input | {rule} 中没有产生此输入的算子 {op}
circle | {rule} has a loop of Cast and TransData operators at {op} | {rule} 在 {op} 处沿 Cast 和 TransData 算子成环
strided_slice | the compiler changed the graph around this strided slice: no counterpart in the original model | 编译器改动了此 strided slice 周围的图：原始模型中没有对应的算子
l1_fusion | L1 fusion group {group} works on slices of tensors: only its first and last operator are compared | L1 融合组 {group} 在张量的切片上计算：只比对首个和末个算子
l2_fusion | L2 fusion group {group} changed the structure of the graph: no counterpart in the original model | L2 融合组 {group} 改变了图的结构：原始模型中没有对应的算子
aipp | AIPP changes the input on the device, so {op} is not the input of the original model | AIPP 在设备上改变了输入，因此 {op} 的值不是原始模型的输入
of_side | {name} on the {side:word} side: {why} | {side:word}的 {name}：{why}
quant_output | output of a quantisation: comparable only after dequantisation | 量化的输出：反量化之后才可比对
quantised | between quantisation and dequantisation: comparable only after dequantisation | 位于量化与反量化之间：反量化之后才可比对
quantised_input | fed by a quantised output: comparable only after dequantisation | 来自量化的输出：反量化之后才可比对
dequant_input | input of a dequantisation: its numbers are comparable only after they are dequantised | 反量化的输入：反量化之后才可比对
data | Data operators are not executed, so they are not dumped | Data 算子不执行，因此不落盘
const | constants are not executed, so they are not dumped | 常量不执行，因此不落盘
no_result | operators of this type write no result, so they are not dumped | 此类算子没有输出结果，因此不落盘
not_executed | operators of this type are not executed on AI Core or AI CPU, so they are not dumped | 此类算子不在 AI Core 或 AI CPU 上执行，因此不落盘
right_input | with a rule file, inputs of the left side pair with the outputs that feed them | 使用规则文件时，左侧的输入与产生它的输出配对
fed_by | fed by {op}: {why} | 来自 {op}：{why}
not_dumped_operator | the left side did not dump {op} | 左侧没有 {op} 的 dump 数据
unknown_output | {rule} does not know output {slot} of {name} | {rule} 没有 {name} 的输出 {slot}
names_written_alike | ambiguous: {names} of {rule} have the same file name {name}; use a map entry | 有歧义：{rule} 的 {names} 在文件名中均写作 {name}；请用映射条目指明
rule_ambiguous | ambiguous: {rule} pairs it with {name}, which may be {names} on the right side | 有歧义：{rule} 将其与 {name} 配对，而右侧可能是 {names}
# why a tensor has no partner: names and places
no_operator_of_that_name | no operator of that name on the {side:word} side | {side:word}没有此名称的算子
no_operator_named | no operator {name} on the {side:word} side | {side:word}没有算子 {name}
no_operator_named_at | no operator {name} on the {side:word} side at ({place}) | {side:word}在（{place}）处没有算子 {name}
operator_left_out_by_entry | {name} on the {side:word} side is only at {places}, which {rule} leaves out | {side:word}的 {name} 仅在 {places}，而 {rule} 不包含这些位置
side_is_empty | the {side:word} side is empty | {side:word}为空
older_run | older run | 较早的一次运行
same_address | another tensor of this side has the same address at the same place | 本侧另有张量的地址和位置与之相同
aligned_with | {value} (aligned with {other}) | {value}（对应 {other}）
elsewhere | the {side:word} side has it in {theirs:and} only, not in {ours:and}; use align to pair them | {side:word}仅在 {theirs:and} 有它，而不在 {ours:and}；可用 align 指定对应关系
other_occurrence | the {side:word} side has it in {theirs:and} only, not in {ours:and} | {side:word}仅在 {theirs:and} 有它，而不在 {ours:and}
only_at | the {side:word} side has it only at {places}, not at ({place}); use align to pair them | {side:word}仅在 {places} 有它，而不在（{place}）；可用 align 指定对应关系
only_at_unselected | the {side:word} side has it only at {places}, which the selection leaves out | {side:word}仅在 {places} 有它，而这不在所选范围内
no_such_slot | {name} on the {side:word} side has no {slot}; it has {slots} | {side:word}的 {name} 没有 {slot}，仅有 {slots}
no_tensors | no tensors | 没有张量
left_out_by_selection | the selection leaves out {name} on the {side:word} side | {side:word}的 {name} 不在所选范围内
paired_with_other | {name} on the {side:word} side is paired with {partner} ({how}) | {side:word}的 {name} 已与 {partner}（{how}）配对
paired_by_entry | {name} on the {side:word} side is paired by a map entry | {side:word}的 {name} 已由映射条目配对
paired_otherwise | {name} on the {side:word} side is already paired | {side:word}的 {name} 已配对
already_paired | {name} on the {side:word} side is already paired with {partner} by {rule} | {side:word}的 {name} 已由 {rule} 与 {partner} 配对
not_selected | {name} on the {side:word} side is not selected | {side:word}的 {name} 未选中
kept_for_entry | {name} on the {side:word} side is kept for a map entry: {why} | {side:word}的 {name} 留给映射条目：{why}
name_is_ambiguous | {name} on the {side:word} side is left alone, since its name is ambiguous | {side:word}的 {name} 未参与配对，因其名称有歧义
returns_inner | it returns the output of a module inside it, which counts in its place | 它返回其内部某个模块的输出，以该模块计入
passed_on | {type} passes its input through, so it does not count in coverage | {type} 透传其输入，因此不计入覆盖率
outputs_alike | {n} outputs of {name} on the {side:word} have one shape, and the other side gives out {m}: which of them it is nothing says | {side:word}的 {name} 有 {n} 个形状相同的输出，另一侧只有 {m} 个：无从得知是其中哪一个
inside_scope | it is inside of a module whose output is compared | 它位于某个模块内部，所比对的是该模块的输出
norm_folded | the {side:word} side has no such tensor: the normalisation after it is folded in, and its output is compared | {side:word}没有这样的张量：其后的归一化已折叠进来，所比对的是归一化的输出
weight_folded | the {side:word} side has the next normalisation folded into this weight; the output of that is compared | {side:word}把其后的归一化折叠进了该权重；所比对的是归一化的输出
scope_called | {scope} is called {n} times on the {side:word} side; name one call, the first as {scope}@0 | {scope} 在{side:word}被调用 {n} 次；请指明是哪一次，第一次写作 {scope}@0
scope_calls_unknown | {scope} is called several times, and it is unknown to which call each operator of the {side:word} side belongs | {scope} 被多次调用，无法判断{side:word}的各算子属于哪次调用
scope_calls_mixed | other operators run between those of {scope} on the {side:word} side, and no graph shows its output | {side:word}的 {scope} 的算子之间还运行了其他算子，且没有计算图说明其输出
scope_calls_differ | {scope} is called {ours} times on the left and {theirs} times on the right | {scope} 在左侧调用 {ours} 次，在右侧调用 {theirs} 次
scope_kinds_differ | {scope} is a different kind of module on each side: {ours} on the left, {theirs} on the right | {scope} 在两侧种类不同：左侧为 {ours}，右侧为 {theirs}
scope_slots_differ | {scope} has a different number of outputs on each side | {scope} 在两侧的输出个数不同
root_several_leave | several operators of the {side:word} side make outputs of the model | {side:word}有多个算子产生模型的输出
own_outputs | the model's own outputs | 模型自身的输出
outputs_of_other_number | the model's own outputs: the left has {ours}, the right {theirs} | 它是模型自身的输出：左侧有 {ours} 个，右侧有 {theirs} 个
outputs_of_other_shapes | the model's own outputs: at one place the left has shape {left}, the right {right} | 它是模型自身的输出：同一位置上左侧的形状为 {left}，右侧为 {right}
outputs_of_other_names | the model's own outputs have other names: {ours} is where {theirs} is on the right | 它是模型自身的输出：两侧名称的顺序不同，{ours} 处于 {theirs} 的位置
outputs_without_order | the order of the model's own outputs is unknown on one side, and several have one shape | 它是模型自身的输出：有一侧未说明输出的顺序，且无法由形状区分
scope_several_leave | several operators of {scope} on the {side:word} side make outputs of the module | {side:word}的 {scope} 中有多个算子产生该模块的输出
scope_end_unknown | the output of {scope} on the {side:word} side is unknown: an operator that may belong to it has no scope | {side:word}的 {scope} 的输出未知：可能属于它的某个算子没有作用域
scope_shapes_differ | {scope} has different shapes: {left:shape} on the left, {right:shape} on the right | {scope} 的形状不同：左侧为 {left:shape}，右侧为 {right:shape}
scope_layout_unknown | more than one order of axes fits {scope}: {left:shape} on the left, {right:shape} on the right | {scope} 有多种轴序均可对应：左侧为 {left:shape}，右侧为 {right:shape}
numbers_differ | {n} numbers in {scope} stand for different kinds of operators on the two sides, so such names pair nothing | {scope} 中有 {n} 个编号在两侧指不同种类的算子，因此不按这些名称配对
share_a_name | ambiguous: {ours} on the left and {theirs} on the right share a name; use a map entry | 有歧义：左侧的 {ours} 与右侧的 {theirs} 同名；请用映射条目指明
entry_ambiguous | ambiguous: the entry names {ours} on the left and {theirs} on the right; write TYPE.OP to pick one | 有歧义：该条目在左侧指 {ours}、在右侧指 {theirs}；可用 TYPE.OP 选定
entry_without_slots | no slots to pair at ({place}): {parts:clauses} | 在（{place}）处没有可配对的输入或输出：{parts:clauses}
has_slots | {name} on the {side:word} side has {slots} | {side:word}的 {name} 有 {slots}
has_slots_asked | {name} on the {side:word} side has {slots} (asked for: {slot}) | {side:word}的 {name} 有 {slots}（所求为 {slot}）
entry_names_nothing | neither side has a tensor that {rule} names | 两侧都没有 {rule} 所指的张量
of_operator | {name}: {why} | {name}：{why}
rule_pairs_unselected | {rule} pairs it with {name}, which the selection leaves out | {rule} 将其与 {name} 配对，而后者不在所选范围内
rule_pairs_undumped | {rule} pairs it with {name}, which the {side:word} side did not dump | {rule} 将其与 {name} 配对，而{side:word}没有后者的 dump 数据
rule_pairs_taken | {rule} pairs it with {name}, which has no tensor left for this slot | {rule} 将其与 {name} 配对，而后者没有可用于此输出的张量
rule_pairs_other_slots | {rule} pairs it with {name}, but the {side:word} side has only {slots} | {rule} 将其与 {name} 配对，而{side:word}仅有 {slots}
rule_pairs_no_output | {rule} pairs it with {name}, but the {side:word} side has no such output of it | {rule} 将其与 {name} 配对，而{side:word}没有它的此输出
rule_pairs_but | {rule} pairs it with {name}: {why} | {rule} 将其与 {name} 配对：{why}
# why a tensor has no partner: what the other run was set to dump
not_dumped_by_script | not dumped: the {side:word} run dumped only what its script names with set_dump | 未落盘：{side:word}只落盘脚本用 set_dump 指定的算子
not_dumped_no_overflow | not dumped: the {side:word} run dumped only operators that overflowed (op_debug_mode 3 in {source}) | 未落盘：{side:word}只落盘发生溢出的算子（{source} 中 op_debug_mode 为 3）
not_dumped_no_exception | not dumped: the {side:word} run dumped only inputs of an operator with an exception (op_debug_mode 4 in {source}) | 未落盘：{side:word}只落盘发生异常的算子的输入（{source} 中 op_debug_mode 为 4）
not_dumped_iteration | not dumped: iteration {iteration} is not selected on the {side:word} side (iteration "{iterations}" in {source}) | 未落盘：{side:word}没有选择迭代 {iteration}（{source} 中 iteration 为 "{iterations}"）
not_dumped_io | not dumped: {io:word}s only on the {side:word} side (input_output in {source}) | 未落盘：{side:word}只落盘{io:word}（{source} 中的 input_output）
not_dumped_kernels | not dumped: the kernels list of the {side:word} side does not name it ({kernels} in {source}) | 未落盘：{side:word}的 kernels 列表中没有它（{source} 中的 {kernels}）
some_kernels_dumped | no operator of that name on the {side:word} side, which dumped only what its kernels list names ({kernels} in {source}) | {side:word}没有此名称的算子，它只落盘 kernels 列表中的算子（{source} 中的 {kernels}）
not_dumped_text | not dumped: {type} takes a string, which MindSpore cannot dump | 未落盘：{type} 的输入是字符串，MindSpore 无法落盘
not_dumped_empty | not dumped: it is empty, {shape:shape} in the graph, and MindSpore writes no empty tensors | 未落盘：它是空张量（图中为 {shape:shape}），MindSpore 不落盘空张量
not_dumped_dtype | not dumped: {dtype}, which MindSpore could not dump on the {side:word} side | 未落盘：{side:word}的 MindSpore 无法落盘 {dtype}
not_dumped_ended | not dumped: it is in a graph of the {side:word} run, and no setting leaves it out: the run ended early, or the file was deleted | 未落盘：{side:word}的计算图中有它，也没有配置将其排除：可能运行提前结束，或文件已被删除
"""
)


# Notes on the files of a dump, in English and in Chinese; dumps and results hold them as English sentences.

NOTES = read_rows(
    """
note_made_of_dumps | {n:n_files} made of dumps that are still beside them, which are read instead, e.g. {example} | {n:n_files}由仍在旁边的 dump 文件转换而来，改读后者，如 {example}
note_overflow_files | {n:n_files} of the overflow check (Opdebug), which are not tensors, e.g. {example} | {n:n_files}为溢出检测文件（Opdebug），不是张量，如 {example}
note_no_name | {n:n_files} with a number for a name that no mapping.csv explains, e.g. {example} | {n:n_files}以数字为名，且没有 mapping.csv 说明，如 {example}
note_task_type | {n:n_files} with a task type other than 0 to 4 in the name, which are left out, e.g. {example} | {n:n_files}名称中的任务类型不在 0 至 4 之内，已略去，如 {example}
note_other_kind | {n:n_files} of another dump format beside Ascend dumps, left out: give them a folder of their own; e.g. {example} | {n:n_files}为另一种 dump 格式，与昇腾 dump 文件混放，已略去：请放入单独的文件夹；如 {example}
note_header_unread | {n:n_files} of which the header cannot be read, e.g. {example} | {n:n_files}的文件头无法读取，如 {example}
note_without_tensors | {n:n_files} without a tensor, e.g. {example} | {n:n_files}没有张量，如 {example}
note_untyped | {n:n_files} with buffers or workspaces, which are not tensors, left out, e.g. {example} | {n:n_files}含缓冲区或工作空间，不是张量，已略去，如 {example}
note_trailing | {n:n_files} with more bytes than the header describes, which were not read, e.g. {example} | {n:n_files}比文件头所描述的更长，多出的字节未读取，如 {example}
note_first_thread | {n:n_files} of operators in threads (FFTS+), whose inputs are the first thread's alone, e.g. {example} | {n:n_files}属于多线程（FFTS+）算子，其输入仅为第一个线程的，如 {example}
note_unnamed | {n:n_files} of calls that are in no dump.json, e.g. {example}: names alone say what they are, and nothing in which order; was the run killed? | {n:n_files}属于任何 dump.json 都没有的调用，如 {example}：只能从名称得知，且没有次序；运行是否被中止？
note_few_digits | {n:n_files} of texts with few digits, e.g. {example}: compared by largest and smallest element and mean; dump with use_repr=False to compare elements | {n:n_files}为位数很少的文本，如 {example}：按最大、最小元素和均值比对；若要逐元素比对，请以 use_repr=False 进行 dump
note_earlier_graph | {file} is not the graph that ran: operators may have been renamed, fused or removed since | {file} 不是实际运行的计算图：算子此后可能已改名、融合或删除
note_graph_of_none | {file}: no operator of the dump is in it | {file}：其中没有此 dump 的算子
note_graph_lacks | {file} does not have {names}: their lines and shapes are not known | {file} 中没有 {names}：其代码行和形状未知
note_renumbered | {name} of the graph is written as {file} in file names | 图中的 {name} 在文件名中写作 {file}
note_renumbered_more | {name} of the graph is written as {file} in file names, and {more} more are numbered differently | 图中的 {name} 在文件名中写作 {file}，另有 {more} 个编号不同
note_two_names | {names} are both written as {name}: its true name is unknown | {names} 均写作 {name}：无法得知其真名
note_order_unread | {why}; operators of graph {graph} are ordered by time | {why}；计算图 {graph} 的算子按时间排序
note_rerun | re-run into the same directory: {n:n_older} left out | 曾在同一目录中重新运行：已略去 {n:n_older}
note_rerun_of | re-run into the same directory: {n:n_older} left out of {where} | 曾在同一目录中重新运行：已略去 {where} 的 {n:n_older}
n_older | {n} older file | {n} older files | {n} 个较早的文件
note_partial | the directory holds a partial second run: {newer} of {tensors} tensors; {n:n_older} left out, what the second run does not hold is compared from the run before | 目录中有一次不完整的第二次运行：{tensors} 个张量中的 {newer} 个；已略去 {n:n_older}，第二次运行没有的取自前一次
note_partial_of | the directory holds a partial second run: {newer} of {tensors} tensors of {where}; {n:n_older} left out, what the second run does not hold is compared from the run before | 目录中有一次不完整的第二次运行：{where} 的 {tensors} 个张量中的 {newer} 个；已略去 {n:n_older}，第二次运行没有的取自前一次
note_split | every operator of {where} was dumped several times into one directory (a training without data sinking): split by time into the iterations {first} to {last} | {where} 的每个算子在同一目录中落盘多次（非数据下沉的训练）：已按时间划分为迭代 {first} 至 {last}
note_overflow | the device's own check reports overflow of {names} | 设备侧溢出检测报告溢出：{names}
note_overflow_lost | the device's own check reports overflow of {names}, of which nothing was dumped | 设备侧溢出检测报告溢出：{names}，但没有落盘其任何数据
note_statistics_only | {n} tensor was saved as statistics only, e.g. {name} | {n} tensors were saved as statistics only, e.g. {name} | {n} 个张量只保存了统计量，如 {name}
note_cache_reused | cache: {reused} of {n} pair from earlier runs | cache: {reused} of {n} pairs from earlier runs | 缓存：{n} 对张量中有 {reused} 对取自先前的运行
note_cache_unwritten | cache: {where}: cannot be written ({why}); the next run measures again | 缓存：{where} 无法写入（{why}）；下次运行将重新计算
note_cache_unread | cache: {file} cannot be read ({why}) and is left alone | 缓存：{file} 无法读取（{why}），保持原样
note_cache_damaged | cache: {file} is damaged; what cannot be read of it is measured again | 缓存：{file} 已损坏；其中无法读取的部分将重新计算
note_worker_ended | a worker process ended early, killed perhaps: {n} pair was compared again | a worker process ended early, killed perhaps: {n} pairs were compared again | 有工作进程提前结束，可能是被终止：已重新比对 {n} 对张量
note_incomplete | incomplete: {why} | 不完整：{why}
note_no_order | listed by name: nothing in it says which operator ran first | 按名称列出：其中没有说明算子的执行先后
note_counted | numbers in the names of its {n} files are the order, and no part of the names, e.g. {example} | {n} 个文件名中的编号表示先后，不属于名称，例如 {example}
note_overflow_dump | an overflow dump (op_debug_mode 3): it has operators that overflowed, and no others | 溢出 dump（op_debug_mode 3）：只有溢出的算子
note_exception_dump | an exception dump (op_debug_mode 4): it has the inputs of an operator that raised an exception | 异常 dump（op_debug_mode 4）：只有抛出异常的算子的输入
note_exception_on | an exception dump (op_debug_mode 4), of which MindSpore writes Parameters only on {device} | 异常 dump（op_debug_mode 4），MindSpore 在 {device} 上只写出 Parameter
note_sampled_dump | a sampled dump: of each tensor at most {sample} elements along its first axis were saved | 采样 dump：每个张量沿第一轴最多保存 {sample} 个元素
note_ended_early | the run ended before it dumped a tensor: it left only its dump configuration | 运行在落盘任何张量之前已结束：只留下其 dump 配置
note_no_time | {n:n_files} without a time at the end of the name (15 or 16 digits, microseconds since 1970): each is an operator of its own name, e.g. {op} of {file}; a counter, or a time in another unit? `msdump rename` mends such names | {n:n_files}的名称末尾没有时间（15 或 16 位，自 1970 年起的微秒数）：各自作为单独命名的算子，如 {file} 的 {op}；是计数器，还是其他单位的时间？`msdump rename` 可修正这类名称
note_graph_unread | {why}; source lines and shapes of graph {graph} are not known | {why}；计算图 {graph} 的代码行和形状未知
note_structure | it has the structure of the network alone (task structure): no tensors were saved, and no statistics | 只有网络结构（task 为 structure）：没有保存张量，也没有统计量
note_no_hashes | no call has hashes; record within DebugMode.log_tensor_hashes() | 没有任何调用带有哈希；请在 DebugMode.log_tensor_hashes() 中采集
note_early_hashes | {file}: output of {n} collective was hashed before it had arrived, and is left out; wait_tensor has it | {file}: outputs of {n} collectives were hashed before they had arrived, and are left out; wait_tensor has them | {file}：{n} 个集合通信的输出在到达之前已计算哈希，已略去；见 wait_tensor
note_calls_unread | {file} has {n} call that cannot be read, left out | {file} has {n} calls that cannot be read, left out | {file} 中有 {n} 个调用无法读取，已略去
"""
)
