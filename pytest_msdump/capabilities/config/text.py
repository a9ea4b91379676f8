"""Sentences on dump configurations, in English and in Chinese."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
config_kernels_empty | kernels is empty, so dump_mode 1 dumps every operator | kernels 为空，因此 dump_mode 1 会 dump 所有算子
config_kernels_idle | kernels counts with dump_mode 1 only; dump_mode 0 dumps every operator | kernels 仅在 dump_mode 为 1 时生效；dump_mode 0 会 dump 所有算子
config_set_dump_cpu | dump_mode 2 (set_dump) is refused on CPU; use 0 or 1 | CPU 上拒绝 dump_mode 2（set_dump）；请用 0 或 1
config_set_dump_debug | dump_mode 2 counts with op_debug_mode 0 only | dump_mode 2 仅在 op_debug_mode 为 0 时生效
config_debug_cpu | op_debug_mode {debug} does not work on {mode}: {what} | op_debug_mode {debug} 在 {mode} 上不起作用：{what}
config_debug_as_3 | op_debug_mode {debug} is taken for 3 | op_debug_mode {debug} 按 3 处理
config_debug_4_ge | op_debug_mode 4 is not there for the GE dump | GE dump 不支持 op_debug_mode 4
config_mode_as_0 | dump_mode counts as 0 with op_debug_mode {debug} | op_debug_mode 为 {debug} 时 dump_mode 按 0 处理
config_debug_3_both | op_debug_mode 3 saves inputs and outputs alike | op_debug_mode 3 对输入和输出一律保存
config_debug_4_inputs | op_debug_mode 4 saves inputs only | op_debug_mode 4 只保存输入
config_debug_iterations | op_debug_mode {debug} looks at all iterations | op_debug_mode {debug} 检查所有迭代
config_statistics_debug | statistics are saved with op_debug_mode 0 only | 仅在 op_debug_mode 为 0 时保存统计量
config_overflow_number | overflow_number goes with op_debug_mode 3 only; leave it out | overflow_number 仅用于 op_debug_mode 3；请去掉
config_category_unknown | statistic_category knows no {names}; known: {known} | statistic_category 没有 {names}；可用：{known}
config_statistics_cpu | statistics are refused on CPU; set saved_data to tensor | CPU 上拒绝统计量；请将 saved_data 设为 tensor
config_statistics_npy | statistics need file_format npy in mode {mode}, not bin | 模式 {mode} 下统计量要求 file_format 为 npy，而不是 bin
config_statistics_host | statistics are computed on the host in mode {mode} | 模式 {mode} 下统计量在 host 侧计算
config_not_of_device | {names} cannot be had from the device | device 侧不提供 {names}
config_sample_number | sample_num must be 1 or more | sample_num 必须大于等于 1
config_enable_idle | enable: false does not switch the dump off on {mode} | 在 {mode} 上 enable: false 并不会关闭 dump
config_no_effect | {key} has no effect in mode {mode} | {key} 在模式 {mode} 下不起作用
config_both_dumps | both dumps are enabled: the synchronous one alone takes place | 同步与异步 dump 均已开启：只执行同步 dump
config_first_cpu | before 1.5 there is no dump on CPU | 1.5 之前 CPU 上没有 dump
config_first_gpu | before 1.5, GPU dumps outputs only | 1.5 之前 GPU 只 dump 输出
config_sink_size | in mode {mode} the sink size of the script must be 1 | 模式 {mode} 下脚本的 sink size 必须为 1
config_no_sinking | without data sinking iteration must be 0, and all steps go to one folder; with it, only this step is dumped | 非数据下沉时 iteration 必须为 0，所有 step 落盘到同一目录；数据下沉时，它是唯一落盘的 step
config_sink_off | the script must run with dataset_sink_mode=False | 脚本必须设置 dataset_sink_mode=False
config_is_missing | {key} is missing | 缺少 {key}
config_list_missing | dump_list is missing; [] for single operators | 缺少 dump_list；单算子场景写 []
config_debug_alone | dump_debug: on cannot be combined with a dump of models or operators | dump_debug: on 不能与模型或单算子 dump 同时配置
config_stats_idle | dump_stats has no effect unless dump_data is stats | dump_data 不为 stats 时 dump_stats 不起作用
config_model_names | {names:and} are two names of one model; name it once | {names:and} 是同一模型的两个名称；请只写一个
config_model_called | the model of the graph is called {known}, not {names} | 该图的模型名为 {known}，而不是 {names}
config_path_variable | {names} is not set here, so {path} means nothing | 此处未设置 {names}，因此 {path} 没有意义
config_path_absent | {path} does not exist; make it before the program starts | {path} 不存在；请在程序启动前创建
config_steps_dead | {name} is accepted and matches no iteration, so nothing would be dumped | {name} 会被接受，但不匹配任何迭代，因此不会落盘任何数据
config_steps_first | before 1.5 iteration is a number | 1.5 之前 iteration 是数字
config_device_none | support_device is empty, so no device dumps | support_device 为空，因此没有设备会 dump
config_set_dump_async | dump_mode 2 (set_dump) needs the asynchronous dump: set enable to false | dump_mode 2（set_dump）需要异步 dump：请将 enable 设为 false
config_overflow_number_npy | overflow_number counts with file_format npy only in mode {mode} | 模式 {mode} 下 overflow_number 仅在 file_format 为 npy 时生效
config_needs_statistics | stat_calc_mode has no effect without statistics | 没有统计量时 stat_calc_mode 不起作用
config_category_idle | statistic_category has no effect while saved_data is tensor | saved_data 为 tensor 时 statistic_category 不起作用
config_counts_with | {key} counts with {other}: {wanted} only | {key} 仅在 {other}: {wanted} 时生效
config_section_missing | {section} is missing; MindSpore asks for it in this mode | 缺少 {section}；此模式下 MindSpore 需要它
config_neither_dump | neither dump is enabled, so nothing would be dumped | 两种 dump 均未开启，因此不会落盘任何数据
config_unknown_section | unknown section {name} is silently ignored; {nearest} | 未知的部分 {name} 会被静默忽略；{nearest}
config_path_empty | path is empty: say where to dump to | path 为空：请指定落盘位置
config_path_unset | path is empty, and {variable} is not set: say where to dump to | path 为空，且未设置 {variable}：请指定落盘位置
config_switch_list | for single operators (dump_op_switch: on) dump_list should be empty | 单算子（dump_op_switch: on）时 dump_list 应为空
config_model_twice | model {name} is listed {n} times; list it once | 模型 {name} 列出了 {n} 次；请只列一次
config_layer_names | layer must be an array of operator names | layer 必须是算子名的数组
config_layer_empty | layer is empty; leave it out to dump all operators | layer 为空；若要 dump 所有算子，请去掉该键
config_layer_twice | layer {name} is listed {n} times | layer {name} 列出了 {n} 次
config_layer_data | Data runs on no core and is never dumped; name all operators that it feeds | Data 不在任何核上运行，不会落盘；请写出以它为输入的所有算子
config_path_closed | {path} cannot be written to | {path} 不可写
config_missing_key | {key} is missing: {meaning} | 缺少 {key}：{meaning}
config_steps_partly_dead | {names} in {name} is accepted and matches no iteration | {name} 中的 {names} 会被接受，但不匹配任何迭代
config_device_cpu | support_device has no effect on CPU: it dumps although 0 is not in it | support_device 在 CPU 上不起作用：即使其中没有 0 也会 dump
config_sample_debug | samples are taken with op_debug_mode 0 only | 仅在 op_debug_mode 为 0 时采样
config_sample_most | at most {number} elements along the first axis of each tensor are saved | 每个张量沿第一轴最多保存 {number} 个元素
config_enable_unset | {section} does not set enable, {what} | {section} 没有设置 enable，{what}
config_async_ascend | the asynchronous dump is for Ascend only, so nothing would be dumped | 异步 dump 仅用于昇腾，因此不会落盘任何数据
config_must_be | {key} must be {what} | {key} 必须是{what}
config_list_empty | dump_list is empty and dump_op_switch is off, so nothing would be dumped | dump_list 为空且 dump_op_switch 为 off，因此不会落盘任何数据
config_unknown_key | unknown key {name}; {nearest} | 未知的键 {name}；{nearest}
config_layer_unknown | layer {name} matches no operator; {nearest} | layer {name} 没有匹配的算子；{nearest}
config_also_matches | {name} also matches {others}; name-regex(.*/{entry}-op[0-9]+) does not | {name} 还匹配 {others}；name-regex(.*/{entry}-op[0-9]+) 则不会
config_not_text | {name} is not text, so it matches no operator | {name} 不是文本，因此不匹配任何算子
config_matches_none | {name} matches no operator of the graph{hint} | {name} 在图中没有匹配的算子{hint}
config_taken_as_name | {name} is taken for the full name of an operator: {because} | {name} 被当作算子全名：{because}
config_bad_regex | {name} is not a regular expression: {error} | {name} 不是正则表达式：{error}
config_key_op_debug_mode_first | 0: tensors; 1: overflow in the AI Core; 2: in atomic additions; 3: both | 0：张量；1：AI Core 溢出检测；2：原子加溢出检测；3：两者
config_key_dump_mode_first | 0: every operator; 1: those in kernels | 0：所有算子；1：kernels 中列出的算子
config_key_dump_mode | 0: every operator; 1: those in kernels; 2: by set_dump | 0：所有算子；1：kernels 中列出的算子；2：由 set_dump 指定
config_key_path_first | where to dump to | 落盘位置
config_key_path | where to dump to; empty: $MS_DIAGNOSTIC_DATA_PATH/debug_dump | 落盘位置；为空：$MS_DIAGNOSTIC_DATA_PATH/debug_dump
config_key_net_name | a name for the network, which becomes a directory | 网络名称，成为一级目录
config_key_iteration_first | which iteration, counted from 0; 0 alone means all of them | 哪次迭代，从 0 计；单写 0 表示全部
config_key_iteration | which iterations, counted from 0: all, or numbers and ranges such as 0|5-8 | 哪些迭代，从 0 计：all，或数字与区间，如 0|5-8
config_key_input_output | 0: inputs and outputs; 1: inputs; 2: outputs | 0：输入和输出；1：输入；2：输出
config_key_kernels_first | operators for dump_mode 1: full names | dump_mode 为 1 时的算子：全名
config_key_kernels | operators for dump_mode 1: full names, types (not with O2), name-regex(…) | dump_mode 为 1 时的算子：全名、类型（O2 除外）、name-regex(…)
config_key_support_device | devices to dump on | 在哪些设备上 dump
config_key_op_debug_mode | 0: tensors; 3: overflowing operators only; 4: inputs of an operator that raised an exception (1 and 2 mean 3) | 0：张量；3：仅溢出算子；4：抛出异常的算子的输入（1 和 2 等同于 3）
config_key_saved_data | tensor, statistic, or full for both | tensor、statistic，或 full（两者）
config_key_statistic_category | which statistics | 哪些统计量
config_key_file_format | npy, or bin as the device has it | npy，或 bin（与 device 侧一致）
config_key_overflow_number | how many overflows to dump; 0: all | dump 多少次溢出；0：全部
config_key_initial_iteration | the number that iterations begin with | 迭代的起始编号
config_key_enable | synchronous dump; false or absent: asynchronous, on Ascend | 同步 dump；false 或缺省：昇腾上为异步 dump
config_key_trans_flag | bring tensors to their host shape and NCHW; false: as the device has them | 将张量还原为 host 侧形状和 NCHW；false：与 device 侧一致
config_key_stat_calc_mode | where statistics are computed | 在哪一侧计算统计量
config_key_stat_precision | high: statistics on the device in float32; low: in the tensor's own type, which may overflow | high：device 侧以 float32 计算统计量；low：以张量自身类型计算，可能溢出
config_key_sample_mode | 1: save a sample of each tensor | 1：保存每个张量的采样
config_key_sample_num | size of the sample | 采样大小
config_key_save_kernel_args | save what operators were initialised with | 保存算子的初始化参数
config_key_async_enable | asynchronous dump; absent: none | 异步 dump；缺省：不开启
config_key_dump_path | where to dump to; has to be there already, and may hold $VARIABLES | 落盘位置；必须已存在，可含 $变量
config_key_dump_list | models to dump; empty: single operators; absent: with dump_debug or dump_scene only | 要 dump 的模型；为空：单算子；缺省：仅用于 dump_debug 或 dump_scene
config_key_acl_dump_mode | which tensors | 哪些张量
config_key_dump_level | operators, kernels, or both; absent: CANN's release decides | 算子、kernel，或两者；缺省：由 CANN 版本决定
config_key_dump_op_switch | dump single operators | dump 单算子
config_key_dump_step | which iterations: numbers and ranges such as 0|3-5; absent: all | 哪些迭代：数字与区间，如 0|3-5；缺省：全部
config_key_dump_data | tensors or statistics | 张量或统计量
config_key_dump_stats | which ones, with dump_data stats | dump_data 为 stats 时，哪些统计量
config_key_dump_debug | overflow detection | 溢出检测
config_key_dump_scene | exception dump, e.g. lite_exception; absent: none | 异常 dump，如 lite_exception；缺省：不开启
config_key_model_name | its file without the ending, or the name in its JSON; absent: every model | 模型文件名（不含后缀），或其 JSON 中的名称；缺省：所有模型
config_key_layer | operators to dump; absent: every operator | 要 dump 的算子；缺省：所有算子
config_refused | refused | 拒绝
config_warning | warning | 警告
config_parameters_only | only Parameter files are written | 只写出 Parameter 文件
config_as_with_0 | every tensor is dumped as with 0 | 与 0 相同，dump 所有张量
config_has_to_be_true | which has to be true | 而它必须为 true
config_so_asynchronous | so the dump is asynchronous | 因此为异步 dump
config_only_synchronous | nothing is dumped asynchronously: only the synchronous dump is enabled | 不会异步落盘：只开启了同步 dump
config_only_asynchronous | nothing is dumped synchronously: only the asynchronous dump is enabled | 不会同步落盘：只开启了异步 dump
config_known_since | {key} is known since {other}; {version} reads on without it | {key} 自 {other} 起才有；{version} 会略过它
config_known_before | {key} was known before {other}; {version} reads on without it | {key} 仅在 {other} 之前有；{version} 会略过它
config_ignored_key | unknown key {name} is silently ignored; {nearest} | 未知的键 {name} 会被静默忽略；{nearest}
config_ignored_section | unknown section, silently ignored | 未知的部分，会被静默忽略
config_steps_text | {key} must be a string, e.g. "0|5-8" or "all"; here it is {here} | {key} 必须是字符串，如 "0|5-8" 或 "all"；此处为{here}
config_steps_text_since | {key} must be a string since 1.5, e.g. "0|5-8" or "all"; here it is {here} | 自 1.5 起 {key} 必须是字符串，如 "0|5-8" 或 "all"；此处为{here}
config_must_be_here | {key} must be {what}; here it is {here} | {key} 必须是{what}；此处为{here}
config_name_letters | {key} may hold letters, digits, '-' and '_' only, and not be empty; here it is {here} | {key} 只能含字母、数字、'-' 和 '_'，且不能为空；此处为{here}
config_steps_letters | {key} may hold digits, '-' and '|' only, or be "all"; here it is {here} | {key} 只能含数字、'-' 和 '|'，或为 "all"；此处为{here}
config_knows | {key} knows {known}; here it is {here} | {key} 可取 {known}；此处为{here}
config_path_absolute | path must be absolute, so begin with '/'; here it is {path} | path 必须是绝对路径，以 '/' 开头；此处为 {path}
config_path_letters | path may hold letters, digits, '-', '_' and '/' only; here it has {odd} | path 只能含字母、数字、'-'、'_' 和 '/'；此处含有 {odd}
config_device_bad | device {number} is no device | 设备 {number} 不存在
config_device_twice | device {number} is there twice | 设备 {number} 出现了两次
config_shown_text | the text {value} | 文本 {value}
config_shown_number | the number {value} | 数字 {value}
config_array | an array | 数组
config_object | an object | 对象
config_uint | a whole number, 0 or more | 不小于 0 的整数
config_bool | true or false, without quotes | true 或 false（不加引号）
config_text | a text | 文本
config_texts | an array of texts | 文本数组
config_numbers | an array of whole numbers | 整数数组
config_objects | an array of objects | 对象数组
config_later_regex | name-regex(…) came with a later release | name-regex(…) 是之后的版本才有的
config_later_types | types came with a later release | 按类型指定是之后的版本才有的
config_no_types | mode {mode} knows no types; name-regex(…) takes several | 模式 {mode} 不支持按类型指定；可用 name-regex(…) 匹配多个
config_beginning | ; a beginning is not enough: write name-regex({entry}.*) | ；只写开头不够：请写 name-regex({entry}.*)
config_absent | (absent) | （缺省）
config_needed | needed: {meaning} | 必需：{meaning}
config_default | {value} (default) | {value}（默认值）
config_iteration | iteration {value}, counted from 0 | 第 {value} 次迭代（从 0 计）
config_step_none | {part} (nothing) | {part}（无匹配）
config_step_range | steps {first} to {last} | 第 {first} 至 {last} 个 step
config_step | step {first} | 第 {first} 个 step
config_steps_of | {steps} of the script | 脚本的{steps}
config_models | {n} model | {n} models | {n} 个模型
config_total | {file}: {refused} refused, {n} warning | {file}: {refused} refused, {n} warnings | {file}：拒绝 {refused} 项，警告 {n} 项
config_would_dump | would dump {k} of {n} operators | 将 dump {n} 个算子中的 {k} 个
config_would_dump_all | would dump all of {n} operators | 将 dump 全部 {n} 个算子
script_acl | in the program, before it does anything else with the device: | 在程序中，对设备执行任何其他操作之前：
script_before | before the script starts, and before mindspore.communication.init(): | 在脚本启动之前，且在 mindspore.communication.init() 之前：
script_scopes | in the script: short scopes, so that file names are not too long | 在脚本中：缩短作用域名，以免文件名过长
script_steps | one step at a time | 每次执行一个 step
script_stop | stop after step {n}: a callback with | 在第 {n} 个 step 之后停止：callback 中写
"""
)
