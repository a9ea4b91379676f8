"""Four real processes of one run against one: tensors that PyTorch placed, and parts cut by hand. Needs PyTorch."""

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_msdump.cli import main
from pytest_msdump.core.report.json_report import read_json

torch = pytest.importorskip("torch")
fsdp = pytest.importorskip("torch.distributed.fsdp")

pytestmark = [
    pytest.mark.live,
    pytest.mark.e2e,
    pytest.mark.skipif(not hasattr(fsdp, "fully_shard"), reason="needs PyTorch 2.6 or newer"),
]

PROGRAM = Path(__file__).parent / "four_ranks.py"

DENSE = """
[msdump.shards]
left = { axes = { tp = 2, cp = 2 } }
"""
MOE = """
[msdump.shards]
left = { axes = { ep = 4 }, renumber = [{ axis = "ep", names = "experts.{n}", each = 2 }] }
"""
# Name → dimensions: of activations, then of weights with what the optimizer makes of them.
TOKENS, COPIED = "b s[cp:zigzag]", "# tp:replicated cp:replicated"
DIMS = {
    DENSE: {
        **dict.fromkeys(("embed", "o", "norm", "down", "head"), f"{TOKENS} h # tp:replicated"),
        **dict.fromkeys(("q", "k", "v", "tail"), f"{TOKENS} h[tp]"),
        **dict.fromkeys(("rope", "mask"), "s[cp:zigzag] x # tp:replicated"),
        **dict.fromkeys(("loss", "Dense"), COPIED),
        "gate_up": f"{TOKENS} (gate+up)[tp]",
        "embed.weight*": f"v h {COPIED}",
        "norm.weight*": f"h {COPIED}",
        **{f"{name}.weight*": "h[tp] i # cp:replicated" for name in ("q", "k", "v", "tail")},
        **{f"{name}.weight*": "h i[tp] # cp:replicated" for name in ("o", "down")},
        "gate_up.weight*": "(gate+up)[tp] i # cp:replicated",
    },
    MOE: {
        "router": "b s e # ep:replicated",
        "router.weight": "e h # ep:replicated",
        "Moe": "b s h # ep:replicated",
        "experts.*": "b s h",
        "experts.*.weight": "h i",
    },
}
# Fault → the tensor that shows it, and the code of its first finding.
DENSE_FAULTS = {
    "gradient_not_reduced": ("norm.weight/momentum_buffer", "replica"),
    "gate_up_as_one_block": ("gate_up.weight", "below_limit"),
    "mask_of_other_tokens": ("mask", "below_limit"),
    "sum_not_reduced": ("o", "replica"),
    "replica_diverges": ("norm.weight/updated", "replica"),
    "loss_over_wrong_group": ("loss", "replica"),
    "rope_per_chunk": ("rope", "below_limit"),
    "not_zigzag": ("embed", "below_limit"),
    "stale_optimizer_state": ("q.weight/momentum_buffer", "below_limit"),
    "padding_counted": ("loss", "above_limit"),
    "tied_updated_twice": ("embed.weight/updated", "below_limit"),
    "remainder_dropped": ("tail.weight", "one_length_differs"),
}
MOE_FAULTS = {
    "router_not_synchronised": ("router.weight", "replica"),
    "experts_permuted": ("experts.0.weight", "below_limit"),
}
FAULTS = [(DENSE, "dense", *one) for one in DENSE_FAULTS.items()] + [(MOE, "moe", *one) for one in MOE_FAULTS.items()]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Run all four processes once, into one folder."""
    folder = tmp_path_factory.mktemp("four")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    started = [
        subprocess.Popen([sys.executable, PROGRAM, str(rank), str(port), folder], stderr=subprocess.PIPE)
        for rank in range(4)
    ]
    try:
        said = [process.communicate(timeout=300)[1] for process in started]
    finally:
        for process in started:
            process.kill()
            process.wait()
    assert [process.returncode for process in started] == [0] * 4, said
    return folder


def compared(runs, out, left, right, text=None):
    """Compare two recordings; return the exit code, and the tensors of results.json by left name."""
    options = [f"--report-dir={out}", "--cache=off"]
    if text is None:
        code = main(["compare", str(runs / left), str(runs / right), *options])
    else:
        dims = "".join(f'[[msdump.dims]]\nmatch = "{name}"\ndims = "{dims}"\n' for name, dims in DIMS[text].items())
        suite = runs / "msdump.toml"
        suite.write_text(f'[msdump]\nleft = "{left}"\nright = "{right}"\n{text}{dims}', "utf-8")
        code = main(["compare", "--config", str(suite), *options])
    report = read_json(out / "results.json")
    return code, report


@pytest.mark.parametrize(("text", "model"), [(DENSE, "dense"), (MOE, "moe")], ids=["dense", "moe"])
def test_what_is_cut_as_it_should_be_passes(runs, tmp_path, text, model):
    code, report = compared(runs, tmp_path, f"{model}_good", model, text)
    assert (code, {one["verdict"] for one in report["tensors"]}) == (0, {"pass"})
    assert len(report["tensors"]) == (40 if model == "dense" else 19)


@pytest.mark.parametrize(("text", "model", "fault", "found"), FAULTS, ids=[*DENSE_FAULTS, *MOE_FAULTS])
def test_every_fault_is_found_at_its_tensor(runs, tmp_path, text, model, fault, found):
    code, report = compared(runs, tmp_path, fault, model, text)
    failed = {one["left"]["true_name"]: one for one in report["tensors"] if one["verdict"] in ("fail", "error")}
    tensor, finding = found
    assert code == 1
    assert failed[tensor]["findings"][0]["code"] == finding
    # What an optimizer holds is behind the weight that it updates in the order, so its role stays open.
    causes = [name for name, one in failed.items() if one["role"] == "cause"]
    assert tensor in causes or (failed[tensor]["role"] == "unknown" and causes in ([], ["loss"]))


@pytest.mark.parametrize("name", ["placed", "net"])
def test_placements_of_the_manifest_put_ranks_together(runs, tmp_path, capsys, name):
    code, report = compared(runs, tmp_path, name, f"{name}_whole")
    assert code == 0
    assert {one["verdict"] for one in report["tensors"]} == {"pass"}
    assert "shards (dp=2, tp=2)" in capsys.readouterr().out
