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
looks_other_order | in another order | 次序不同
looks_one_part | wrong in a part | 仅一部分出错
looks_other_turn | turned by other positions | 按其他位置旋转
looks_other_scores | attention by other scores | 注意力分数不同
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
slices_exchanged | along axis {axis}, indexes {a} and {b} are exchanged | 沿轴 {axis}，下标 {a} 与 {b} 互换
blocks_exchanged | along axis {axis} in blocks of {width}, numbers {a} and {b} are exchanged | 沿轴 {axis} 每块 {width}，第 {a} 块与第 {b} 块互换
halves_exchanged | along axis {axis}, the halves of each {width} are exchanged, as first and second half of a head | 沿轴 {axis}，每 {width} 个的前后两半互换，如同注意力头的前后两半
pairs_to_halves | along axis {axis}, what stands in pairs on the right stands in halves on the left, of each {width}: interleaved and halved heads, as of RoPE | 沿轴 {axis}，每 {width} 个在右侧成对相邻、在左侧分为前后两半：如同 RoPE 的交错与对半两种排法
halves_to_pairs | along axis {axis}, what stands in halves on the right stands in pairs on the left, of each {width}: halved and interleaved heads, as of RoPE | 沿轴 {axis}，每 {width} 个在右侧分为前后两半、在左侧成对相邻：如同 RoPE 的对半与交错两种排法
heads_in_turn | along axis {axis}, heads ({width} each) are repeated all in turn, on the right each in a row: repeat against repeat_interleave | 沿轴 {axis}，左侧整体轮流重复各头（每头 {width}），右侧逐头重复：repeat 与 repeat_interleave 之别
heads_in_row | along axis {axis}, heads ({width} each) are repeated each in a row, on the right all in turn: repeat_interleave against repeat | 沿轴 {axis}，左侧逐头重复（每头 {width}），右侧整体轮流重复：repeat_interleave 与 repeat 之别
parts_by_head | along axis {axis}, {b} groups of {a} blocks of {width} stand as {a} groups of {b}, as q, k and v of each head side by side, not all of q first | 沿轴 {axis}，宽 {width} 的块由 {b} 组、每组 {a} 块排成 {a} 组、每组 {b} 块，如同每个头的 q、k、v 相邻，而非先排完 q
blocks_regrouped | along axis {axis}, {b} groups of {a} blocks of {width} stand as {a} groups of {b} | 沿轴 {axis}，宽 {width} 的块由 {b} 组、每组 {a} 块排成 {a} 组、每组 {b} 块
blocks_in_order | along axis {axis}, the left has the right's blocks of {width} in the order {order:index} | 沿轴 {axis}，左侧按 {order:index} 的次序排列右侧宽 {width} 的块
heads_not_joined | the last two axes were made of {n} heads of {width} before the heads stood behind the tokens | 合并 {n} 个宽 {width} 的头之前，未把头轴移到token轴之后
turned_by_offset | pairs of channels are turned alike at all of axis {axis}, as by RoPE whose positions begin elsewhere | 各通道对沿轴 {axis} 处处旋转相同的角度，如同 RoPE 的位置起点不同
turned_by_speed | pairs of channels are turned further and further along axis {axis}, as by RoPE of another base, scaling or direction | 各通道对沿轴 {axis} 旋转得越来越多，如同 RoPE 的底数、缩放或方向不同
turned_by_token | pairs of channels are turned by other angles along axis {axis}, as by RoPE of other positions | 各通道对沿轴 {axis} 旋转的角度不同，如同 RoPE 的位置不同
turned_in_pairs | along axis {axis}, RoPE of base {base:short} turns neighbouring channels, on the right those half a head apart | 沿轴 {axis}，底数 {base:short} 的 RoPE 旋转相邻通道，而右侧旋转相距半个头的通道
turned_in_halves | along axis {axis}, RoPE of base {base:short} turns channels half a head apart, on the right neighbours | 沿轴 {axis}，底数 {base:short} 的 RoPE 旋转相距半个头的通道，而右侧旋转相邻通道
axes_in_other_order | the {side:word} equals the {other:word} with its axes in the order {axes:index}{name} | {side:word}逐元素等于{other:word}按轴序 {axes:index}{name} 排列的结果
name_in_brackets |  ({name}) | （{name}）
still_in_memory_format | the {side:word} is still in {memory_format}, in blocks of {block}: converted back, it equals the other side | {side:word}仍为 {memory_format} 内存格式（块大小 {block}）：还原后与另一侧相同
only_slice_differs | {share:percent} of the squared difference is at {parts}, where {n} of {m} elements differ; none of the other {rest} differ | 平方差的 {share:percent} 位于{parts}，其中 {m} 个元素有 {n} 个不同；其余 {rest} 个均相同
slice_differs_most | {share:percent} of the squared difference is at {parts}, where {n} of {m} elements differ; of the other {rest}, {k} differ | 平方差的 {share:percent} 位于{parts}，其中 {m} 个元素有 {n} 个不同；其余 {rest} 个中有 {k} 个不同
only_part_differs | only this differs: {parts}{hint} | 仅此处不同：{parts}{hint}
from_index | axis {axis} from index {first} on | 轴 {axis} 自下标 {first} 起
every_index | every index {first} + {step}n of axis {axis} | 轴 {axis} 的每个下标 {first} + {step}n
blocks_of_axis | along axis {axis} block {numbers} of {n}, of {width} each | 沿轴 {axis} 的 {n} 块（每块 {width}）中第 {numbers} 块
places_of_axis | {numbers} of axis {axis} | 轴 {axis} 的 {numbers}
until_in_rows | of axis {axis} the first {numbers:index}, by row of axis 0 | 轴 {axis} 的前 {numbers:index} 个（按轴 0 的行）
last_in_rows | of axis {axis} the last {numbers:index}, by row of axis 0 | 轴 {axis} 的后 {numbers:index} 个（按轴 0 的行）
points_to_padding | ; if rows are padded there, look at the side of the padding and its mask | ；若各行在此处有填充，应检查填充的方向及其掩码
points_to_positions | ; if axis {axis} is the tokens, look at positions (RoPE), mask and scale: the first token does not depend on them | ；若轴 {axis} 为token，应检查位置（RoPE）、掩码与缩放：首个token不依赖于它们
points_to_cache | ; if axis {axis} is the tokens, look at what changes there: cache, sliding window, positions | ；若轴 {axis} 为token，应检查在此变化的：缓存、滑动窗口、位置
points_to_mask | ; if axis {axis} is the tokens, look at the mask: the last token alone sees all others | ；若轴 {axis} 为token，应检查掩码：仅最后一个token可见其余全部
points_to_repeat | ; those are the heads that differ where {n} heads of keys and values are repeated in turn on one side, each in a row on the other | ；{n} 个键值头一侧整体轮流重复、另一侧逐头重复时，不同的正是这些头
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
    "sign_flipped": DiagnosisFact("the left is the right with the other sign", frozenset({"scaled", "other_turn"})),
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
        frozenset({"shifted_by_one", "one_slice", "one_part", "permuted", "unrelated"}),
    ),
    "shifted_by_one": DiagnosisFact("each element of the left is its neighbour in the right", _MOVED),
    "transposed": DiagnosisFact("the left is the right with its axes in another order", _MOVED),
    "memory_format": DiagnosisFact("the left is the right, still in a device's memory format", _MOVED),
    "other_order": DiagnosisFact(
        "heads, halves of heads, or q, k and v, stand in another order",
        _MOVED | {"one_slice", "one_part", "shifted_by_one", "transposed", "memory_format"},
    ),
    "other_turn": DiagnosisFact(
        "RoPE turned queries or keys by other angles", frozenset({"unrelated", "one_slice", "one_part"})
    ),
    "one_part": DiagnosisFact(
        "slices of an axis agree and all others differ: from a token on, in some heads, in every second channel",
        frozenset({"one_slice"}),
    ),
    "permuted": DiagnosisFact(
        "the left has the values of the right at other places", frozenset({"unrelated", "one_part"})
    ),
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

# Names of operators in which tokens meet.
ATTENTION = r"att(entio)?n|sdpa|rope|rotary|softmax|wpe|pos(ition)?s?_?emb|(^|[._/ ])(wo|[qkvo]_proj|out_proj)\b"
