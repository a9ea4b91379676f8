"""What is said of one tensor: its limits, numbers, findings, and what its drift looks like."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_msdump.facts.messages.row import Message

__all__ = ["TENSOR_MESSAGES"]

TENSOR_MESSAGES: Mapping[str, Message] = {
    # -- a failing tensor
    "and_more": Message("and {n} more", "另有 {n} 项"),
    "equal": Message("equal", "相等"),
    "differ": Message("differ", "不同"),
    "every_limit_met": Message("every limit met", "均在限值之内"),
    "statistics_only": Message("by statistics only", "仅比较统计量"),
    "largest_error": Message("max abs {value}", "最大绝对误差 {value}"),
    "at": Message("{text} at {place}", "{text}，位于 {place}"),
    "rerun": Message("re-run just this:", "仅重新比较它："),
    "place": Message(
        "op {place} of {operators} in execution order", "按执行顺序第 {place} 个算子（共 {operators} 个）"
    ),
    "paired": Message("paired: {by}", "配对依据：{by}"),
    "by_name": Message("same true name", "真实名称相同"),
    "by_mangled_name": Message("same mangled name", "改写后的名称相同"),
    "by_map": Message("a map entry", "映射条目"),
    "by_rule_file": Message("the fusion file", "融合规则文件"),
    "made_by": Message("made by", "产生于"),
    "right_made_by": Message("right made by", "右侧产生于"),
    "right_is": Message("{value} (right {other})", "{value}（右侧 {other}）"),
    "left_read_as": Message("left read as {memory_format}", "左侧按 {memory_format} 读取"),
    "right_read_as": Message("right read as {memory_format}", "右侧按 {memory_format} 读取"),
    "right_transposed": Message("right side transposed {axes}", "右侧已按 {axes} 转置"),
    "right_reshaped": Message("right side reshaped", "右侧已变形"),
    "row_of_file": Message("{file}, line {row}", "{file}，第 {row} 行"),
    "dtype_unknown": Message("dtype unknown,", "数据类型未知"),
    "shape_unknown": Message("shape unknown: not opened", "形状未知：未打开"),
    # -- its table of limits
    "metric": Message("metric", "指标"),
    "value": Message("value", "数值"),
    "limit": Message("limit", "限值"),
    "rule": Message("rule", "规则"),
    "verdict": Message("verdict", "结论"),
    "is_fail": Message("FAIL", "超限"),
    "is_undefined": Message("undefined", "无定义"),
    "is_warn": Message("warn", "警告"),
    "is_ok": Message("ok", "符合"),
    "is_skipped": Message("skipped", "略过"),
    # -- its other numbers
    "also": Message("also", "其他"),
    "overflow": Message("overflow", "溢出"),
    "moments": Message(
        "mean {mean} (right {right_mean}), deviation {deviation} (right {right_deviation})",
        "均值 {mean}（右侧 {right_mean}），标准差 {deviation}（右侧 {right_deviation}）",
    ),
    "on_both": Message("{n} {title} the same on both sides", "两侧相同的 {title} {n} 个"),
    "on_left": Message("{n} {title} left only", "仅左侧有的 {title} {n} 个"),
    "on_right": Message("{n} {title} right only", "仅右侧有的 {title} {n} 个"),
    "first_differing": Message("first that differs at {place}", "首个不同处位于 {place}"),
    "first_at": Message("first at {place}", "首个位于 {place}"),
    "number": Message("number", "可表示的数"),
    "overflowed": Message(
        "{n} elements of the left are NaN, Inf or at the largest {dtype} where the right is finite and different",
        "左侧有 {n} 个元素为 NaN、Inf 或 {dtype} 最大值，而右侧为有限且不同的值",
        "{n} element of the left is NaN, Inf or at the largest {dtype} where the right is finite and different",
    ),
    "allowed_is": Message("allowed is {allowed}", "允许误差为 {allowed}"),
    "exceed": Message("{n} exceed {allowed}", "{n} 个超出允许误差 {allowed}"),
    "worst_elements": Message(
        "worst elements: {differing} of {elements} differ; {counted}",
        "最差元素：{elements} 个元素中有 {differing} 个不同；{counted}",
    ),
    "index": Message("index", "下标"),
    "err_allowed": Message("err / allowed", "误差 / 允许"),
    "statistic": Message("statistic", "统计量"),
    # -- what is told of it
    "told_fail": Message("fail", "超限"),
    "told_undefined": Message("undefined", "无定义"),
    "told_error": Message("error", "错误"),
    "told_warn": Message("warn", "警告"),
    "told_note": Message("note", "说明"),
    "zeros_left_out": Message(
        "relative errors leave out {n} elements where the right is 0 and the left is not",
        "相对误差未计入右侧为 0 而左侧不为 0 的 {n} 个元素",
        "relative errors leave out {n} element where the right is 0 and the left is not",
    ),
    "near_zero": Message(
        "{n} elements are 0 on one side and at most 2 units of the smallest number above 0 on the other: "
        "0 for relative errors",
        "{n} 个元素一侧为 0，另一侧不超过最小正数的 2 倍：相对误差按 0 计",
        "{n} element is 0 on one side and at most 2 units of the smallest number above 0 on the other: "
        "0 for relative errors",
    ),
    "would_pass": Message("would pass", "可通过"),
    "pass_with": Message("with {limits}", "放宽到 {limits}"),
    "not_by_limits": Message(
        "not by limits alone ({names}); the others {text}", "仅放宽限值不够（{names}）；其余项{text}"
    ),
    "the_rest": Message("the rest", "其余"),
    "differs": Message("differs", "参数不同"),
    "more_differ": Message("and {n} more; results.json has them all", "另有 {n} 个，全部见 results.json"),
    "arguments": Message("arguments", "参数"),
    "on_both_sides": Message("both sides", "两侧相同"),
    "none": Message("none", "无"),
    "has_none": Message("has none", "没有"),
    # -- its findings: the English of these is judging's, and stands in results.json
    "is_below": Message(
        "{metric} {value} is below {limit} ({rule})", "{metric} 为 {value}，低于限值 {limit}（{rule}）"
    ),
    "is_above": Message(
        "{metric} {value} is above {limit} ({rule})", "{metric} 为 {value}，高于限值 {limit}（{rule}）"
    ),
    "is_below_warning": Message(
        "{metric} {value} is below warning level {limit} ({rule})", "{metric} 为 {value}，低于警告值 {limit}（{rule}）"
    ),
    "is_above_warning": Message(
        "{metric} {value} is above warning level {limit} ({rule})", "{metric} 为 {value}，高于警告值 {limit}（{rule}）"
    ),
    "zeros_void": Message(
        "{metric} {value} leaves out {n} elements where the right is 0 and the left is not, "
        "so its limit {limit} does not hold ({rule})",
        "{metric} 为 {value}，但未计入右侧为 0 而左侧不为 0 的 {n} 个元素，因此限值 {limit} 不成立（{rule}）",
        "{metric} {value} leaves out {n} element where the right is 0 and the left is not, "
        "so its limit {limit} does not hold ({rule})",
    ),
    # -- what a drift looks like
    "looks_like": Message("looks like", "疑似"),
    "confidence_high": Message("high", "确定"),
    "confidence_medium": Message("medium", "可能"),
    "looks_nonfinite": Message("NaN or Inf", "NaN 或 Inf"),
    "looks_constant": Message("constant", "处处为同一值"),
    "looks_sign_flipped": Message("sign-flipped", "符号相反"),
    "looks_scaled": Message("scaled", "按比例缩放"),
    "looks_offset": Message("shifted by a constant", "整体偏移一个常数"),
    "looks_rounded": Message("rounded to a lower precision", "舍入到较低精度"),
    "looks_clipped": Message("clipped", "被截断（限幅）"),
    "looks_flushed_to_zero": Message("flushed to zero", "小值被置零"),
    "looks_one_slice": Message("one slice wrong", "仅一个切片出错"),
    "looks_padding": Message("padding included", "混入了填充"),
    "looks_shifted_by_one": Message("shifted by one", "错开一位"),
    "looks_transposed": Message("transposed", "转置"),
    "looks_memory_format": Message("other memory format", "内存格式不同"),
    "looks_permuted": Message("permuted", "元素次序打乱"),
    "looks_unrelated": Message("unrelated", "互不相关"),
}
