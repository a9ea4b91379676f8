from pathlib import Path

import numpy as np
import pytest
from dumps.dumpmade import (
    FLOAT,
    TIME,
    box,
    dump2,
    message,
    one_output,
    op_input,
    op_output,
    put,
    sliced_json,
)
from dumps.reading import elements, open_files, opened
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_msdump.capabilities.ascend.slices import parse_slicing
from pytest_msdump.core.dumps.base import index_dump as index
from pytest_msdump.core.errors import TensorFileError

GOLDEN = Path(__file__).parents[1] / "data" / "ascend_golden" / "l_ffts"


def slice_file(part, attribute, *, original, data_type=FLOAT, inputs=()):
    output = op_output(data_type, part.shape, part.nbytes, original=original)
    return dump2(message(outputs=[output], inputs=inputs, attribute=attribute), part.tobytes())


def cut_at(values, axis, places):
    return np.split(values, places, axis)


def write_threads(folder, values, axis, places, *, total=None, cuts=None, boxes=None, time=TIME, skip=()):
    """Write an output in threads, in an order of names and times that is not that of the threads."""
    parts = cut_at(values, axis, places)
    edges = [0, *places, values.shape[axis]]
    told = [
        [box(*((edges[k], edges[k + 1]) if dim == axis else (0, length) for dim, length in enumerate(values.shape)))]
        for k in range(len(parts))
    ]
    cuts = [[len(parts) if dim == axis else 1 for dim in range(values.ndim)]] if cuts is None else cuts
    attribute = sliced_json(
        threads=True, total=len(parts) if total is None else total, cuts=cuts, boxes=told if boxes is None else boxes
    )
    for thread, part in enumerate(parts):
        if thread not in skip:
            name = f"Add.op.5.3.{time + len(parts) - thread}.4.11.{thread}.0"
            put(folder, name, slice_file(part, attribute, original=values.shape))


def write_slices(folder, values, axis, places, *, original=None):
    parts = cut_at(values, axis, places)
    cuts = [[len(parts) if dim == axis else 1 for dim in range(values.ndim)]]
    attribute = sliced_json(threads=False, total=len(parts), cuts=cuts)
    for number, part in enumerate(parts):
        name = f"Add.part_sgt_graph_0_op_lxslice{number}.6.3.{TIME + number}.4.12.0.0"
        put(folder, name, slice_file(part, attribute, original=original or part.shape))


def test_golden_slices_are_joined_under_the_name_of_the_operator():
    (ref,) = (one for one in index(GOLDEN / "left").refs if one.key.address == "man_op:output:0")
    expected = b"".join(path.read_bytes()[-420:] for path in ref.source.pieces)
    assert elements(ref).tobytes() == expected
    assert elements(ref).shape == opened(ref).spec.logical_shape == (6, 5, 7)
    assert ref.key.op.name == "partition0_rank1_new_sub_graph1_sgt_graph_0_man_op"


def test_of_inputs_the_first_thread_is_read_and_that_is_told():
    dump = index(GOLDEN / "left")
    (ref,) = (one for one in dump.refs if one.key.io == "input")
    assert elements(ref).shape == (4, 5, 7)
    assert opened(ref).spec.logical_shape is None
    assert any("first thread's alone" in note for note in dump.notes)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_joined_is_what_was_cut(tmp_path_factory, data):
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    axis = data.draw(st.integers(0, len(shape) - 1))
    shape[axis] = data.draw(st.integers(2, 6))
    places = sorted(data.draw(st.sets(st.integers(1, shape[axis] - 1), min_size=1)))
    values = np.arange(np.prod(shape), dtype="<f4").reshape(shape)
    folder = tmp_path_factory.mktemp("cut")
    write = data.draw(st.sampled_from([write_threads, write_slices]))
    write(folder, values, axis, places)
    (ref,) = index(folder).refs
    view = opened(ref)
    axes = tuple(data.draw(st.permutations(range(len(shape)))))
    moved = view.permuted(axes)
    start = data.draw(st.integers(0, view.size))
    stop = data.draw(st.integers(start, view.size))
    assert view.read(start, stop).tolist() == values.ravel()[start:stop].tolist()
    assert moved.read(start, stop).tolist() == values.transpose(axes).ravel()[start:stop].tolist()
    assert np.concatenate(list(view.blocks(5))).tolist() == values.ravel().tolist()
    assert (view.spec.shape, view.spec.logical_shape, moved.shape) == (values.shape,) * 2 + (
        values.transpose(axes).shape,
    )
    view.close()


@pytest.mark.parametrize(("skip", "text"), [({2}, "3 of 4 slices are there, e.g. not number 2"), ({0}, "not number 0")])
def test_a_missing_slice_is_an_error_never_the_rest_alone(tmp_path, skip, text):
    write_threads(tmp_path, np.ones((8, 2), "<f4"), 0, [2, 4, 6], skip=skip)
    (ref,) = index(tmp_path).refs
    with pytest.raises(TensorFileError, match=text):
        opened(ref)


def test_a_slice_too_many_is_an_error(tmp_path):
    write_threads(tmp_path, np.ones((8, 2), "<f4"), 0, [2, 4, 6], total=3)
    (ref,) = index(tmp_path).refs
    with pytest.raises(TensorFileError, match="4 of 3 slices"):
        opened(ref)


@pytest.mark.parametrize("cuts", [[[1, 1]], [], [[1, 1, 2]]])
def test_without_an_axis_nothing_is_joined_and_none_is_the_newest(tmp_path, cuts):
    write_threads(tmp_path, np.ones((4, 2), "<f4"), 0, [2], cuts=cuts)
    (ref,) = index(tmp_path).refs
    with pytest.raises(TensorFileError, match="names no axis that they were cut along"):
        opened(ref)


@pytest.mark.parametrize(
    "boxes",
    [
        # A gap, an overlap, another width, another number of elements.
        [[box((0, 2), (0, 2))], [box((3, 5), (0, 2))]],
        [[box((0, 2), (0, 2))], [box((1, 3), (0, 2))]],
        [[box((0, 2), (0, 2))], [box((2, 3), (0, 4))]],
        [[box((0, 2), (0, 2))], [box((2, 5), (0, 2))]],
    ],
)
def test_parts_that_make_no_whole_are_refused(tmp_path, boxes):
    write_threads(tmp_path, np.ones((4, 2), "<f4"), 0, [2], boxes=boxes)
    (ref,) = index(tmp_path).refs
    with pytest.raises(TensorFileError, match="do not make one tensor along axis 0"):
        opened(ref)


def test_slices_that_tell_nothing_of_their_cut_are_refused_and_one_file_is_a_tensor(tmp_path):
    part = np.arange(4, dtype="<f4")
    for number in (0, 1):
        header = message(outputs=[op_output(FLOAT, (4,), 16)])
        put(tmp_path, f"Add.op.6.3.{TIME + number}.4.12.{number}.0", dump2(header, part.tobytes()))
    put(tmp_path, f"Add.alone.6.3.{TIME + 9}.4.12.0.0", dump2(header, part.tobytes()))
    sliced, alone = sorted(index(tmp_path).refs, key=lambda ref: ref.key.op.name != "op")
    assert elements(alone).tolist() == [0.0, 1.0, 2.0, 3.0]
    with pytest.raises(TensorFileError, match="one of 2 slices, but its header does not say"):
        opened(sliced)


def test_two_passes_are_two_occurrences(tmp_path):
    for run in (0, 1):
        write_threads(tmp_path, np.full((4, 2), run, "<f4"), 0, [2], time=TIME + run * 100)
    # An operator behind the loop, without which the second pass would be another run of everything.
    put(tmp_path, f"Add.behind.7.3.{TIME + 300}", one_output(np.ones(1, "<f4")))
    refs = index(tmp_path).refs[:2]
    assert [(ref.key.op.at.occurrence, set(elements(ref).ravel().tolist())) for ref in refs] == [(0, {0.0}), (1, {1.0})]


@pytest.mark.parametrize("lost", [0, 1])
def test_slices_of_two_passes_are_never_mixed(tmp_path, lost):
    write_threads(tmp_path, np.full((4, 2), 0, "<f4"), 0, [2], skip={lost})
    write_threads(tmp_path, np.full((4, 2), 1, "<f4"), 0, [2], time=TIME + 100)
    (ref,) = index(tmp_path).refs
    assert len(ref.source.pieces) == 3
    with pytest.raises(TensorFileError, match="3 of 2 slices are there; some are missing, or from another run"):
        opened(ref)


def manual_inputs(folder, shapes, original):
    attribute = sliced_json(threads=False, total=len(shapes), cuts=[[len(shapes), 1]])
    for number, shape in enumerate(shapes):
        part = np.full(shape, number, "<f4")
        inputs = [op_input(FLOAT, shape, part.nbytes, original=original)]
        header = message(outputs=[op_output(FLOAT, (1, 1), 4)], inputs=inputs, attribute=attribute)
        put(folder, f"Add.op_lxslice{number}.6.3.{TIME + number}.4.12.0.0", dump2(header, part.tobytes(), bytes(4)))
    return next(ref for ref in index(folder).refs if ref.key.io == "input")


def test_inputs_of_slices_are_joined_when_their_shapes_leave_no_doubt(tmp_path):
    cut = manual_inputs(tmp_path / "cut", [(2, 3), (1, 3)], (3, 3))
    assert elements(cut).tolist() == [[0.0] * 3, [0.0] * 3, [1.0] * 3]
    shared = manual_inputs(tmp_path / "shared", [(2, 3), (2, 3)], (2, 3))
    assert elements(shared).tolist() == [[0.0] * 3] * 2
    with pytest.raises(TensorFileError, match="how they make one tensor is unknown"):
        opened(manual_inputs(tmp_path / "unknown", [(2, 3), (2, 3)], (3, 3)))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("[]", "is not a JSON object"),
        ("{}", "no threadMode"),
        ('{"threadMode": 1}', "no slice_instance_num"),
        ('{"threadMode": 1, "slice_instance_num": 0}', "no slice_instance_num"),
        ('{"threadMode": 1, "slice_instance_num": true}', "no slice_instance_num"),
        ('{"threadMode": 1, "slice_instance_num": 2, "outputCutList": 3}', "in an unknown way"),
        ('{"threadMode": 1, "slice_instance_num": 2, "outputCutList": [["a"]]}', "in an unknown way"),
        ('{"threadMode": 1, "slice_instance_num": 2, "output_tensor_slice": [[[{}]]]}', "in an unknown way"),
        (
            '{"threadMode": 1, "slice_instance_num": 2, "output_tensor_slice": [[[{"lower": 2, "higher": 1}]]]}',
            "in an unknown way",
        ),
    ],
)
def test_an_attribute_that_tells_nothing_is_refused(text, reason):
    with pytest.raises(TensorFileError, match=reason):
        parse_slicing(text, where="x")


def test_no_file_stays_open_when_slices_are_refused_or_closed(tmp_path):
    write_threads(tmp_path / "bad", np.ones((8, 2), "<f4"), 0, [2, 4, 6], skip={2})
    write_threads(tmp_path / "good", np.ones((8, 2), "<f4"), 0, [2, 4, 6])
    bad, good = (index(tmp_path / name).refs[0] for name in ("bad", "good"))
    before = open_files()
    with pytest.raises(TensorFileError):
        opened(bad)
    assert open_files() == before
    view = opened(good)
    assert open_files() == before + 4
    view.close()
    assert open_files() == before


def test_threads_that_do_not_tell_what_they_wrote_are_joined_by_their_shapes(tmp_path):
    values = np.arange(12, dtype="<f4").reshape(2, 6)
    write_threads(tmp_path, values, 1, [1, 3], boxes=[])
    (ref,) = index(tmp_path).refs
    assert elements(ref).tolist() == values.tolist()


def test_a_slice_without_the_tensor_is_refused(tmp_path):
    attribute = sliced_json(threads=False, total=2, cuts=[[2], [2]])
    for number, count in enumerate((2, 1)):
        outputs = [op_output(FLOAT, (1,), 4)] * count
        content = dump2(message(outputs=outputs, attribute=attribute), bytes(4 * count))
        put(tmp_path, f"Add.op_lxslice{number}.6.3.{TIME + number}.4.12.0.0", content)
    first, second = index(tmp_path).refs
    assert elements(first).tolist() == [0.0, 0.0]
    with pytest.raises(TensorFileError, match="has no output 1, the first slice has"):
        opened(second)


@pytest.mark.parametrize("broken", [0, 1])
def test_a_slice_that_cannot_be_read_is_an_error_of_its_operator(tmp_path, broken):
    write_threads(tmp_path, np.ones((4, 2), "<f4"), 0, [2])
    put(tmp_path, f"Add.other.1.1.{TIME}", one_output(np.ones(2, "<f4")))
    target = next(tmp_path.glob(f"Add.op.*.{broken}.0"))
    target.write_bytes(b"")
    dump = index(tmp_path)
    (sliced,) = (ref for ref in dump.refs if ref.key.op.name == "op")
    with pytest.raises(TensorFileError, match="is empty"):
        opened(sliced)
    assert [elements(ref).tolist() for ref in dump.refs if ref.key.op.name == "other"] == [[1.0, 1.0]]
    assert any("header cannot be read" in note for note in dump.notes)
