"""Sentences of convert, in English and in Chinese beside each other."""

from __future__ import annotations

from pytest_msdump.core.text.message import read_rows

SENTENCES = read_rows(
    """
converted_to | converted {n:n_tensors}: {place} | 已转换 {n:n_tensors}：{place}
wrote_of | wrote {n} of {total:n_files} into {place} | 已将 {total:n_files}中的 {n} 个写入 {place}
ran_user_code | ran user code: {names} | 已运行用户代码：{names}
convert_failed | FAILED {path}: {why}{more} | 失败 {path}：{why}{more}
convert_more |  (and {n} more of this file) | （此文件另有 {n} 个）
convert_failures | {n:n_files} of {total} failed; all reasons are in {place} | {total} 个文件中有 {n} 个失败；全部原因见 {place}
left_out_no_dump | left out, no dump files: {n:n_files}, e.g. {name} | 已略去非 dump 文件：{n:n_files}，如 {name}
left_out_other_names | left out, of other names: {n:n_files}, e.g. {name} | 已略去名称不符者：{n:n_files}，如 {name}
would_rename | {n:n_files} would be renamed; nothing was changed | 将重命名 {n:n_files}；未作任何改动
renamed_back | {n:n_files} renamed back | 已恢复 {n:n_files}的原名
renamed_none | every file has its old name already | 所有文件均已是原名
left_alone_named | left alone: {n:n_files} with such a name already | 未改动：{n:n_files}，其名称已符合
left_alone_others | left alone: {n:n_files} that the pattern does not fit: {names} | 未改动：{n:n_files}，与模式不符：{names}
tops_renamed | wrote {file} ({n} in-place top renamed) | wrote {file} ({n} in-place tops renamed) | 已写入 {file}（重命名 {n} 个 in-place 的 top）
tops_none | wrote {file} (no layer is in place: a copy) | 已写入 {file}（没有 in-place 层：与原文件相同）
holds_bytes_of | {layer}: its file holds the bytes of {over}, which is in place on {blob} | {layer}：其文件保存的是 {over} 的数据，后者在 {blob} 上 in-place 执行
make_reference_again | make the reference again with what 'msdump prototxt {file}' writes | 请用 'msdump prototxt {file}' 写出的网络重新生成标杆数据
holds_no_bytes_of | no layer holds the bytes of another in place on it | 没有层保存了在其上 in-place 执行的层的数据
"""
)
