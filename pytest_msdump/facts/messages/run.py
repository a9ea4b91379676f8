"""What is said of a run: words that all share, the header, the summary, coverage, and who started it."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_msdump.facts.messages.row import Message

__all__ = ["RUN_MESSAGES"]

RUN_MESSAGES: Mapping[str, Message] = {
    # -- what joins parts of a sentence
    "between_names": Message(", ", "、"),
    "between_parts": Message(", ", "，"),
    "between_numbers": Message(", ", "；"),
    "between_clauses": Message("; ", "；"),
    "after_label": Message("{label}: {text}", "{label}：{text}"),
    "in_brackets": Message("{text} ({aside})", "{text}（{aside}）"),
    "names_and_more": Message("{names} and {n} more", "{names} 等，另有 {n} 个"),
    "same": Message("(same)", "（同上）"),
    "left": Message("left", "左侧"),
    "right": Message("right", "右侧"),
    # -- verdicts: as the first word of a failure, and counted
    "PASS": Message("PASS", "通过"),
    "WARN": Message("WARN", "警告"),
    "FAIL": Message("DRIFT", "超限"),
    "UNDEFINED": Message("UNDEFINED", "无定义"),
    "ERROR": Message("ERROR", "错误"),
    "NOT_RUN": Message("NOT RUN", "未运行"),
    "count_pass": Message("{n} pass", "通过 {n}"),
    "count_warn": Message("{n} warn", "警告 {n}"),
    "count_fail": Message("{n} fail", "超限 {n}"),
    "count_undefined": Message("{n} undefined", "无定义 {n}"),
    "count_error": Message("{n} error", "错误 {n}"),
    "count_not_run": Message("{n} not run", "未运行 {n}"),
    # -- header
    "header_left": Message("msdump: left  = under test  {side}", "msdump: 左侧 = 待测  {side}"),
    "header_right": Message("        right = reference   {side}", "        右侧 = 参考  {side}"),
    "header_pairs": Message(
        "{n} pairs to compare, profile {profile}",
        "待比对 {n} 对张量，限值方案 {profile}",
        "{n} pair to compare, profile {profile}",
    ),
    "header_kernel": Message("kernel: {kernel}", "计算内核: {kernel}"),
    "side": Message("{directory}  ({about})", "{directory}（{about}）"),
    "reader": Message("reader {reader}", "读取器 {reader}"),
    "sides_look_swapped": Message(
        "warning: the sides look swapped: the left is a folder of op.index.timestamp.npy files, "
        "the right a {reader} dump; left = run under test, right = reference",
        "警告：左右两侧疑似写反：左侧是 op.index.timestamp.npy 文件夹，"
        "右侧是 {reader} 转储；左侧应为待测，右侧应为参考",
    ),
    "dump_not_collected": Message(
        "nothing in {directory} is collected: it is a dump; keep tests apart from dumps",
        "不从 {directory} 收集任何测试：它是转储目录；请将测试与转储分开存放",
    ),
    "uncompared": Message(
        "{n} compared tensors have further occurrences that were not compared: {k}",
        "{n} 个已比较的张量另有未比较的重复，共 {k} 次",
        "{n} compared tensor has further occurrences that were not compared: {k}",
    ),
    "partial_run": Message(
        "{side}: the directory holds a partial second run: {newer} of {n} tensors",
        "{side}：目录中有一次不完整的第二次运行：{n} 个张量中的 {newer} 个",
        "{side}: the directory holds a partial second run: {newer} of {n} tensor",
    ),
    "not_understood": Message(
        "{n} files are not understood and left out: {names}",
        "有 {n} 个文件无法识别，未计入：{names}",
        "{n} file is not understood and left out: {names}",
    ),
    "by_statistics": Message(
        "{unseen} of {n} pairs by statistics only: tensors were not seen",
        "{n} 对中有 {unseen} 对仅比较统计量：未见张量数据",
        "{unseen} of {n} pair by statistics only: tensors were not seen",
    ),
    # -- summary
    "matched": Message(
        "matched {paired} of {total} right tensors ({share})", "右侧 {total} 个张量已配对 {paired} 个（{share}）"
    ),
    "without_partner": Message("{text}; without a partner: {sides}", "{text}；未配对：{sides}"),
    "count_of_left": Message("{n} left", "左侧 {n} 个"),
    "count_of_right": Message("{n} right", "右侧 {n} 个"),
    "more_reasons": Message(
        "{tensors}: {n} more reasons, in results.json",
        "{tensors} 个：另有 {n} 种原因，见 results.json",
        "{tensors}: {n} more reason, in results.json",
    ),
    "outcomes": Message("{n} tensors: {counts}", "{n} 个张量：{counts}", "{n} tensor: {counts}"),
    "first_failing": Message(
        "first failing: op {place} of {operators}, {line}", "最先未通过：第 {place} 个算子（共 {operators} 个），{line}"
    ),
    "more_warnings": Message(
        "and {n} more warnings; results.json has them all", "另有 {n} 个警告，全部见 results.json"
    ),
    "sides_identical": Message(
        "the two sides are identical: every pair is bit-equal; usually a run was compared with itself",
        "左右两侧完全相同：每一对都逐位相等；通常是把同一次运行与自身作了比较",
    ),
    "pairs_equal": Message("every pair is bit-equal", "每一对都逐位相等"),
    "coverage_is": Message("coverage: {problem}", "覆盖率：{problem}"),
    "reports": Message("reports: {files}", "报告：{files}"),
    "alarm": Message(
        "ONLY {paired} OF {total} RIGHT TENSORS ({share}) WERE MATCHED, AND NO MIN_COVERAGE IS SET",
        "右侧 {total} 个张量中仅有 {paired} 个（{share}）已配对，且未设置 min_coverage",
    ),
    "incomplete_left": Message(
        "THE LEFT SIDE IS AN INCOMPLETE RECORDING: what it does not hold was not compared",
        "左侧是不完整的录制：其中没有的张量未作比较",
    ),
    "incomplete_right": Message(
        "THE RIGHT SIDE IS AN INCOMPLETE RECORDING: what it does not hold was not compared",
        "右侧是不完整的录制：其中没有的张量未作比较",
    ),
    "not_complete": Message(
        "not every pair was run, and what was not compared has not passed", "并非每一对都已运行；未比较即未通过"
    ),
    "not_ended": Message(
        "the run has not ended, or was broken off: nothing of it can be judged; run it again",
        "该运行尚未结束或已中断，其结果无法判定；请重新运行",
    ),
    "more_failing": Message(
        "and {n} more failing tensors; results.json has them all", "另有 {n} 个未通过的张量，全部见 results.json"
    ),
    "more_of_operator": Message(
        "{line} (and {n} more tensors of this operator)", "{line}（此算子另有 {n} 个张量未通过）"
    ),
    "both_sides": Message("left {left}, right {right}", "左侧 {left}，右侧 {right}"),
    "foreign_results": Message(
        "ERROR: {n} results belong to other dumps than this process sees: "
        "files changed during the run, or workers see other files",
        "错误：{n} 个结果所属的转储与本进程所见不同：运行期间文件被改动，或各工作进程看到的文件不同",
    ),
    # -- coverage
    "nothing_compared": Message(
        "nothing was compared: no left tensor has a partner on the right",
        "没有比较任何张量：左侧没有张量在右侧找到配对",
    ),
    "missing_mapped": Message(
        "{n} map entries were not paired",
        "{n} 条映射未能配对",
        "{n} map entry was not paired",
    ),
    "missing_fused": Message(
        "{n} mapped or fused pairs were not made",
        "{n} 个由映射或融合规则得出的配对未能配成",
        "{n} mapped or fused pair was not made",
    ),
    "coverage_below": Message(
        "coverage is {share}, below the {wanted} asked for: {paired} of {total} right tensors have a partner",
        "覆盖率为 {share}，低于要求的 {wanted}：右侧 {total} 个张量中有 {paired} 个已配对",
    ),
    "coverage_fails": Message("COVERAGE: {problem}", "覆盖率：{problem}"),
    "met": Message("met", "配对"),
    "met_of": Message(
        "{paired} of {total} right tensors in the selection ({share})",
        "所选右侧 {total} 个张量中的 {paired} 个（{share}）",
    ),
    "holds_nothing": Message("{directory} (a folder without files)", "{directory}（没有文件的文件夹）"),
    "holds": Message("{directory} ({n} tensors; reader {reader})", "{directory}（{n} 个张量；读取器 {reader}）"),
    "missing_title_mapped": Message("mapped, but not paired ({n}):", "已映射但未配对（{n}）："),
    "missing_title_fused": Message("mapped or fused, but not paired ({n}):", "已映射或融合但未配对（{n}）："),
    "alone_left": Message("left tensors without a partner ({n}):", "左侧未配对的张量（{n}）："),
    "alone_right": Message("right tensors without a partner ({n}):", "右侧未配对的张量（{n}）："),
    "reason": Message("reason", "原因"),
    "tensors": Message("tensors", "张量数"),
    "first_of_them": Message("the first of them:", "其中最前的几个："),
    "nearest": Message(" (nearest: {names})", "（相近的名称：{names}）"),
    "do_check_dump": Message(
        "what to do: check that the run wrote its dump there, and that the path is its root",
        "下一步：确认运行已把转储写到该处，并且该路径是转储的根目录",
    ),
    "do_check_selection": Message(
        "what to do: both sides hold tensors, but none is within the selection; "
        "check select, deselect, io, iteration, rank and graph",
        "下一步：两侧都有张量，但都不在所选范围内；请检查 select、deselect、io、iteration、rank 和 graph",
    ),
    "do_map": Message(
        "what to do: give both sides the same operator names, or name the pairs in msdump.toml:",
        "下一步：让两侧算子同名，或在 msdump.toml 中写明配对：",
    ),
    "do_suggest": Message(
        "msdump match --suggest looks for them by values, names and order, and writes the entries",
        "msdump match --suggest 按数值、名称和顺序查找，并写出这些条目",
    ),
    "partners": Message("partners: {how}", "可能的配对：{how}"),
    "the_left_operator": Message("the left operator", "左侧算子"),
    "the_right_operator": Message("the right operator", "右侧算子"),
    "more_tensors": Message("and {n} more tensors; results.json has them all", "另有 {n} 个张量，全部见 results.json"),
    "rest_reasons": Message("and {n} more reasons; results.json has them all", "另有 {n} 种原因，全部见 results.json"),
    # -- who else would fit
    "suspicious": Message(
        "{n} suspicious pairs: another tensor fits far better",
        "{n} 个可疑配对：另有张量吻合得多",
        "{n} suspicious pair: another tensor fits far better",
    ),
    "better_right": Message(
        "fits {names} of the right far better ({why}): a wrong pair, unless the left put that out in its place",
        "与右侧 {names} 吻合得多（{why}）：可能配错了，除非左侧确实误输出了它",
    ),
    "better_left": Message(
        "the right fits {names} of the left far better ({why}): a wrong pair, unless the left put it out elsewhere",
        "右侧与左侧 {names} 吻合得多（{why}）：可能配错了，除非左侧确实在别处输出了它",
    ),
    "ambiguous": Message("{text}; ambiguous: {doubt}", "{text}；无法确定：{doubt}"),
    "doubt_several": Message("several tensors hold these values", "有多个张量的值与之相同"),
    "doubt_values": Message("too few different values to tell a tensor by", "不同的值太少，不足以辨认张量"),
    "doubt_names": Message(
        "names or the fusion file pair these two, so the operator may pass on what it was given",
        "名称或融合规则把这两者配对，因此也可能是该算子原样传出了输入",
    ),
    "more_suspicious": Message(
        "and {n} more suspicious pairs; --msdump-all shows them", "另有 {n} 个可疑配对；--msdump-all 可全部显示"
    ),
    "do_map_instead": Message("if a pair is wrong, msdump.toml needs:", "若配对有误，应在 msdump.toml 中写："),
    "in_place_of": Message("in place of {entry}", "取代 {entry}"),
    "fits": Message("values agree to {apart}, {shape}", "数值相差 {apart}，{shape}"),
    "fits_equal": Message("values are equal, {shape}", "数值相等，{shape}"),
    "fits_by_name": Message(
        "names agree, {shape}; values differ by {apart} of their norm", "名称相符，{shape}；数值之差为其范数的 {apart}"
    ),
    "decided_names": Message("other tensors hold the same values: names decide", "另有张量的值与之相同：由名称决定"),
    "decided_order": Message(
        "other tensors hold the same values: the order of execution decides", "另有张量的值与之相同：由执行顺序决定"
    ),
    "shape_same": Message("same shape", "形状相同"),
    "shape_transposed": Message("axes of the right in another order", "右侧轴序不同"),
    "shape_reshaped": Message("other shape", "形状不同"),
    # -- who started it
    "count_cause": Message("{n} causes", "{n} 个起因", "{n} cause"),
    "count_inherited": Message("{n} inherited", "{n} 个继承"),
    "count_unknown": Message("{n} unknown", "{n} 个来源不明"),
    "told_by": Message("{text}; told by {source}", "{text}；依据：{source}"),
    "between_sources": Message(" and ", "和"),
    "by_graph": Message("the run's own graph", "运行自身的计算图"),
    "by_fusion": Message("the fusion JSON", "融合规则 JSON"),
    "by_order": Message(
        "execution order, since no graph tells who feeds whom", "执行顺序（没有计算图说明算子间的输入关系）"
    ),
    "cause_line": Message(
        "cause  {operator} (op {place} of {operators}): {reason}",
        "起因  {operator}（第 {place} 个算子，共 {operators} 个）：{reason}",
    ),
    "more_causes": Message("and {n} more causes; --msdump-all shows them", "另有 {n} 个起因；--msdump-all 可全部显示"),
    "inherited_line": Message("{n} inherited: {names}", "被 {n} 个继承：{names}"),
    "unknown_line": Message("unknown  {names}: {reason}", "来源不明  {names}：{reason}"),
    "more_unknown": Message(
        "and {n} more reasons; --msdump-all shows them", "另有 {n} 种原因；--msdump-all 可全部显示"
    ),
    "without_cause": Message(
        "inherited  {names}: their inputs fail, and what these come from was not compared",
        "继承  {names}：其输入未通过，而产生这些输入的算子未比较",
    ),
    "amplifying": Message("error out over error in: {names}", "输出误差与输入误差之比：{names}"),
    "inherited_from": Message("inherited from {names}", "继承自 {names}"),
    "shown_whole": Message("{text}; --msdump-all shows it whole", "{text}；--msdump-all 可完整显示"),
    "role_cause": Message("role cause", "角色：起因"),
    "role_inherited": Message("role inherited", "角色：继承"),
    "role_unknown": Message("role unknown", "角色：来源不明"),
    # -- why it has its role: the English stands in results.json
    "why_unseen": Message("what feeds it was not all compared: {suspects}", "其输入来源未全部比较：{suspects}"),
    "why_shared": Message(
        "others that fail are fed by the same, which was not compared: {suspects}",
        "其他未通过的算子有相同的输入来源，而该来源未比较：{suspects}",
    ),
    "why_circle": Message(
        "operators feed one another and all fail: {suspects}", "算子互为输入，且均未通过：{suspects}"
    ),
    "why_order": Message(
        "no graph tells who feeds whom; it follows a failure, and may be of its own",
        "没有计算图说明算子间的输入关系；它排在某个未通过的算子之后，也可能自身就是起因",
    ),
    "why_feeds": Message("no graph tells what feeds it", "没有计算图说明其输入来源"),
    "why_earlier": Message(
        "what it was given may come from an earlier part of the run, which fails, too",
        "其输入可能来自运行中更早的部分，而那部分也未通过",
    ),
    "why_ranks": Message(
        "it takes values from other ranks, and some of those fail", "其输入取自其他 rank，其中有未通过的"
    ),
    "why_input": Message(
        "its input fails, and what feeds it has no verdict of its own: {suspects}",
        "其输入未通过，而产生该输入的算子没有自己的结论：{suspects}",
    ),
    "why_step": Message(
        "through parameters as the iteration before left them: {suspects}", "经由上一迭代留下的参数：{suspects}"
    ),
    "why_before": Message("its input fails; before that: {suspects}", "其输入未通过；在此之前：{suspects}"),
    "why_first": Message("the first to fail in execution order", "按执行顺序最先未通过"),
    "why_passing": Message("all that feeds it and was compared passes", "已比较的输入来源均通过"),
    "or_before": Message(
        "it, or one before it that was not compared: {suspects}", "起因是它，或在它之前未比较的算子：{suspects}"
    ),
    "given_unseen": Message("not compared: {names}", "未比较：{names}"),
    "given_before": Message("not compared as they were before the step: {names}", "未比较其在本步之前的值：{names}"),
    "operators_before": Message(
        "{n} operators before {operator}", "{operator} 之前的 {n} 个算子", "{n} operator before {operator}"
    ),
    "state_not_dumped": Message("not dumped", "未转储"),
    "state_not_run": Message("not run", "未运行"),
    "state_no_partner": Message("no partner", "未配对"),
    "state_compared_in_part": Message("compared in part", "仅部分比较"),
    "state_not_selected": Message("not selected", "未选中"),
    "state_fails": Message("fails", "未通过"),
    "state_passes": Message("passes", "通过"),
    "role_because": Message("{role}: {reason}", "{role}；{reason}"),
    "role_from": Message("{role} from {names}", "{role}（来自 {names}）"),
}
