"""Sentences on sequences and tokens, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
# steps that are joined
steps_lacking | it is in {n} of the {steps} steps that have ids, so steps cannot be joined; dump it in these, or leave it out of tokens.match | 在 {steps} 个有 id 的步中只有 {n} 个有它，无法连接；请在每步都 dump，或从 tokens.match 中去掉
steps_without_tokens | its shape {shape:shape} does not begin with that of the ids, {ids:shape}, in each step and go on alike, so steps cannot be joined; leave it out of tokens.match | 形状 {shape:shape} 并非每步都以 id 的形状 {ids:shape} 开头且其后相同，无法连接；请从 tokens.match 中去掉
tokens_entry | both sides have the same tokens, in other padding, order or steps; under [msdump.shards] of a suite file these lines compare token by token: {keys:and} | 两侧的 token 相同，仅填充、次序或步不同；在套件文件的 [msdump.shards] 下写入以下内容即可逐 token 比对：{keys:and}
tokens_in_common | {n} of {tokens} tokens are those of a sequence that all sides have; the rest is not compared | {tokens} 个 token 中有 {n} 个属于各侧共有的序列；其余不比对
# where a drift lies
sequences_from | sequence {sequences:and} from token {first} on{when} | 序列 {sequences:and} 自第 {first} 个 token 起{when}
sequences_between | sequence {sequences:and} at tokens {first} to {last}{when} | 序列 {sequences:and} 的第 {first} 至 {last} 个 token{when}
sequences_at | sequence {sequences:and} at token {first}{when} | 序列 {sequences:and} 的第 {first} 个 token{when}
at_step |  (step {step} of the {side:word}) | （{side:word}的第 {step} 步）
"""
)
