"""Sentences on logits and choices, in English and in Chinese beside each other, and the parameters of remarks."""

from __future__ import annotations

from pytest_msdump.core.forms.values import COUNT, INDEX, MESSAGE, NUMBER, TEXT, WHOLE
from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# logits
no_logits | logits are floats with an axis of ids | logits 须为带有 id 轴的浮点张量
logits_in_part | only the first elements were looked at | 只比对了前面的元素
no_softmax | row {place:place} has NaN or +Inf, or nothing else than -Inf | 行 {place:place} 含 NaN 或 +Inf，或全为 -Inf
of_sequence | sequence {n} | 序列 {n}
of_token | token {n} | 第 {n} 个 token
of_choice | choice {n} | 第 {n} 个选择
of_place | {place:place} | {place:place}
of_places | {parts} | {parts}
first_wrong | first wrong token: {token}: id {left} left, {right} right, KL {kl:number} nats | 首个错误的 token：{token}：左侧 id {left}，右侧 {right}，KL 为 {kl:number} nat
said_by | Token by token: {name} | 逐 token：{name}
kl_by_token | KL of the softmax in nats, by token | 各 token 的 softmax KL（nat）
kl_of_each | KL of the softmax in nats, the largest of each {n} tokens | softmax KL（nat），每 {n} 个 token 取最大
dashed_limit | dashed: the limit {limit:number} | 虚线：阈值 {limit:number}
head_token | token | token 位置
head_right | right's id | 右侧 id
head_left | left's id | 左侧 id
head_kl | KL | KL
head_logs | log-probability, left / right | 对数概率，左 / 右
head_margin | margin / error | 差距 / 误差
head_what | remark | 说明
first_wrong_kl | first wrong token: KL above its limit | 首个错误的 token：KL 超出阈值
first_wrong_id | first wrong token: another id | 首个错误的 token：id 不同
another_id | another id | id 不同
near_tie | near tie | 近似并列
same_id | same id | id 相同
wrong_at | first wrong: {token} | 首个错误：{token}
rows_of | {n:,} of {elements:,} tokens: those that differ, and those with the largest KL | {elements:,} 个 token 中的 {n:,} 个：不同者，以及 KL 最大者
no_routes | routes are whole indices of experts | 路由须为完整的专家索引
# prompts
prompt_verdict | {prompt}: {verdict}, {agree} of {n} tokens agree, KL {kl} nats per token{other} | {prompt}：{verdict}，{n} 个 token 中 {agree} 个一致，KL 为每 token {kl} nat{other}
prompt_not_measured | {prompt}: {verdict}, KL could not be measured{other} | {prompt}：{verdict}，无法测量 KL{other}
generation_rounding | if this may be rounding: give --perturbed FILE:FUNCTION, the reference with rounded weights; limits are then derived from it | 若可能是舍入：给出 --perturbed FILE:FUNCTION，即权重经舍入的标杆，阈值便由它得出
other_token | ; first other token at step {step}: id {left} left, {right} right, {margin:.3g} apart | ；首个不同的 token 在第 {step} 步：左侧 id {left}，右侧 {right}，相差 {margin:.3g}
# choices
near_ties | near tie: {n:,} of {elements:,} choices differs, at {token}: id {left} left, {right} right, whose values in {values} are {margin:number} apart; these are off by {error:number} | near ties: {n:,} of {elements:,} choices differ, first at {token}: id {left} left, {right} right, whose values in {values} are {margin:number} apart; these are off by {error:number} | 近似并列：{elements:,} 个选择中有 {n:,} 个不同，首个在 {token}：左侧 id {left}，右侧 {right}，其在 {values} 中的值相差 {margin:number}，而误差为 {error:number}
same_choices | the same choices from {values}, in another order or among equal values | 从 {values} 中的选择相同，仅顺序不同或取值相等
choices_differ | {n:,} of {elements:,} choices differ, {far:,} of them by more than the error of {values}; first at {token}: id {left} left, {right} right, {margin:number} apart, off by {error:number} | {elements:,} 个选择中有 {n:,} 个不同，其中 {far:,} 个超出 {values} 的误差；首个在 {token}：左侧 id {left}，右侧 {right}，相差 {margin:number}，误差 {error:number}
choices_of_failing | {n:,} of {elements:,} choices differ, and {values} itself fails, so none is a tie; first at {token}: id {left} left, {right} right, {margin:number} apart, off by {error:number} | {elements:,} 个选择中有 {n:,} 个不同，而 {values} 本身未通过，因此均不算并列；首个在 {token}：左侧 id {left}，右侧 {right}，相差 {margin:number}，误差 {error:number}
ties_too_many | {n:,} of {elements:,} choices from {values} differ, each by less than its error: too many for ties; first at {token}: id {left} left, {right} right, {margin:number} apart, off by {error:number} | 从 {values} 中的 {elements:,} 个选择有 {n:,} 个不同，虽都在误差之内，但对并列而言过多；首个在 {token}：左侧 id {left}，右侧 {right}，相差 {margin:number}，误差 {error:number}
ties_to_one | {n:,} of {elements:,} choices from {values} differ, and {times:,} of these go to id {left}: no ties, its values are too large; first at {token}, {right} right, {margin:number} apart, off by {error:number} | 从 {values} 中的 {elements:,} 个选择有 {n:,} 个不同，其中 {times:,} 个都变为 id {left}：并非并列，而是它的值偏大；首个在 {token}，右侧 {right}，相差 {margin:number}，误差 {error:number}
behind_ties | within its limits but for {n} of {elements:,} token, which a near tie in {values} sends elsewhere | within its limits but for {n} of {elements:,} tokens, which near ties in {values} send elsewhere | 除 {elements:,} 个 token 中因 {values} 的近似并列而改道的 {n} 个外，均在阈值内
behind_too_many_ties | near ties in {values} send {n} of {elements:,} tokens elsewhere: too many to set aside | {values} 的近似并列使 {elements:,} 个 token 中的 {n} 个改道：过多，不能搁置
ties_not_judged | not judged as ties: {why} ({rule}) | 未按并列判定：{why}（{rule}）
ties_nothing | no pair of floats is named {values} | 没有名为 {values} 的浮点张量对
ties_several | {n} pairs of floats are named {values} | 有 {n} 对浮点张量名为 {values}
ties_of_no_integers | what was chosen from {values} is no integer | 从 {values} 中的选择不是整数
ties_values_fail | {values} itself fails | {values} 本身未通过
ties_of_other_shape | indices of shape {shape:shape} are not chosen from {values} of shape {of:shape} | 形状为 {shape:shape} 的索引并非选自形状为 {of:shape} 的 {values}
ties_out_of_range | there are ids that {values} does not have: it has {n} | 存在 {values} 所没有的 id：它共有 {n} 个
ties_entry | {indices} are the largest of {values} on both sides; to let near ties pass: [[msdump.rule]] with match = "{indices}", ties = "{values}" | {indices} 在两侧都是 {values} 的最大项；若要放行近似并列：[[msdump.rule]] 写 match = "{indices}"，ties = "{values}"
"""
)

_PLACE = {
    "n": COUNT,
    "elements": COUNT,
    "values": TEXT,
    "place": INDEX,
    "token": MESSAGE,
    "left": WHOLE,
    "right": WHOLE,
}
_CHOICES = {**_PLACE, "margin": NUMBER, "error": NUMBER}
_TOKENS = {"n": COUNT, "elements": COUNT, "values": TEXT}
# By code: the parameters of a remark in results.json.
REMARKS = {
    "near_ties": _CHOICES,
    "ties_too_many": _CHOICES,
    "choices_of_failing": _CHOICES,
    "choices_differ": {**_CHOICES, "far": COUNT},
    "ties_to_one": {**_CHOICES, "times": COUNT},
    "behind_ties": _TOKENS,
    "behind_too_many_ties": _TOKENS,
    "same_choices": {"values": TEXT},
    "ties_not_judged": {"why": MESSAGE, "rule": TEXT},
}
