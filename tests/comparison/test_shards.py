"""Shards of ranks put together: the tensor they were cut from, bit for bit; and what is never passed over."""

from __future__ import annotations

import itertools
import math
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dump_builder import write_mindspore
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.shards.model import DimsEntry, Mesh, Sharding, ShardLayout, parse_dims
from pytest_msdump.capabilities.shards.sharding import put_together
from pytest_msdump.capabilities.shards.views import ShardedView
from pytest_msdump.cli import main
from pytest_msdump.core.compare.opening import ArrayView, index, open_view
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError, TensorShapeError
from pytest_msdump.core.report.build import build_report, compare_plan
from pytest_msdump.core.suite import load_suite

AXES = ("tp", "cp", "ep", "dp", "sp")

# -- the oracle: numpy cuts a tensor as the frameworks do, one axis after the other, outermost first -------------------


def cut_zigzag(array, axis, parts, number):
    """Megatron-LM's context parallelism: 2·cp chunks, rank r holds chunks r and 2·cp − 1 − r."""
    chunks = np.split(array, 2 * parts, axis)
    return np.concatenate([chunks[number], chunks[2 * parts - 1 - number]], axis)


def cut_plain(array, axis, parts, number, borders=None):
    return np.split(array, parts if borders is None else borders, axis)[number]


def cut_packed(array, axis, lengths, cut):
    """Each sequence is cut by itself; what is behind the last one is padding, and is cut, too."""
    ends = list(itertools.accumulate(lengths))
    return np.concatenate([cut(one) for one in np.split(array, ends, axis)], axis)


def view_of(shards, dims, sizes, *, lengths=()):
    """Make the view of `shards`, by the numbers along the axes."""
    mesh = Mesh(tuple(sizes.items()))
    layout = parse_dims(dims, where="here", lengths=lengths).layout(mesh)
    assert isinstance(layout, ShardLayout), layout
    places = {}
    for at, shard in shards.items():
        places[layout.place(dict(zip(sizes, at, strict=True)))] = shard
    return ShardedView([ArrayView(places[0, n]) for n in range(math.prod(layout.grid))], layout)


def numbers(sizes):
    return itertools.product(*map(range, sizes.values()))


def whole(view):
    return view.read(0, view.size).reshape(view.shape)


@st.composite
def cut_tensors(draw):
    """A tensor, the text of its dims, the sizes of the axes, and the shard of each rank."""
    sizes = {axis: draw(st.integers(1, 3)) for axis in draw(st.permutations(AXES))[: draw(st.integers(0, 4))]}
    rank = draw(st.integers(0, 3))
    roles = {axis: draw(st.sampled_from(["cut", "cut", "zigzag", "copy"])) for axis in sizes}
    where = {axis: draw(st.integers(0, rank - 1)) if rank else None for axis in sizes}
    cutting = {d: [a for a in sizes if rank and roles[a] != "copy" and where[a] == d] for d in range(rank)}
    shape = []
    for d in range(rank):
        step = math.prod(sizes[axis] * (2 if roles[axis] == "zigzag" else 1) for axis in cutting[d])
        shape.append(step * draw(st.integers(0 if step > 1 else 1, 3)))
    blocks = {d: draw(st.sampled_from([1, 1, 2])) for d in range(rank)}
    shape = [length * blocks[d] for d, length in enumerate(shape)]
    dtype = draw(st.sampled_from(["float32", "float64", "float16", "int64", "bool", "complex64"]))
    tensor = np.arange(math.prod(shape)).reshape(shape).astype(dtype)
    # Borders of one uneven cut, as 6/6/4 heads have them; of an axis that cuts alone, so that all shards agree.
    uneven = {}
    for axis, d in where.items():
        if rank and roles[axis] == "cut" and cutting[d] == [axis] and blocks[d] == 1 and draw(st.booleans()):
            uneven[axis] = sorted(draw(st.integers(0, shape[d])) for _ in range(sizes[axis] - 1))

    def shard(at):
        held = tensor
        for d in range(rank):
            parts = np.split(held, blocks[d], d)
            for axis in cutting[d]:
                cut = cut_zigzag if roles[axis] == "zigzag" else cut_plain
                extra = (uneven[axis],) if axis in uneven else ()
                parts = [cut(one, d, sizes[axis], at[axis], *extra) for one in parts]
            held = np.concatenate(parts, d)
        return held

    texts = []
    for d in range(rank):
        cuts = ",".join(axis + (":zigzag" if roles[axis] == "zigzag" else "") for axis in cutting[d])
        name = f"(x{d}+y{d})" if blocks[d] == 2 else f"d{d}"
        texts.append(name + (f"[{cuts}]" if cuts else ""))
    copies = [axis for axis in sizes if not rank or roles[axis] == "copy"]
    text = " ".join(texts) + (" # " + " ".join(f"{axis}:replicated" for axis in copies) if copies else "")
    shards = {at: shard(dict(zip(sizes, at, strict=True))) for at in numbers(sizes)}
    return tensor, text, sizes, shards, draw(st.permutations(range(rank)))


@settings(max_examples=800, deadline=None, suppress_health_check=list(HealthCheck))
@given(cut_tensors(), st.data())
@pytest.mark.full
def test_any_placement_is_merged_bit_for_bit(cut, data):
    tensor, text, sizes, shards, order = cut
    view = view_of(shards, text, sizes)
    assert (view.shape, view.dtype) == (tensor.shape, tensor.dtype.name)
    assert whole(view).tobytes() == tensor.tobytes()
    start = data.draw(st.integers(0, tensor.size))
    stop = data.draw(st.integers(start, tensor.size))
    assert view.read(start, stop).tobytes() == tensor.reshape(-1)[start:stop].tobytes()
    moved = view.permuted(tuple(order))
    assert whole(moved).tobytes() == tensor.transpose(order).tobytes()


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(0, 3), min_size=1, max_size=4),
    st.integers(0, 2),
    st.integers(1, 3),
    st.booleans(),
    st.integers(1, 3),
)
def test_packed_sequences_are_merged_bit_for_bit(units, padding, cp, zigzag, width):
    step = 2 * cp if zigzag else cp
    lengths = [unit * step for unit in units]
    tokens = sum(lengths) + padding * step
    tensor = np.arange(tokens * width, dtype=np.int32).reshape(tokens, width)
    cut = cut_zigzag if zigzag else cut_plain
    shards = {(r,): cut_packed(tensor, 0, lengths, lambda one, r=r: cut(one, 0, cp, r)) for r in range(cp)}
    if cp == 1:
        return
    text = f"t[cp:{'zigzag+' if zigzag else ''}packed] h"
    assert np.array_equal(whole(view_of(shards, text, {"cp": cp}, lengths=lengths)), tensor)


@pytest.mark.parametrize("dtype", ["float32", "float16", "complex64", "int8"])
def test_partial_sums_are_added_in_float64(dtype):
    rng = np.random.default_rng(3)
    parts = (rng.standard_normal((8, 5, 6)) * 30).astype(dtype)
    wide = parts.sum(0, dtype={"f": np.float64, "c": np.complex128}.get(parts.dtype.kind, parts.dtype))
    sizes = {"tp": 2, "cp": 4}
    shards = {(t, c): parts[4 * t + c] for t, c in numbers(sizes)}
    found = whole(view_of(shards, "b h[tp:partial,cp:partial]", sizes))
    assert found.tobytes() == wide.astype(dtype).tobytes()


class Counting(ArrayView):
    """A view that counts the elements that are read."""

    def __init__(self, array):
        super().__init__(array)
        self.count = 0

    def read(self, start, stop):
        self.count += stop - start
        return super().read(start, stop)


@pytest.mark.parametrize(("dims", "axis"), [("s[tp] h", 0), ("s[tp:zigzag] h", 0), ("s h[tp]", 1)])
def test_a_range_reads_no_more_than_it_returns(dims, axis):
    tensor = np.arange(64 * 32).reshape(64, 32)
    cut = cut_zigzag if "zigzag" in dims else cut_plain
    views = [Counting(cut(tensor, axis, 4, r)) for r in range(4)]
    layout = parse_dims(dims, where="here").layout(Mesh((("tp", 4),)))
    view = ShardedView(views, layout)
    assert view.read(96, 96 + 320).tolist() == list(range(96, 96 + 320))
    assert sum(one.count for one in views) == 320


# -- shards that make no tensor ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dims", "sizes", "shapes", "code"),
    [
        ("s[tp] h", {"tp": 2}, [(2, 3), (2, 4)], "shards_do_not_fit"),
        ("s[tp] h", {"tp": 2}, [(2, 3), (2, 3, 1)], "shards_do_not_fit"),
        ("s[tp]", {"tp": 2}, [(2, 3), (2, 3)], "shards_of_other_rank"),
        ("s[tp] 1", {"tp": 2}, [(2, 3), (2, 3)], "shards_of_other_rank"),
        ("s[tp:zigzag]", {"tp": 2}, [(3,), (3,)], "shards_uneven"),
        ("(a+b)[tp]", {"tp": 2}, [(3,), (3,)], "shards_uneven"),
    ],
)
def test_shards_that_do_not_fit_are_refused(dims, sizes, shapes, code):
    shards = {at: np.zeros(shape) for at, shape in zip(numbers(sizes), shapes, strict=True)}
    with pytest.raises(TensorShapeError) as refused:
        view_of(shards, dims, sizes)
    assert refused.value.message.code == code


def test_packed_lengths_must_divide_and_fit():
    shards = {(0,): np.zeros(4), (1,): np.zeros(4)}
    for lengths in ([3], [10]):
        with pytest.raises(TensorShapeError) as refused:
            view_of(shards, "t[cp:packed]", {"cp": 2}, lengths=lengths)
        assert refused.value.message.code == "shards_uneven"


def test_shards_of_two_types_and_sums_of_bools_are_refused():
    for shards, dims in (
        ({(0,): np.zeros(2), (1,): np.zeros(2, np.float32)}, "s[tp]"),
        ({(0,): np.zeros(2, bool), (1,): np.zeros(2, bool)}, "s[tp:partial]"),
    ):
        with pytest.raises(TensorShapeError):
            view_of(shards, dims, {"tp": 2})


# -- whole comparisons -------------------------------------------------------------------------------------------------


def draw(*shape, seed=0, dtype="float32"):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def save(folder, tensors):
    for name, values in tensors.items():
        path = folder / f"{name}.npy"
        path.parent.mkdir(parents=True, exist_ok=True)
        np.save(path, values)


def suite(folder, text):
    (folder / "msdump.toml").write_text(f'[msdump]\nleft = "left"\nright = "right"\n{text}', "utf-8")
    return plan(load_suite(file=Path("msdump.toml"), options={}, directory=folder))


def records(folder, text):
    planned = suite(folder, text)
    report = build_report(planned, compare_plan(planned))
    return {record.left.address.rpartition(":output")[0]: record for record in report.records}


TP2CP2 = """
[msdump.shards]
left = { axes = { tp = 2, cp = 2 }, order = "tp-cp" }
[[msdump.dims]]
match = "*"
dims = "b s[cp:zigzag] h[tp]"
[[msdump.dims]]
match = "norm"
dims = "h # tp:replicated cp:replicated"
"""


def write_tp2cp2(root, tensor, norm):
    for rank in range(4):
        shard = cut_plain(cut_zigzag(tensor, 1, 2, rank // 2), 2, 2, rank % 2)
        save(root / f"rank_{rank}", {"block/hidden": shard, "norm": norm})


def codes(record):
    return [finding.message.code for finding in record.verdict.findings]


# -- copies ------------------------------------------------------------------------------------------------------------

COPIES = """
[msdump.shards]
left = { axes = { tp = 2, dp = 2 } }
[[msdump.dims]]
match = "*"
dims = "h[tp] w # dp:replicated"
"""


def write_copies(root, tensor, change=None):
    for rank in range(4):
        half = tensor[rank % 2 * 2 : rank % 2 * 2 + 2].copy()
        if rank == 3 and change is not None:
            change(half)
        save(root / f"rank_{rank}", {"grad": half})


def add(size):
    def change(half):
        half[1, 2] += size

    return change


def put_nan(half):
    half[1, 2] = np.nan


@pytest.mark.parametrize(
    ("change", "outcome"), [(None, "pass"), (add(1), "fail"), (add(1e-6), "warn"), (put_nan, "fail")]
)
def test_copies_are_held_to_the_limits_of_their_tensor(tmp_path, change, outcome):
    tensor = draw(4, 3)
    write_copies(tmp_path / "left", tensor, change)
    save(tmp_path / "right", {"grad": tensor})
    (found,) = records(tmp_path, COPIES).values()
    # The first copy is what was compared, and it is equal: only the other one has changed.
    assert (found.verdict.outcome, found.equal) == (outcome, True)
    if change is None:
        assert codes(found) == []
        return
    (told,) = found.verdict.findings
    assert told.message.code == "replica"
    assert told.message.parameters["place"] == (3, 2)
    assert (told.message.parameters["rank"], told.message.parameters["first"]) == ("rank 3", "rank 1")


# -- what cannot be put together is an error of its own, never left out ------------------------------------------------


def cut_in_two(folder, *, dims="h[tp]", axes="tp = 2", ranks=range(2), name="x"):
    tensor = draw(4)
    for rank in ranks:
        save(folder / f"left/rank_{rank}", {name: tensor[2 * (rank % 2) :][:2], "whole": tensor})
    save(folder / "right", {name: tensor, "whole": tensor})
    return (
        f'[msdump.shards]\nleft = {{ axes = {{ {axes} }} }}\n[[msdump.dims]]\nmatch = "{name}"\ndims = "{dims}"\n'
        f'[[msdump.dims]]\nmatch = "whole"\ndims = "h # tp:replicated cp:replicated"\n'
    )


def test_a_missing_rank_is_an_error_of_its_tensors(tmp_path):
    text = cut_in_two(tmp_path)
    (tmp_path / "left/rank_1/x.npy").unlink()
    found = records(tmp_path, text)
    assert (found["x"].verdict.outcome, codes(found["x"])) == ("error", ["incomplete"])
    assert found["x"].verdict.findings[0].sentence == (
        "1 of 2 shards of the left side is missing: that of rank 1 (tp=1); dump all ranks, or correct axes"
    )
    assert found["whole"].verdict.outcome == "pass"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"axes": "tp = 2, cp = 2", "ranks": range(4)}, "ambiguous_axis"),
        ({"axes": "tp = 2, pp = 2", "ranks": range(4)}, "ambiguous_stages"),
    ],
)
def test_two_layouts_that_fit_are_named_not_guessed(tmp_path, given, why):
    (found,) = [one for name, one in records(tmp_path, cut_in_two(tmp_path, **given)).items() if name == "x"]
    assert (found.verdict.outcome, codes(found)) == ("error", ["ambiguous"])
    assert found.verdict.findings[0].message.parameters["why"].code == why


def test_a_tensor_that_no_dims_match_is_not_guessed(tmp_path):
    text = cut_in_two(tmp_path).replace('match = "x"', 'match = "y"')
    found = records(tmp_path, text)["x"]
    assert (found.verdict.outcome, codes(found)) == ("error", ["ambiguous"])


def test_two_folders_with_one_place_on_the_mesh_are_named(tmp_path):
    for folder in ("tp0_dp0", "tp0_dp1", "tp1_dp0"):
        save(tmp_path / "left" / folder, {"x": draw(2)})
    save(tmp_path / "right", {"x": draw(4)})
    text = '[msdump.shards]\nleft = { axes = { tp = 2 }, from = "dir" }\n[[msdump.dims]]\nmatch = "x"\ndims = "h[tp]"\n'
    (found,) = records(tmp_path, text).values()
    assert found.verdict.findings[0].sentence == (
        "ambiguous: tp0_dp0/x.npy and tp0_dp1/x.npy hold the same shard; keep one"
    )


def test_samples_of_shards_are_not_joined(tmp_path):
    cut_in_two(tmp_path)
    dump = index(tmp_path / "left")
    dump = replace(dump, refs=tuple(replace(ref, sample=2) for ref in dump.refs))
    sharding = Sharding({"left": Mesh((("tp", 2),))}, dims=(DimsEntry("*", parse_dims("h[tp]", where="here")),))
    with pytest.raises(TensorShapeError, match="is a sample, or statistics only"):
        open_view(put_together(dump, "left", sharding).refs[0])


def test_shards_in_a_padded_memory_format_are_not_joined(tmp_path):
    for rank in range(2):
        write_mindspore(tmp_path / "left", [("Conv2D", "c", "output", 0, draw(1, 1, 2, 2, 16))], rank=rank)
    for path in (tmp_path / "left").rglob("*DefaultFormat*"):
        path.rename(path.with_name(path.name.replace("DefaultFormat", "NC1HWC0")))
    save(tmp_path / "right", {"c": draw(1, 6, 2, 2)})
    text = '[msdump.shards]\nleft = { axes = { tp = 2 } }\n[[msdump.dims]]\nmatch = "*"\ndims = "n c[tp] h w x"\n'
    (found,) = records(tmp_path, text).values()
    assert (found.verdict.outcome, codes(found)) == ("error", ["shards_padded"])


def test_sides_with_differing_copies_are_not_called_identical(tmp_path, monkeypatch, capsys):
    tensor = draw(4, 3)
    write_copies(tmp_path / "left", tensor, add(1))
    save(tmp_path / "right", {"grad": tensor})
    suite(tmp_path, COPIES)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--config", "msdump.toml"]) == 1
    said = capsys.readouterr().out
    assert "identical" not in said
    assert "is this rounding" not in said


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("tp = 2", "tp = 1"), "is of rank 1, but tp=1 make 1"),
        (("left = {", "right = {"), "right has no ranks"),
    ],
)
def test_ranks_that_the_mesh_does_not_have_are_refused(tmp_path, change, said):
    with pytest.raises(ConfigError, match=said):
        records(tmp_path, cut_in_two(tmp_path).replace(*change))


def test_the_cache_notices_a_changed_shard(tmp_path, monkeypatch):
    hidden, norm = draw(2, 8, 6), draw(6, seed=1)
    write_tp2cp2(tmp_path / "left", hidden, norm)
    save(tmp_path / "right", {"block/hidden": hidden, "norm": norm})
    suite(tmp_path, TP2CP2)
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "--config", "msdump.toml", "--cache=content"]) == 0
    save(tmp_path / "left/rank_3", {"block/hidden": cut_plain(cut_zigzag(hidden + 1, 1, 2, 1), 2, 2, 1)})
    assert main(["compare", "--config", "msdump.toml", "--cache=content"]) == 1


# -- the language, and what the suite file refuses ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("b s[", r"here: 's\[' is no dimension"),
        ("b [tp]", r"here: '\[tp\]' is no dimension"),
        ("2 h", "here: '2' is no dimension"),
        ("s[]", "must name axes such as tp"),
        ("s[tp:]", "unknown qualifier ''"),
        ("s[tp:zigzg]", "did you mean 'zigzag'"),
        ("s[tp:partial+zigzag]", "partial stands alone"),
        ("s[tp] h[tp]", "axis 'tp' stands twice"),
        ("s[tp] # tp:replicated", "axis 'tp' stands twice"),
        ("1[tp]", "length 1 cannot be cut"),
        ("(a*b+c)[tp]", r"no fused dimension"),
        ("s # tp", "'tp' must be AXIS:replicated, AXIS:partial or AXIS:=NAME"),
        ("s # tp:copied", "must be AXIS:replicated"),
        ("s[tp:packed]", "needs lengths"),
    ],
)
def test_dims_that_mean_nothing_are_refused(text, said):
    with pytest.raises(ConfigError, match=said):
        parse_dims(text, where="here")


@settings(max_examples=500, deadline=None)
@given(st.text("bsh1 [](),:#=+*tpcpzigzagpartial\n", max_size=40))
@example("(" * 40)
def test_any_text_is_read_or_refused_in_a_line(text):
    refusal = "here: "
    try:
        parse_dims(text, where="here")
    except ConfigError as error:
        refusal = str(error)
    assert refusal.startswith("here: ")
    assert "\n" not in refusal


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[msdump.shards]\nleft = 3", "left must be a table"),
        ("[msdump.shards]\nleft = {}", "needs 'axes'"),
        ("[msdump.shards]\nmiddle = { axes = { tp = 2 } }", "unknown key 'middle'"),
        ("[msdump.shards]\nleft = { axes = {} }", "left.axes must be a table such as"),
        ("[msdump.shards]\nleft = { axes = { tp = 0 } }", "sizes must be 1 or more"),
        ("[msdump.shards]\nleft = { axes = { tp = 999999 } }", "make at most 65536 ranks"),
        ("[msdump.shards]\nleft = { axes = { tp = 2.5 } }", "left.axes.tp must be a whole number"),
        ("[msdump.shards]\nleft = { axes = { xp = 2 } }", "axis 'xp' is not in order"),
        ('[msdump.shards]\nleft = { axes = { tp = 2 }, order = "tp-tp" }', "must name each axis once"),
        ('[msdump.shards]\nleft = { axes = { tp = 2 }, from = "guess" }', "not one of order, dir, meta"),
        (
            '[msdump.shards]\nleft = { from = "meta", order = "tp" }',
            "left.order: with from = .meta. the ranks themselves",
        ),
        ("[msdump.shards]\nleft = { axes = { tp = 2 }, renumber = 3 }", r"renumber\[1\] must be a table"),
        (
            '[msdump.shards]\nleft = { axes = { pp = 2 }, renumber = [{ axis = "pp", names = "x", each = 2 }] }',
            r"renumber\[1\]: names must have one \{n\}",
        ),
        ("[msdump.shards]\ntokens = { pad = 0 }", "needs 'ids'"),
        ('[msdump.shards]\ntokens = { ids = "x", pad = -1 }', "tokens.pad must be a whole number"),
        ('[[msdump.dims]]\nmatch = "*"\ndims = "h"', r"\[\[msdump.dims\]\] #1: needs \[msdump.shards\]"),
        ('[msdump.shards]\nleft = { axes = { tp = 2 } }\n[[msdump.dims]]\nmatch = "*"', "needs 'dims'"),
    ],
)
def test_the_suite_file_refuses_in_a_line(tmp_path, text, said):
    (tmp_path / "msdump.toml").write_text(f'[msdump]\nleft = "a"\nright = "b"\n{text}\n', "utf-8")
    with pytest.raises(ConfigError, match=said) as refused:
        load_suite(file=Path("msdump.toml"), options={}, directory=tmp_path)
    assert "\n" not in str(refused.value)


# -- tensors of some stages only ---------------------------------------------------------------------------------------


def tied(folder, *, stages=(0, 3), leave_out=(), absent=(), stale=None):
    """Embeddings of a model whose ends are tied: the stages between them, of four, have none."""
    tensor = draw(6, 4)
    for rank in (rank for rank in range(8) if rank // 2 not in absent):
        if rank // 2 in stages and rank not in leave_out:
            save(folder / f"left/rank_{rank}", {"embed": np.split(tensor, 2)[rank % 2] + np.float32(rank == stale)})
        save(folder / f"left/rank_{rank}", {f"layer{rank // 2}": draw(2)})
    save(folder / "right", {"embed": tensor})
    text = '[msdump.shards]\nleft = { axes = { tp = 2, pp = 4 } }\n[[msdump.dims]]\nmatch = "*"\n'
    return records(folder, f'{text}dims = "v[tp] h # pp:replicated"\n')["embed"]


@pytest.mark.parametrize("stages", [(0, 3), (1, 2, 3), (0,), (3,), range(4)])
def test_stages_without_a_copy_are_not_missing(tmp_path, stages):
    found = tied(tmp_path, stages=stages)
    assert (found.verdict.outcome, found.equal) == ("pass", True)


def test_a_stage_that_updated_its_own_copy_twice_is_found(tmp_path):
    told = tied(tmp_path, stale=7).verdict.findings[0].message
    assert (told.code, told.parameters["rank"], told.parameters["first"]) == ("replica", "rank 7", "rank 1")


@pytest.mark.parametrize("gone", [(0,), (3,), (1, 2)])
def test_a_stage_without_any_file_may_have_had_a_copy(tmp_path, gone):
    found = tied(tmp_path, absent=gone)
    assert codes(found) == ["incomplete"]
    assert found.verdict.outcome == "error"


def test_a_call_of_a_whole_tensor_keeps_the_module_around_it(tmp_path):
    tree = Path(__file__).parent.parent / "data/msprobe/gelu/step0/proc1"
    for rank in range(2):
        shutil.copytree(tree, tmp_path / f"step0/rank{rank}")
    alone, ranks = index(tree), index(tmp_path)
    dims = DimsEntry("*", parse_dims("# tp:replicated", where="here"))
    whole = put_together(ranks, "left", Sharding({"left": Mesh((("tp", 2),))}, (dims,)))
    assert {(op.label, op.at.occurrence): outer.label for op, outer in whole.around.items()} == {
        (op.label, op.at.occurrence): outer.label for op, outer in alone.around.items()
    }
    assert {op.at.rank for op in (*whole.around, *whole.around.values())} == {None}
