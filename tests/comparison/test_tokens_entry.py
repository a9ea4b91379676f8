"""Other padding, order or steps of the same tokens: the summary has an entry, and with that the same dumps pass."""

import re

import numpy as np
import pytest

from pytest_msdump.cli import main
from pytest_msdump.record import DumpWriter

SEQUENCES = [[5, 9, 3, 7], [4, 8]]
STATES = np.random.default_rng(0).normal(size=(16, 3)).astype("f4")


def padded(sequences, length, side):
    """Return rows of one length; the padding is 2."""
    fill = [[2] * (length - len(one)) for one in sequences]
    return np.array(
        [[*pad, *one] if side == "left" else [*one, *pad] for one, pad in zip(sequences, fill, strict=True)]
    )


def recorded(folder, *batches):
    """Record a batch an iteration; what stands for a state depends on the token alone."""
    with DumpWriter(folder, iterations=len(batches) > 1) as writer:
        for iteration, ids in enumerate(batches):
            writer.write("embed", ids, io="input", iteration=iteration)
            writer.write("embed", STATES[ids], iteration=iteration)
            writer.write("norm", 2 * STATES[ids], iteration=iteration)


def entry(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = main(["compare", "left", "right"])
    found = re.search(r"compare token by token: (.+?) reports:", " ".join(capsys.readouterr().out.split()))
    return code, found[1].replace(" and ", "\n") if found else None


WHOLE = padded(SEQUENCES, 4, "right")
CASES = {
    "longer": ([padded(SEQUENCES, 6, "right")], [WHOLE], "tokens.pad = 2"),
    "on the left": ([padded(SEQUENCES, 6, "left")], [WHOLE], "tokens.pad = 2"),
    "in another order": ([padded(SEQUENCES[::-1], 5, "left")], [WHOLE], "tokens.pad = 2"),
    "steps": (
        [np.array([[5, 9, 3], [4, 8, 6]]), np.array([[7], [1]])],
        [np.array([[5, 9, 3, 7], [4, 8, 6, 1]])],
        "iteration",
    ),
}


@pytest.mark.parametrize(("left", "right", "key"), CASES.values(), ids=list(CASES))
def test_the_entry_that_is_named_makes_the_dumps_pass(left, right, key, tmp_path, monkeypatch, capsys):
    recorded(tmp_path / "left", *left)
    recorded(tmp_path / "right", *right)
    code, keys = entry(tmp_path, monkeypatch, capsys)
    assert code == 1
    assert 'tokens.ids = "embed:input:0"' in keys
    assert key in keys
    (tmp_path / "s.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n[msdump.shards]\n{keys}\n')
    assert main(["compare", "--config", "s.toml"]) == 0


def test_a_mask_is_no_tensor_of_ids(tmp_path, monkeypatch, capsys):
    recorded(tmp_path / "left", padded([[1, 1, 1]], 6, "left"))
    recorded(tmp_path / "right", padded([[1, 1, 1]], 4, "right"))
    assert entry(tmp_path, monkeypatch, capsys) == (1, None)
