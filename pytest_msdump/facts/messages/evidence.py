"""What speaks for a diagnosis, as results.json says it, and in Chinese; fields as in `partners`."""

from __future__ import annotations

__all__ = ["EVIDENCE_SENTENCES"]

# Of forms that begin alike the more particular one stands first.
EVIDENCE_SENTENCES: tuple[tuple[str, str], ...] = (
    ("{why}; that explains {share} of the squared difference", "{why}；这解释了平方差的 {share}"),
    ("left = -right", "左 = −右"),
    ("left = {factor} * right", "左 = {factor} × 右"),
    ("left = right {sign} {constant}", "左 = 右 {sign} {constant}"),
    (
        "the left stops at {low} below and at {high} above, the largest {dtype}, and is the right in between",
        "左侧下止于 {low}、上止于 {high}（{dtype} 最大值），其间与右侧相同",
    ),
    (
        "the left stops at {high} above, the largest {dtype}, and is the right in between",
        "左侧上止于 {high}（{dtype} 最大值），其余与右侧相同",
    ),
    (
        "the left stops at {low} below and at {high} above, and is the right in between",
        "左侧下止于 {low}、上止于 {high}，其间与右侧相同",
    ),
    ("the left stops at {low} below, and is the right in between", "左侧下止于 {low}，其余与右侧相同"),
    ("the left stops at {high} above, and is the right in between", "左侧上止于 {high}，其余与右侧相同"),
    (
        "what is no larger than {bound} in the right is 0 in the left, and nothing larger is",
        "右侧中不大于 {bound} 的值在左侧均为 0，更大的则不是",
    ),
    ("the left is the right rounded to {grid}", "左侧是右侧舍入到 {grid} 的结果"),
    (
        "the left is the right in steps of {step}, as a quantised tensor has",
        "左侧是右侧按步长 {step} 取整的结果，如同量化的张量",
    ),
    (
        "every element of the left is {value}; the right goes from {low} to {high}",
        "左侧所有元素均为 {value}；右侧从 {low} 到 {high}",
    ),
    ("both sides hold the same {n} values, at other places", "两侧是相同的 {n} 个值，而位置不同"),
    (
        "sorted, both sides are {apart} apart on average, where two samples of one distribution would be {chance}",
        "排序后两侧平均相差 {apart}，而同一分布的两组样本会相差 {chance}",
    ),
    (
        "the correlation of the ranks is {value}, and the values are distributed differently",
        "秩相关为 {value}，且值的分布不同",
    ),
    (
        (
            "the correlation of the ranks is {value}, and the values are distributed alike: the same in another "
            "order, or a neighbour of the right one"
        ),
        "秩相关为 {value}，而值的分布相似：次序不同的同一张量，或应配对者的邻近张量",
    ),
    (
        "each element of the left is, in the flat order, the element before it in the right",
        "按展平次序，左侧的每个元素是右侧的前一个元素",
    ),
    (
        "each element of the left is, in the flat order, the element behind it in the right",
        "按展平次序，左侧的每个元素是右侧的后一个元素",
    ),
    (
        "along axis {axis}, each element of the left is the element before it in the right",
        "沿轴 {axis}，左侧的每个元素是右侧的前一个元素",
    ),
    (
        "along axis {axis}, each element of the left is the element behind it in the right",
        "沿轴 {axis}，左侧的每个元素是右侧的后一个元素",
    ),
    (
        "the left begins with a border of 0 along axes {axes}, and the right follows moved by it",
        "左侧沿轴 {axes} 以 0 边框开头，其后是平移了的右侧",
    ),
    (
        "the left has a border of 0 along axes {axes}, and the right beside it, moved",
        "左侧沿轴 {axes} 有 0 边框，其旁是平移了的右侧",
    ),
    (
        "the left holds axis {axis} padded from {n} to {m}, and was read without that",
        "左侧的轴 {axis} 由 {n} 填充到 {m}，而读取时未去除填充",
    ),
    (
        "the left is 0 but for {whys}, where it is the right: the rest looks like padding",
        "左侧除{whys}与右侧相同外均为 0：其余像是填充",
    ),
    (
        "the {side} holds, element by element, the {other} with its axes in the order {axes}",
        "{side}逐元素等于{other}按轴序 {axes} 排列的结果",
    ),
    (
        "the {side} is still in {name}, in blocks of {n}: undone, it is the other side",
        "{side}仍为 {name} 内存格式（块大小 {n}）：还原后与另一侧相同",
    ),
    (
        (
            "{share} of the squared difference is at {whys}, where {n} of {m} elements differ; of the other "
            "{rest}, none does"
        ),
        "平方差的 {share} 位于{whys}，其中 {m} 个元素有 {n} 个不同；其余 {rest} 个均相同",
    ),
    (
        "{share} of the squared difference is at {whys}, where {n} of {m} elements differ; of the other {rest}, {k} do",
        "平方差的 {share} 位于{whys}，其中 {m} 个元素有 {n} 个不同；其余 {rest} 个中有 {k} 个不同",
    ),
    (
        "{whys} of {m} elements where the other side has something else, the first at {place}",
        "{m} 个元素中有{whys}，而另一侧为其他值，首个位于 {place}",
    ),
    ("{n} {kind} on the {side}", "{side} {n} 个 {kind}"),
    ("index {n} of axis {m}", "轴 {m} 的下标 {n}"),
    ("{n} to {k} of axis {m}", "轴 {m} 的 {n} 至 {k}"),
)
