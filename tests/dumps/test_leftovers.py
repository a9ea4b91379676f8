"""What desktops, archivers, editors and notebooks leave beside tensors is left out, and listed, by every reader."""

import shutil
from pathlib import Path

import pytest

from pytest_msdump.core.dumps.base import index_dump

DATA = Path(__file__).parents[1] / "data"
ASCEND = (
    "ascend_golden/g2_pb_right/right",
    "ascend_golden/b5_broken_files/expected/convert_dir/out",
    "generations/g6_bin",
)
HOOKS = ("hooks/sglang_dumper", "hooks/sglang_passes", "msprobe/tensor_L0")
LEFTOVERS = ["._{}", "{}~", ".{}.swp", ".#{}", "#{}#", ".DS_Store", "Thumbs.db", ".ipynb_checkpoints/{}"]


@pytest.mark.parametrize("leftover", LEFTOVERS)
@pytest.mark.parametrize("folder", ["lenet/reference", "lenet/target", *ASCEND, *HOOKS])
def test_what_is_no_tensor_is_left_out_and_listed(folder, leftover, tmp_path):
    root = Path(shutil.copytree(DATA / folder, tmp_path / "dump"))
    before = index_dump(root)
    listed = set(before.unexplained)
    for path in [path for path in root.rglob("*") if path.is_file()]:
        # Another name of a tensor: what is read as one would be there twice.
        copy = path.parent / leftover.format(path.name)
        copy.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, copy)
        listed.add((copy if copy.parent == path.parent else copy.parent).relative_to(root))
    after = index_dump(root)
    assert after.refs == before.refs
    assert set(after.unexplained) == listed
