"""The reader of the how-to page: 60 lines at most, and its own test, with the laws of every reader, passes."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from docs_pages import CHINESE, DOCS, blocks

TORCH = Path(__file__).parents[1] / "data" / "torch"


@pytest.mark.e2e
@pytest.mark.parametrize("folder", [DOCS, CHINESE])
def test_the_reader_of_the_page_keeps_the_laws(folder: Path, pytester: pytest.Pytester) -> None:
    files = {one.value: one.text for one in blocks(folder / "howto" / "write_a_reader.md") if one.note == "file"}
    assert len(files["engine_dumps.py"].splitlines()) <= 60
    for name, content in files.items():
        (pytester.path / name).write_text(content)
    rank = pytester.mkdir("tensor_dumps") / "rank_1"
    rank.mkdir()
    for name in ("fc1_activation", "layers_0_fc1_wgrad"):
        shutil.copy(TORCH / "engine.pt", rank / f"{name}_iter_000003.pt")
    pytester.makepyfile(
        test_values="""
        from pathlib import Path
        from engine_dumps import TransformerEngineReader

        def test_values():
            dump = TransformerEngineReader().index(Path("tensor_dumps"))
            found = [(ref.key.address, ref.key.op.at.rank, ref.key.op.at.iteration) for ref in dump.refs]
            assert found == [("fc1/activation:output:0", 1, 3), ("layers_0_fc1/wgrad:output:0", 1, 3)]
            view = TransformerEngineReader().open(dump.refs[0])
            assert view.read(0, 6).tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=14)
