"""Notes on the files of a dump, in English and in Chinese; dumps and results hold them as English sentences."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

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
note_overflow_dump | an overflow dump (op_debug_mode 3): it has operators that overflowed, and no others | 溢出 dump（op_debug_mode 3）：只有溢出的算子
note_exception_dump | an exception dump (op_debug_mode 4): it has the inputs of an operator that raised an exception | 异常 dump（op_debug_mode 4）：只有抛出异常的算子的输入
note_exception_on | an exception dump (op_debug_mode 4), of which MindSpore writes Parameters only on {device} | 异常 dump（op_debug_mode 4），MindSpore 在 {device} 上只写出 Parameter
note_sampled_dump | a sampled dump: of each tensor at most {sample} elements along its first axis were saved | 采样 dump：每个张量沿第一轴最多保存 {sample} 个元素
note_ended_early | the run ended before it dumped a tensor: it left only its dump configuration | 运行在落盘任何张量之前已结束：只留下其 dump 配置
note_no_time | {n:n_files} of which the last number is no time (15 or 16 digits, microseconds since 1970): each is an operator of its own name, e.g. {op} of {file}; a counter, or a time in another unit? `msdump rename` mends such names | {n:n_files}的最后一个数字不是时间（15 或 16 位，自 1970 年起的微秒数）：各自作为单独命名的算子，如 {file} 的 {op}；是计数器，还是其他单位的时间？`msdump rename` 可修正这类名称
note_graph_unread | {why}; source lines and shapes of graph {graph} are not known | {why}；计算图 {graph} 的代码行和形状未知
note_structure | it has the structure of the network alone (task structure): no tensors were saved, and no statistics | 只有网络结构（task 为 structure）：没有保存张量，也没有统计量
note_no_hashes | no call has hashes; record within DebugMode.log_tensor_hashes() | 没有任何调用带有哈希；请在 DebugMode.log_tensor_hashes() 中采集
note_early_hashes | {file}: output of {n} collective was hashed before it had arrived, and is left out; wait_tensor has it | {file}: outputs of {n} collectives were hashed before they had arrived, and are left out; wait_tensor has them | {file}：{n} 个集合通信的输出在到达之前已计算哈希，已略去；见 wait_tensor
note_calls_unread | {file} has {n} call that cannot be read, left out | {file} has {n} calls that cannot be read, left out | {file} 中有 {n} 个调用无法读取，已略去
"""
)
