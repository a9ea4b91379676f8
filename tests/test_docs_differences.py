"""The page on what differs by default holds the rows that a live test runs in both frameworks."""

from __future__ import annotations

import os
import re

import pytest
from differences import CHINESE_VALUES, SECTIONS, page_tables
from docs_pages import CHINESE, DOCS


@pytest.mark.parametrize("folder", [DOCS, CHINESE], ids=["en", "zh"])
def test_the_page_has_the_rows_that_were_run(folder):
    page = folder / "reference/what_differs_by_default.md"
    text = page.read_text(encoding="utf-8")
    for heading, table in page_tables(folder == CHINESE).items():
        pattern = rf"(?m)(^## {heading}\n(?:\n(?![|*]).+\n)*\n)((?:[|*].*\n)+)"
        if os.environ.get("MSDUMP_DOCS_REWRITE"):
            text = re.sub(pattern, lambda part, table=table: part[1] + table, text)
        assert re.findall(pattern, text)[0][1] == table
    assert len(re.findall(r"(?m)^## ", text)) == len(SECTIONS) + 1
    page.write_text(text, encoding="utf-8") if os.environ.get("MSDUMP_DOCS_REWRITE") else None


def test_the_table_is_long_and_its_words_are_translated():
    rows = [row for rows in SECTIONS.values() for row in rows]
    assert len(rows) >= 70
    words = {one for row in rows for one in (row.torch_value, row.mindspore_value)}
    assert set(CHINESE_VALUES) <= words
