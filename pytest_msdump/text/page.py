"""The words of the page index.html in English and Chinese: its own, and those that it shares with the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pytest_msdump.text.en import EN
from pytest_msdump.text.zh import ZH

__all__ = ["PAGE"]

# Sentences that the terminal says as well, and beginnings of their codes.
_SHARED = (
    *("grown", "grown_from_equal", "left_out", "grew_within", "loose_limits", "largest_growth"),
    *("same_name", "same_name_as", "same_scope", "same_graph"),
    *("between_names", "between_parts", "between_clauses", "between_sources"),
    *("names_and_more", "in_brackets", "after_label", "or_before", "operators_before", "without_cause"),
    *("by_graph", "by_right_graph", "by_fusion", "by_order", "ambiguous", "fits", "fits_equal", "fits_by_name"),
    *("shape_same", "shape_transposed", "shape_reshaped", "do_map_instead", "in_place_of"),
)
_SHARED_BEGINNINGS = ("why_", "given_", "state_", "better_", "doubt_", "decided_")


def _rows(codes: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Return rows of the catalogues; a singular stands under a key of its own."""
    rows: dict[str, tuple[str, str]] = {}
    for code in codes:
        english = EN[code]
        if not isinstance(english, str):
            rows[f"{code}_one"], english = (english[0], ZH[code]), english[1]
        rows[code] = english, ZH[code]
    return rows


# By key: English, Chinese. The page fills in the fields.
PAGE: Mapping[str, tuple[str, str]] = {
    **_rows(code for code in EN if code in _SHARED or code.startswith(_SHARED_BEGINNINGS)),
    # -- verdicts and roles
    "pass": ("pass", "通过"),
    "warn": ("warn", "警告"),
    "fail": ("fail", "超限"),
    "undefined": ("undefined", "无定义"),
    "error": ("error", "错误"),
    "not_run": ("not run", "未运行"),
    "ok": ("ok", "符合"),
    "skipped": ("skipped", "略过"),
    "cause": ("cause", "起因"),
    "accumulated": ("accumulated", "累积"),
    "inherited": ("inherited", "继承"),
    "unknown": ("origin unknown", "来源不明"),
    # -- the verdict of the whole
    **_rows(["PASS"]),
    "FAIL": ("FAIL", "未通过"),
    "INCOMPLETE": ("INCOMPLETE", "不完整"),
    "all_within": ("All {n} tensors are within their limits.", "全部 {n} 个张量均在限值之内。"),
    "some_fail": ("{f} of {n} tensors fail.", "{n} 个张量中有 {f} 个未通过。"),
    "started_by": ("{n} started it.", "其中 {n} 个是起因。"),
    "no_graph": ("No graph tells which of them started it.", "没有计算图可以判断其中哪个是起因。"),
    "some_accumulated": (
        "In {n} the error accumulated by small steps.",
        "其中 {n} 个的误差是逐步累积的。",
    ),
    "heirs": ("{n} inherited the error.", "{n} 个继承了误差。"),
    "origin_unknown": (
        "Of {n} nobody can tell whether they inherited it.",
        "另有 {n} 个无法判断是否继承而来。",
    ),
    "none_is_cause": ("Nobody can tell which of them started it.", "无法判断其中哪个是起因。"),
    "cause_is": ("The first cause is {a}.", "首个起因是 {a}。"),
    "first_to_fail": ("The first to fail is {a}.", "最先未通过的是 {a}。"),
    "first_is": ("The first in execution order is {a}.", "按执行顺序，首个是 {a}。"),
    "closest": ("Closest to its limit: {a}, at {r} of it.", "最接近限值的是 {a}，达到限值的 {r}。"),
    "and_warn": ("{w} warn.", "{w} 个警告。"),
    "none_run": ("{n} were not run, and what was not compared has not passed.", "{n} 个未运行；未比较即未通过。"),
    "nothing": ("Nothing was compared.", "没有比较任何张量。"),
    # -- head
    "left_side": ("left, under test", "左侧（待测）"),
    "right_side": ("right, reference", "右侧（参考）"),
    "date": ("date", "日期"),
    "version": ("made by", "生成工具"),
    "commit": ("commit", "提交"),
    "command": ("command", "命令"),
    "reader": ("reader", "读取器"),
    "ops_tensors": ("{o} operators, {t} tensors", "{o} 个算子，{t} 个张量"),
    "profile": ("profile", "限值方案"),
    "matched": ("matched", "已配对"),
    "matched_of": ("{p} of {t} right tensors ({v})", "右侧 {t} 个张量中的 {p} 个（{v}）"),
    "files_unexplained": ("{n} files not understood", "{n} 个文件无法识别"),
    "theme": ("Theme", "主题"),
    "theme_auto": ("auto", "自动"),
    "theme_light": ("light", "浅色"),
    "theme_dark": ("dark", "深色"),
    "language": ("Language", "语言"),
    "keys": ("Keys", "快捷键"),
    # -- sections
    "overview": ("Tensors", "张量"),
    "unmatched": ("Unmatched", "未配对"),
    "rules": ("Rules", "规则"),
    "causes": ("What started it", "起因"),
    "first_failing": ("What fails first", "最先未通过"),
    "nobody_told": (
        "Nobody told which operator started it; these fail first in execution order.",
        "没有起因信息；以下按执行顺序最先未通过。",
    ),
    "localised_by": ("Found by: {by}.", "依据：{by}。"),
    "what_to_do": ("What to do", "下一步"),
    "do_look": ("Look at the line of the program that made it:", "查看产生它的程序行："),
    "do_rerun": ("Mend it and compare just this again:", "修正后仅重新比较它："),
    "do_open": ("Open it for its numbers, its worst elements and its files.", "打开它以查看数值、最差元素和文件。"),
    "coverage_problem": ("Coverage", "覆盖率"),
    "more_rows": ("and {n} more, in the table below", "另有 {n} 个，见下表"),
    "inherits": ("inherited by {n}", "被 {n} 个继承"),
    "chart": ("Error along execution order", "误差沿执行顺序的分布"),
    "chart_of": ("Show", "显示"),
    "ratio": ("error / limit", "误差 / 限值"),
    "one_less": ("1 − {m}", "1 − {m}"),
    "equal_row": ("equal", "相等"),
    "reset_zoom": ("Whole run", "全部"),
    "zoom_failing": ("First failure", "首个未通过"),
    "chart_help": (
        "Drag to zoom, wheel or + and − too, 0 for all; arrows move, n goes to the next failure, Enter opens.",
        "拖动可缩放，也可用滚轮或 + −，0 还原；方向键移动，n 到下一个未通过，回车打开。",
    ),
    "graph": ("The network", "网络结构"),
    "graph_help": (
        "Data flows downwards. Click or Enter opens a scope or an operator, Backspace folds. Dashed: not compared.",
        "数据自上而下流动。单击或按回车打开作用域或算子，退格键折叠。虚线框：未比较。",
    ),
    "scope_of": ("{n} operators", "{n} 个算子"),
    "scope_of_one": ("1 operator", "1 个算子"),
    "scope_fails": ("{f} of {n} operators fail", "{n} 个算子中 {f} 个未通过"),
    "scope_causes": ("{n} causes", "{n} 个起因"),
    "scope_causes_one": ("1 cause", "1 个起因"),
    "go_to": ("Go to", "定位到"),
    "open_scopes": ("{n} open scopes", "{n} 个已打开的作用域"),
    "open_scopes_one": ("1 open scope", "1 个已打开的作用域"),
    "fold": ("Fold", "折叠"),
    "reset_scopes": ("Reset", "还原"),
    "graph_more": ("{n} more are not drawn", "另有 {n} 个未画出"),
    # -- several results
    "results": ("Results", "结果"),
    "result": ("result", "结果"),
    "steps": ("Error of one tensor along steps", "单个张量的误差变化"),
    "steps_intro": (
        "Error over limit of each tensor, the largest first; the dashed line is the limit.",
        "各张量的误差与限值之比，从大到小；虚线为限值。",
    ),
    # -- table
    "search": ("Search names, types, files, rules", "搜索名称、类型、文件、规则"),
    "shown_of": ("{s} of {n}", "{s} / {n}"),
    "columns": ("Columns", "列"),
    "copy_csv": ("Copy as CSV", "复制为 CSV"),
    "copied": ("copied", "已复制"),
    "copy": ("Copy", "复制"),
    "nobody": ("No tensor matches the filter.", "没有符合筛选条件的张量。"),
    **_rows(["verdict"]),
    "role": ("role", "角色"),
    "order": ("op", "序号"),
    "operator": ("tensor of the left", "左侧张量"),
    "right": ("tensor of the right", "右侧张量"),
    "op_type": ("type", "类型"),
    "dtype": ("dtype", "数据类型"),
    "shape": ("shape", "形状"),
    "elements": ("elements", "元素数"),
    "differing": ("differing", "不同元素"),
    "rank": ("rank", "rank"),
    "net": ("net", "网络"),
    "graph_word": ("graph", "图"),
    "occurrence": ("occurrence", "出现次序"),
    "iteration": ("iteration", "迭代"),
    **_rows(["rule"]),
    # -- drawer
    "close": ("Close", "关闭"),
    "previous": ("Previous", "上一个"),
    "next": ("Next", "下一个"),
    "op_of": ("op {i} of {n} in execution order", "按执行顺序第 {i} 个算子，共 {n} 个"),
    "left_word": ("left", "左"),
    "right_word": ("right", "右"),
    "files": ("Files", "文件"),
    "address": ("tensor", "张量"),
    "limits_of": ("Limits", "限值"),
    **_rows(["metric", "value", "limit"]),
    "outcome": ("outcome", "结果"),
    "other_numbers": ("Other numbers", "其他数值"),
    "at": ("at {i}", "位于 {i}"),
    "worst": ("Worst elements", "最差元素"),
    "worst_of": ("{d} of {n} elements differ.", "{n} 个元素中有 {d} 个不同。"),
    **_rows(["index"]),
    "err_allowed": ("error / allowed", "误差 / 允许值"),
    "looks_like": ("Looks like", "疑似"),
    "confidence_high": ("sure", "确定"),
    "confidence_medium": ("likely", "可能"),
    "amplifies": ("Amplification", "放大倍数"),
    "inherited_from": ("Inherited from", "继承自"),
    "suspects": ("May have come from", "可能来自"),
    "not_compared": ("not compared", "未比较"),
    "says": ("Remarks", "说明"),
    "made_by": ("Made by", "产生于"),
    "would_pass": ("Would pass with", "放宽到以下限值即可通过"),
    "rerun": ("Compare just this again", "仅重新比较它"),
    "neighbours": ("Neighbours", "相邻算子"),
    "producers": ("takes from", "输入来自"),
    "consumers": ("gives to", "输出给"),
    "before_after": ("before and after in execution order", "执行顺序上的前后"),
    "arguments": ("Arguments", "参数"),
    "differs": ("differs", "不同"),
    "statistics": ("Statistics", "统计量"),
    "left_out": (
        "Worst elements and small arrays of this tensor are in results.json: this page had no room for them.",
        "此张量的最差元素等内容见 results.json：本页篇幅有限未收录。",
    ),
    "histogram": ("How large the errors are", "误差大小的分布"),
    "error_by_magnitude": ("Error against magnitude", "误差与数值大小"),
    "by_channel": ("Error by place along axis {a}", "沿轴 {a} 的误差"),
    "heat_map": ("Where the errors are", "误差所在的位置"),
    "heat_map_over": (
        "Where the errors are: axis {r} downwards, axis {c} across",
        "误差所在的位置：向下为轴 {r}，向右为轴 {c}",
    ),
    "values": ("Values of both sides", "两侧数值的分布"),
    "count": ("elements", "元素数"),
    "magnitude": ("magnitude of the right", "右侧数值大小"),
    "typical": ("typical", "典型"),
    "largest": ("largest", "最大"),
    # -- what a drift looks like, where the page says more than the terminal
    **_rows(code for code in EN if code.startswith("looks_") and code not in ("looks_like", "looks_unrelated")),
    "looks_unrelated": ("unrelated: a wrong pair?", "互不相关：可能配错了"),
    # -- pairs that look wrong
    "suspicious_title": ("Suspicious pairs", "可疑配对"),
    "suspicious_intro": (
        "These are far off, and another tensor fits far better.",
        "这些配对相差很大，而另有张量吻合得多。",
    ),
    "suspicious_one": ("Suspicious pair", "可疑配对"),
    "paired_with": ("paired with {right}", "现与 {right} 配对"),
    # -- unmatched and rules
    "unmatched_intro": (
        "{l} tensors of the left and {r} of the right have no partner.",
        "左侧 {l} 个、右侧 {r} 个张量没有配对。",
    ),
    "all_matched": ("Every tensor has a partner.", "所有张量均已配对。"),
    **_rows(["reason"]),
    "tensors": ("tensors", "张量"),
    "candidates": ("nearest", "相近的名称"),
    "suggested": ("suggested", "建议"),
    "is_clear": ("clear", "明确"),
    "is_ambiguous": ("ambiguous", "无法确定"),
    "missing_title": ("Named, but not paired", "已指定但未配对"),
    "list_cut": ("The first {n} are listed; results.json has all.", "仅列出前 {n} 个，全部见 results.json。"),
    "rules_intro": (
        "Each row is one who set a limit, and how many tensors it decided.",
        "每行是一个限值来源，以及由它判定的张量数。",
    ),
    "judged": ("judged", "判定数"),
    "failed": ("failed", "未通过"),
    "metrics_set": ("limits", "限值"),
    "never": ("never matched", "从未匹配"),
    "never_intro": (
        "Rules that no tensor met: a name that was changed, or a slip in the pattern.",
        "没有匹配任何张量的规则：名称可能已改变，或模式有误。",
    ),
    "known_drift": ("known drift", "已知偏差"),
    "nan_policy": ("NaN", "NaN"),
    # -- keys
    "key_search": ("search", "搜索"),
    "key_rows": ("move in the table", "在表中移动"),
    "key_open": ("open", "打开"),
    "key_close": ("close", "关闭"),
    "key_next": ("next, previous tensor in the drawer", "抽屉中下一个、上一个张量"),
    "key_failure": ("next failure in the chart", "图中下一个未通过"),
    "key_theme": ("theme", "主题"),
    "key_language": ("language", "语言"),
    "key_help": ("this list", "本列表"),
}
