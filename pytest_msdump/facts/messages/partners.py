"""Why a tensor has no partner, as results.json says it, and in Chinese.

The English is written where it is found out, and kept by `results.json`; a terminal or a page in another language knows
a sentence again by its form here, and says it from its parts. `{why}` is a sentence again, `{whys}` a list of such,
`{side}` and `{other}` are left or right, `{io}` input or output, `{n}`, `{m}` and `{k}` counts; any other
field is kept as it is.
"""

from __future__ import annotations

from pytest_msdump.facts.operators import REASONS

__all__ = ["REASON_SENTENCES"]

_REASONS_ZH: dict[str, str] = {
    "inserted": "由编译器插入：原始模型中没有对应的算子",
    "inner": "多对多融合的内部节点",
    "fused": "已融合到 {op}：编译后的模型中不再有它自己的输出",
    "no_origin": "{rule} 没有为 {op} 的此输出给出原始模型的张量",
    "no_slot": "{rule} 没有列出 {op} 的 {io} {slot}",
    "unconnected": "{rule} 表明 {op} 的输入 {slot} 没有来源",
    "unknown_producer": "{rule} 中没有应产生此输入的算子 {op}",
    "circle": "{rule} 在 {op} 处沿 Cast 和 TransData 算子成环",
    "strided_slice": "编译器改动了此 strided slice 周围的图：原始模型中没有对应的算子",
    "l1_fusion": "L1 融合组 {group} 在张量的切片上计算：只比较首个和末个算子",
    "l2_fusion": "L2 融合组 {group} 改变了图的结构：原始模型中没有对应的算子",
    "aipp": "AIPP 在设备上改变了输入，因此 {op} 的值不是原始模型的输入",
    "quant_output": "量化的输出：反量化之后才可比较",
    "quantised": "位于量化与反量化之间：反量化之后才可比较",
    "quantised_input": "来自量化的输出：反量化之后才可比较",
    "dequant_input": "反量化的输入：反量化之后才可比较",
    "data": "Data 算子不执行，因此没有转储",
    "const": "常量不执行，因此没有转储",
    "no_result": "此类算子没有输出结果，因此没有转储",
    "not_executed": "此类算子不在 AI Core 或 AI CPU 上执行，因此没有转储",
    "right_input": "规则文件以产生输入的算子的输出与左侧的输入配对",
}

# Of forms that begin alike the more particular one stands first.
REASON_SENTENCES: tuple[tuple[str, str], ...] = (
    *((REASONS[key], chinese) for key, chinese in _REASONS_ZH.items()),
    ("no operator of that name on the {side} side", "{side}没有此名称的算子"),
    (
        "no operator of that name on the {side} side, which dumped only what its kernels list names ({listed})",
        "{side}没有此名称的算子，其转储仅限 kernels 列表所指的算子（{listed}）",
    ),
    ("no operator {name} on the {side} side", "{side}没有算子 {name}"),
    ("no operator {name} on the {side} side at ({place})", "{side}在（{place}）处没有算子 {name}"),
    ("the {side} side is empty", "{side}为空"),
    ("same name", "名称相同"),
    ("same name as {name}", "与 {name} 同名"),
    ("older run", "较早的一次运行"),
    ("another tensor of this side has the same address at the same place", "本侧另有张量的地址和位置与之相同"),
    (
        "the {side} side has it in {theirs} only, not in {ours}; align says who meets whom",
        "{side}仅在 {theirs} 有它，而不在 {ours}；由 align 指定如何对应",
    ),
    ("the {side} side has it in {theirs} only, not in {ours}", "{side}仅在 {theirs} 有它，而不在 {ours}"),
    (
        "the {side} side has it only at {places}, not at ({place}); align says who meets whom",
        "{side}仅在 {places} 有它，而不在（{place}）；由 align 指定如何对应",
    ),
    (
        "the {side} side has it only at {places}, which the selection leaves out",
        "{side}仅在 {places} 有它，而这不在所选范围内",
    ),
    ("{name} on the {side} side has no {slot}; it has {slots}", "{side}的 {name} 没有 {slot}，仅有 {slots}"),
    ("{rule} does not know output {n} of {name}", "{rule} 没有 {name} 的输出 {n}"),
    ("the selection leaves out {name} on the {side} side", "{side}的 {name} 不在所选范围内"),
    ("{name} on the {side} side is paired with {partner}", "{side}的 {name} 已与 {partner} 配对"),
    ("{name} on the {side} side is paired by a map entry", "{side}的 {name} 已由映射条目配对"),
    ("{name} on the {side} side is paired otherwise", "{side}的 {name} 已另行配对"),
    ("{name} on the {side} side is not selected", "{side}的 {name} 未选中"),
    ("{name} on the {side} side is kept for a map entry: {why}", "{side}的 {name} 留给映射条目：{why}"),
    (
        "{name} on the {side} side is left alone, since its name is ambiguous",
        "{side}的 {name} 未参与配对，因其名称有歧义",
    ),
    (
        "ambiguous: {ours} on the left and {theirs} on the right share a name; a map entry can tell them apart",
        "有歧义：左侧的 {ours} 与右侧的 {theirs} 同名；可用映射条目区分",
    ),
    (
        "ambiguous: {rule} pairs it with {name}, which may be {names} on the right side",
        "有歧义：{rule} 将其与 {name} 配对，而右侧可能是 {names}",
    ),
    ("{rule} pairs it with {name}, which the selection leaves out", "{rule} 将其与 {name} 配对，而后者不在所选范围内"),
    (
        "{rule} pairs it with {name}, which the {side} side did not dump",
        "{rule} 将其与 {name} 配对，而{side}未转储后者",
    ),
    (
        "{rule} pairs it with {name}, which the {side} side did not dump (at {place})",
        "{rule} 将其与 {name} 配对，而{side}未转储后者（{place}）",
    ),
    (
        "{rule} pairs it with {name}, which has no tensor left for this slot",
        "{rule} 将其与 {name} 配对，而后者没有可用于此输出的张量",
    ),
    (
        "{rule} pairs it with {name}, but the {side} side has only {slots}",
        "{rule} 将其与 {name} 配对，而{side}仅有 {slots}",
    ),
    (
        "{rule} pairs it with {name}, but the {side} side has no such output of it",
        "{rule} 将其与 {name} 配对，而{side}没有它的此输出",
    ),
    ("{rule} pairs it with {name}: {why}", "{rule} 将其与 {name} 配对：{why}"),
    # -- what the other run was told to dump
    (
        "not dumped: the {side} run dumped only what its script names with set_dump",
        "未转储：{side}仅转储脚本以 set_dump 指定的算子",
    ),
    (
        "not dumped: the {side} run dumped only operators that overflowed (op_debug_mode 3 in {file})",
        "未转储：{side}仅转储发生溢出的算子（{file} 中 op_debug_mode 为 3）",
    ),
    (
        "not dumped: the {side} run dumped only inputs of an operator with an exception (op_debug_mode 4 in {file})",
        "未转储：{side}仅转储发生异常的算子的输入（{file} 中 op_debug_mode 为 4）",
    ),
    (
        "not dumped: iteration {n} is not selected on the {side} side (iteration {listed})",
        "未转储：{side}未选择迭代 {n}（iteration {listed}）",
    ),
    (
        "not dumped: {io} only on the {side} side (input_output in {file})",
        "未转储：{side}仅转储 {io}（{file} 中的 input_output）",
    ),
    (
        "not dumped: the kernels list of the {side} side does not name it ({listed})",
        "未转储：{side}的 kernels 列表未包含它（{listed}）",
    ),
    ("not dumped: {type} takes a text, which MindSpore cannot dump", "未转储：{type} 的输入是文本，MindSpore 无法转储"),
    (
        "not dumped: it is empty, {shape} in the graph, and MindSpore writes no empty tensors",
        "未转储：它是空张量（图中为 {shape}），MindSpore 不写空张量",
    ),
    (
        "not dumped: {dtype}, which MindSpore could not dump on the {side} side",
        "未转储：{side}的 MindSpore 无法转储 {dtype}",
    ),
    (
        (
            "not dumped: a graph of the {side} run has it, and nothing says that it was left out: the run ended "
            "before, or the file is gone"
        ),
        "未转储：{side}的图中有它，且没有说明被略去：可能运行提前结束，或文件已丢失",
    ),
)
