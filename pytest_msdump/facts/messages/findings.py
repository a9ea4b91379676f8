"""What is found of a pair, as results.json says it, and in Chinese; fields as in `partners`."""

from __future__ import annotations

__all__ = ["FINDING_SENTENCES"]

# Of forms that begin alike the more particular one stands first.
FINDING_SENTENCES: tuple[tuple[str, str], ...] = (
    ("{why}; not accepted ({rule})", "{why}；不予接受（{rule}）"),
    (
        "the left file holds {n} bytes behind all that its header explains; they were not compared",
        "左侧文件在其文件头所说明的内容之后还有 {n} 个字节，未予比较",
    ),
    (
        "the right file holds {n} bytes behind all that its header explains; they were not compared",
        "右侧文件在其文件头所说明的内容之后还有 {n} 个字节，未予比较",
    ),
    (
        (
            "the left file is {dtype} and all its values are {kind}, but it was judged as {limit}; if it was computed "
            "so, add {entry} under [{a}]"
        ),
        "左侧文件为 {dtype}，而其所有值均为 {kind}，却按 {limit} 判定；如确以此精度计算，请在 [{a}] 下添加 {entry}",
    ),
    (
        (
            "the right file is {dtype} and all its values are {kind}, but it was judged as {limit}; if it was computed "
            "so, add {entry} under [{a}]"
        ),
        "右侧文件为 {dtype}，而其所有值均为 {kind}，却按 {limit} 判定；如确以此精度计算，请在 [{a}] 下添加 {entry}",
    ),
    (
        "the left file is {dtype} and all its values are {kind}; judged as {limit}, by {entry}",
        "左侧文件为 {dtype}，而其所有值均为 {kind}；依据 {entry} 按 {limit} 判定",
    ),
    (
        "the right file is {dtype} and all its values are {kind}; judged as {limit}, by {entry}",
        "右侧文件为 {dtype}，而其所有值均为 {kind}；依据 {entry} 按 {limit} 判定",
    ),
    (
        "the left file says shape {stored} and the graph of its run {used}, in which it was compared",
        "左侧文件的形状为 {stored}，而其运行的计算图为 {used}，按后者比较",
    ),
    (
        "the right file says shape {stored} and the graph of its run {used}, in which it was compared",
        "右侧文件的形状为 {stored}，而其运行的计算图为 {used}，按后者比较",
    ),
    (
        (
            "nonfinite_mismatch {value} is above {limit} ({rule}): NaN left {a}, right {b}; Inf left {c}, right "
            "{d}; first at {place}"
        ),
        (
            "nonfinite_mismatch 为 {value}，高于限值 {limit}（{rule}）：NaN 左侧 {a}、右侧 {b}；Inf 左侧 {c}、右"
            "侧 {d}；首个位于 {place}"
        ),
    ),
    (
        (
            "saturated_count {value} is above {limit} ({rule}): NaN, Inf or at its dtype's maximum on the left, "
            "where the right is finite and different; first at {place}"
        ),
        (
            "saturated_count 为 {value}，高于限值 {limit}（{rule}）：左侧为 NaN、Inf 或其数据类型的最大值，而右侧"
            "为有限且不同的值；首个位于 {place}"
        ),
    ),
    (
        "allclose {value} is above {limit} ({rule}): elements outside {tolerance}",
        "allclose 为 {value}，高于限值 {limit}（{rule}）：超出 {tolerance} 的元素数",
    ),
    (
        "{metric} does not apply where all is 0 or next to it; its limit is skipped ({rule})",
        "{metric} 不适用于全为 0 或仅差最小正数的张量，其限值略过（{rule}）",
    ),
    (
        "{metric} does not apply to one-element tensors; its limit is skipped ({rule})",
        "{metric} 不适用于单元素张量，其限值略过（{rule}）",
    ),
    (
        (
            "{metric} {value} leaves out {n_elements} where the right is 0 and the left is not, so its limit {limit} "
            "does not hold ({rule})"
        ),
        (
            "{metric} 为 {value}，但未计入右侧为 0 而左侧不为 0 的 {n_elements} 个元素，因此限值 {limit} 不成立"
            "（{rule}）"
        ),
    ),
    ("{metric} is undefined, because {why} ({rule})", "{metric} 无定义：{why}（{rule}）"),
    ("{why}; accepted down to {limit} by {rule}", "{why}；{rule} 允许低至 {limit}"),
    ("{why}; accepted up to {limit} by {rule}", "{why}；{rule} 允许高至 {limit}"),
    (
        "{metric} {value} is accepted down to {limit} by {rule}; no other limit names it",
        "{metric} 为 {value}，{rule} 允许低至 {limit}；没有其他限值",
    ),
    (
        "{metric} {value} is accepted up to {limit} by {rule}; no other limit names it",
        "{metric} 为 {value}，{rule} 允许高至 {limit}；没有其他限值",
    ),
    ("{metric} {value} is below warning level {limit} ({rule})", "{metric} 为 {value}，低于警告值 {limit}（{rule}）"),
    ("{metric} {value} is above warning level {limit} ({rule})", "{metric} 为 {value}，高于警告值 {limit}（{rule}）"),
    ("{metric} {value} is below {limit} ({rule})", "{metric} 为 {value}，低于限值 {limit}（{rule}）"),
    ("{metric} {value} is above {limit} ({rule})", "{metric} 为 {value}，高于限值 {limit}（{rule}）"),
    (
        "dtypes differ: left {left}, right {right}, but must be equal ({rule})",
        "数据类型不同：左侧 {left}，右侧 {right}，而要求相同（{rule}）",
    ),
    (
        "dtypes differ: left {left}, right {right}; judged as {dtype}, the coarser side",
        "数据类型不同：左侧 {left}，右侧 {right}；按较粗的 {dtype} 判定",
    ),
    (
        "dtypes differ: left {left}, right {right}; all values are equal",
        "数据类型不同：左侧 {left}，右侧 {right}；所有值相等",
    ),
    (
        "dtypes differ: left {left}, right {right}; that is accepted only where all values are equal, and {n} are not",
        "数据类型不同：左侧 {left}，右侧 {right}；仅当所有值相等时才允许，而有 {n} 个不等",
    ),
    (
        (
            "dtypes differ: left {left}, right {right}; a real tensor is not compared with a complex one; where that "
            "is meant, add {entry}"
        ),
        "数据类型不同：左侧 {left}，右侧 {right}；实数张量不与复数张量比较；如确有此意，请添加 {entry}",
    ),
    ("dtypes differ: left {left}, right {right}", "数据类型不同：左侧 {left}，右侧 {right}"),
    (
        (
            "NaN and Inf are forbidden ({rule}) but stand at {n} of {m} positions: NaN matched {a}, else left {b}"
            ", right {c}; Inf matched {d}, else left {e}, right {f}; first at {place}"
        ),
        (
            "不允许 NaN 和 Inf（{rule}），而 {m} 个位置中有 {n} 个：NaN 两侧相同 {a}，否则左侧 {b}、右侧 {c}；"
            "Inf 两侧相同 {d}，否则左侧 {e}、右侧 {f}；首个位于 {place}"
        ),
    ),
    ("the device's own check found an overflow: {told}", "设备自身的检查发现溢出：{told}"),
    ("the device's check of the right side: {told}", "设备对右侧的检查：{told}"),
    ("sampled {n} of {m} elements: the run saved no more of them", "抽样比较 {m} 个元素中的 {n} 个：运行没有保存更多"),
    (
        "sampled {n} of an unknown number of elements: the run saved no more of them",
        "抽样比较 {n} 个元素，总数未知：运行没有保存更多",
    ),
    ("only the first {n} of {m} elements were compared", "仅比较了 {m} 个元素中的前 {n} 个"),
    ("nothing was compared: both sides are empty", "没有比较任何内容：两侧均为空"),
    (
        "the sides differ, but no limit applies to them; give one, e.g. max_absolute_error",
        "两侧不同，但没有适用的限值；请给出一个，例如 max_absolute_error",
    ),
    (
        'known drift "{reason}" expired on {date}: normal limits hold',
        "已知偏差“{reason}”已于 {date} 到期：按正常限值判定",
    ),
    (
        "the {side} side has this tensor {n} times, and this is occurrence {m}",
        "{side}有此张量 {n} 次，这是第 {m} 次（从 0 起）",
    ),
    (
        "further occurrences of this tensor on the {side} side that met no partner and were not compared: {n} ({rule})",
        "{side}另有 {n} 次此张量没有配对，因而未比较（{rule}）",
    ),
    (
        "further occurrences of this tensor on the {side} side that met no partner and were not compared: {n}",
        "{side}另有 {n} 次此张量没有配对，因而未比较",
    ),
    # -- shapes that do not meet
    (
        (
            "left {left} has {n_elements}, right {right} has {m_elements}: not the same tensor, or not the same "
            "input; map the one that is meant"
        ),
        (
            "左侧 {left} 有 {n_elements} 个元素，右侧 {right} 有 {m_elements} 个元素：不是同一张量，或输入不同；"
            "请在映射中指明应配对的张量"
        ),
    ),
    (
        "left {left} and right {right} hold the same dimensions in another order: {told}",
        "左侧 {left} 与右侧 {right} 维度相同而次序不同：{told}",
    ),
    (
        "left {left} and right {right} differ in axes of length 1 only: {told}",
        "左侧 {left} 与右侧 {right} 仅长度为 1 的轴不同：{told}",
    ),
    (
        (
            "left {left} and right {right} have {n_elements} each, grouped differently: `reshape = true` if the "
            "values come in the same order"
        ),
        "左侧 {left} 与右侧 {right} 各有 {n_elements} 个元素而形状不同：若值的次序相同，可写 `reshape = true`",
    ),
    # -- why a metric has no number
    ("it was not measured", "未测量"),
    ("it was left out by {rule}", "已由 {rule} 略去"),
    ("no elements", "没有元素"),
    ("no position where both sides are finite", "没有两侧均为有限值的位置"),
    ("all elements of the left side are 0", "左侧所有元素均为 0"),
    ("all elements of the right side are 0", "右侧所有元素均为 0"),
    ("all elements of both sides are 0", "两侧所有元素均为 0"),
    (
        "the right side is 0 and the left side is not, at every position where both are finite",
        "在两侧均为有限值的每个位置上，右侧为 0 而左侧不为 0",
    ),
    ("the number is larger than float64 can hold", "数值超出 float64 的范围"),
    ("the difference of two elements is larger than float64 can hold", "两个元素之差超出 float64 的范围"),
    ("the modulus of an element is larger than float64 can hold", "某个元素的模超出 float64 的范围"),
    (
        "all of the right side is 0, and nothing of the left is further from it than {dtype} rounds",
        "右侧全为 0，左侧与 0 的差不超过 {dtype} 的舍入",
    ),
    ("a relative error is larger than float64 can hold", "某个相对误差超出 float64 的范围"),
    (
        "the moduli of the right side are so small that float64 has few digits of them",
        "右侧的模太小，float64 无法精确表示",
    ),
    ("the range of a side is larger than float64 can hold", "某一侧的取值范围超出 float64"),
    ("the tensors are complex", "张量为复数"),
    ("dtypes differ: {left} and {right}", "数据类型不同：{left} 与 {right}"),
    # -- what statistics tell
    ("digests differ: the tensors are not equal bit by bit", "摘要不同：张量并非逐位相等"),
    ("digests are equal: so are all bits", "摘要相同：逐位相等"),
    ("statistics do not tell, so not judged: {listed}", "统计量无法说明，因此未判定：{listed}"),
    (
        "no limit applies to what statistics tell; give one, e.g. max_absolute_error",
        "没有适用于统计量的限值；请给出一个，例如 max_absolute_error",
    ),
    ("{name} has changed its sign: {left} left, {right} right", "{name} 的符号改变：左侧 {left}，右侧 {right}"),
    ("zeros: {left} left, {right} right, of {m} elements", "零的个数：左侧 {left}，右侧 {right}，共 {m} 个元素"),
    (
        "at least {n} of {m} elements have changed their sign, more than {share} of them",
        "{m} 个元素中至少 {n} 个符号改变，超过 {share}",
    ),
)
