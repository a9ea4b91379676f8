"""What a drift looks like, and what speaks for it, in English and in Chinese beside each other."""

from __future__ import annotations

from typing import NamedTuple

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# what a drift looks like
looks_nonfinite | NaN or Inf | NaN 或 Inf
looks_constant | constant | 处处为同一值
looks_sign_flipped | sign-flipped | 符号相反
looks_scaled | scaled | 按比例缩放
looks_offset | shifted by a constant | 整体偏移一个常数
looks_rounded | rounded to a lower precision | 舍入到较低精度
looks_clipped | clipped | 被截断（限幅）
looks_flushed_to_zero | flushed to zero | 小值被置零
looks_one_slice | one slice wrong | 仅一个切片出错
looks_padding | padding included | 混入了填充
looks_shifted_by_one | shifted by one | 错开一位
looks_transposed | transposed | 转置
looks_memory_format | other memory format | 内存格式不同
looks_permuted | permuted | 元素次序打乱
looks_unrelated | unrelated | 互不相关
looks_other_default | another default | 默认值不同
# what speaks for a diagnosis
explains_share | {why}; that explains {share:percent} of the squared difference | {why}；这解释了平方差的 {share:percent}
left_is_minus_right | left = -right | 左 = −右
left_is_scaled | left = {factor:.6g} * right | 左 = {factor:.6g} × 右
left_is_offset | left = right {sign} {constant:.6g} | 左 = 右 {sign} {constant:.6g}
left_stops_at_both_ends | the left is the right, clipped to {low:short} below and {high:short} above{largest} | 左侧是右侧被截断的结果：下限 {low:short}，上限 {high:short}{largest}
left_stops_below | the left is the right, clipped to {low:short} below | 左侧是右侧被截断的结果：下限 {low:short}
left_stops_above | the left is the right, clipped to {high:short} above{largest} | 左侧是右侧被截断的结果：上限 {high:short}{largest}
largest_of_type |  (the largest {dtype}) | （{dtype} 最大值）
small_values_are_zero | right values up to {bound:.6g} are 0 on the left, and no larger one is | 右侧中不大于 {bound:.6g} 的值在左侧均为 0，更大的则不是
left_is_rounded | the left is the right rounded to {grid} | 左侧是右侧舍入到 {grid} 的结果
left_is_in_steps | the left is the right rounded to steps of {step:.6g}, like a quantised tensor | 左侧是右侧按步长 {step:.6g} 取整的结果，如同量化的张量
default_slope | LeakyReLU's slope is 20 times the right's: 0.2 is MindSpore's default, 0.01 PyTorch's ({page}) | LeakyReLU 的斜率是右侧的 20 倍：MindSpore 默认 0.2，PyTorch 默认 0.01（{page}）
default_gelu | the left is GELU by tanh, MindSpore's default, the right by erf, PyTorch's ({page}) | 左侧为 tanh 形式的 GELU，即 MindSpore 的默认；右侧为 erf 形式，即 PyTorch 的默认（{page}）
default_softmax | sums are 1 along axis {left}, on the right {right}: MindSpore's default is the last ({page}) | 左侧沿轴 {left} 之和为 1，右侧沿轴 {right}：MindSpore 默认取最后一个轴（{page}）
default_epsilon | rows differ as by LayerNorm's epsilon: 1e-7 is MindSpore's default, 1e-5 PyTorch's ({page}) | 各行之差如同 LayerNorm 的 epsilon 1e-7（MindSpore 默认）与 1e-5（PyTorch 默认）（{page}）
default_momentum | 9 times the right's step: MindSpore's momentum weighs the old value, not the new ({page}) | 变化量是右侧的 9 倍：momentum 在 MindSpore 中是旧值的权重，在 PyTorch 中是新值的（{page}）
left_is_constant | every left element is {value:short}; the right ranges from {low:.6g} to {high:.6g} | 左侧所有元素均为 {value:short}；右侧从 {low:.6g} 到 {high:.6g}
same_values_elsewhere | both sides have the same {n} values, in different places | 两侧是相同的 {n} 个值，而位置不同
sorted_alike | sorted, the sides differ by {apart:.3g} on average; two samples of one distribution would differ by {chance:.3g} | 排序后两侧平均相差 {apart:.3g}，而同一分布的两组样本会相差 {chance:.3g}
ranks_uncorrelated | the rank correlation is {correlation:.3f}, and the values are distributed differently | 秩相关为 {correlation:.3f}，且值的分布不同
ranks_uncorrelated_alike | the rank correlation is {correlation:.3f}, but the values are distributed alike: the same tensor in another order, or a neighbour of the intended one | 秩相关为 {correlation:.3f}，而值的分布相似：次序不同的同一张量，或应配对者的邻近张量
flat_shift_before | in flat order, each left element is the right element before it | 按展平次序，左侧的每个元素是右侧的前一个元素
flat_shift_behind | in flat order, each left element is the right element after it | 按展平次序，左侧的每个元素是右侧的后一个元素
axis_shift_before | along axis {axis}, each left element is the right element before it | 沿轴 {axis}，左侧的每个元素是右侧的前一个元素
axis_shift_behind | along axis {axis}, each left element is the right element after it | 沿轴 {axis}，左侧的每个元素是右侧的后一个元素
border_of_zeros_first | the left begins with a border of zeros along axes {axes:index}, and the right follows, shifted | 左侧沿轴 {axes:index} 以 0 边框开头，其后是平移了的右侧
border_of_zeros | the left has a border of zeros along axes {axes:index}, and the right beside it, shifted | 左侧沿轴 {axes:index} 有 0 边框，其旁是平移了的右侧
axis_is_padded | axis {axis} of the left is padded from {n} to {m}, and the padding was not removed | 左侧的轴 {axis} 由 {n} 填充到 {m}，而读取时未去除填充
zero_but_inside | the left is 0 except at {parts}, where it equals the right: the rest looks like padding | 左侧除{parts}与右侧相同外均为 0：其余像是填充
axes_in_other_order | the {side:word} equals the {other:word} with its axes in the order {axes:index}{name} | {side:word}逐元素等于{other:word}按轴序 {axes:index}{name} 排列的结果
name_in_brackets |  ({name}) | （{name}）
still_in_memory_format | the {side:word} is still in {memory_format}, in blocks of {block}: converted back, it equals the other side | {side:word}仍为 {memory_format} 内存格式（块大小 {block}）：还原后与另一侧相同
only_slice_differs | {share:percent} of the squared difference is at {parts}, where {n} of {m} elements differ; none of the other {rest} differ | 平方差的 {share:percent} 位于{parts}，其中 {m} 个元素有 {n} 个不同；其余 {rest} 个均相同
slice_differs_most | {share:percent} of the squared difference is at {parts}, where {n} of {m} elements differ; of the other {rest}, {k} differ | 平方差的 {share:percent} 位于{parts}，其中 {m} 个元素有 {n} 个不同；其余 {rest} 个中有 {k} 个不同
index_of_axis | index {index} of axis {axis} | 轴 {axis} 的下标 {index}
range_of_axis | {first} to {last} of axis {axis} | 轴 {axis} 的 {first} 至 {last}
nonfinite_on_one_side | {parts}, of {elements} elements, where the other side differs; the first at {place:place} | {elements} 个元素中有{parts}，而另一侧为其他值，首个位于 {place:place}
count_on_side | {n} {kind} on the {side:word} | {side:word} {n} 个 {kind}
"""
)

# From the weaker to the stronger. Only `high` claims to be right, of all elements that were compared.
CONFIDENCES = ("medium", "high")


class DiagnosisFact(NamedTuple):
    """One row; `within` are the more general kinds that it wins over. What reports call it is text, ``looks_…``."""

    sentence: str
    within: frozenset[str] = frozenset()


_MOVED = frozenset({"permuted", "unrelated"})

DIAGNOSES: dict[str, DiagnosisFact] = {
    "nonfinite": DiagnosisFact("NaN or Inf on one side where the other has a number"),
    "constant": DiagnosisFact(
        "the left is one value everywhere, and the right is not: it was never written, or filled",
        frozenset({"scaled", "offset", "clipped", "flushed_to_zero", "rounded", "unrelated", "padding", "one_slice"}),
    ),
    "sign_flipped": DiagnosisFact("the left is the right with the other sign", frozenset({"scaled"})),
    "scaled": DiagnosisFact("the left is the right times one factor"),
    "offset": DiagnosisFact("the left is the right plus one constant"),
    "rounded": DiagnosisFact(
        "the right, rounded to a coarser grid of numbers, is the left", frozenset({"clipped", "flushed_to_zero"})
    ),
    "clipped": DiagnosisFact("the left stops at a value that the right goes beyond, and equals it inside"),
    "flushed_to_zero": DiagnosisFact("small values of the right are 0 in the left"),
    "one_slice": DiagnosisFact("one channel, row or batch entry differs and the rest agrees"),
    "padding": DiagnosisFact(
        "the left holds padding where the right has values, or was read as if its padding were values",
        frozenset({"shifted_by_one", "one_slice", "permuted", "unrelated"}),
    ),
    "shifted_by_one": DiagnosisFact("each element of the left is its neighbour in the right", _MOVED),
    "transposed": DiagnosisFact("the left is the right with its axes in another order", _MOVED),
    "memory_format": DiagnosisFact("the left is the right, still in a device's memory format", _MOVED),
    "permuted": DiagnosisFact("the left has the values of the right at other places", frozenset({"unrelated"})),
    "other_default": DiagnosisFact(
        "PyTorch and MindSpore do not share a default, and the difference is what that makes",
        frozenset({"scaled", "clipped", "unrelated"}),
    ),
    "unrelated": DiagnosisFact("the two have nothing in common: probably a wrong pair"),
}

_PAGE = "docs/reference/what_differs_by_default.md"

# The code of a sentence → what a type or name of the operator has to match, in any case, and where its row stands.
DEFAULTS: dict[str, tuple[str, str]] = {
    "default_slope": ("leaky_?relu", f"{_PAGE}#activations"),
    "default_gelu": ("gelu", f"{_PAGE}#activations"),
    "default_softmax": ("soft_?(max|min)", f"{_PAGE}#activations"),
    "default_epsilon": ("layer_?norm", f"{_PAGE}#normalisation"),
    "default_momentum": ("(moving|running)_(mean|var)", f"{_PAGE}#normalisation"),
}
