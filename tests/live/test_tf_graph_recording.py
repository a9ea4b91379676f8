"""What a recording of a graph of tf.compat.v1 holds, beside what its session gives back. Needs TensorFlow."""

import numpy as np
import pytest
from live.reading_back import TYPES, check_read_back, of_type

from pytest_msdump import open_dump
from pytest_msdump.core.dumps.manifest import read_manifest
from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.record import Recorder

tf = pytest.importorskip("tensorflow")
v1 = tf.compat.v1

pytestmark = pytest.mark.live

X = np.random.default_rng(1).normal(size=(2, 8, 8, 3)).astype(np.float32)


class Net:
    """A convolution, two outputs, a condition and a loop of either kind, and a step of training."""

    def __init__(self, *, handles=True):
        self.handles = handles
        self.graph = tf.Graph()
        with self.graph.as_default():
            v1.set_random_seed(3)
            with v1.variable_scope("conv1", use_resource=handles):
                self.x = v1.placeholder(tf.float32, [None, 8, 8, 3], name="images")
                kernel = v1.get_variable("kernel", [3, 3, 3, 8], initializer=v1.glorot_uniform_initializer())
                bias = v1.get_variable("bias", [8], initializer=v1.ones_initializer())
                product = tf.nn.conv2d(self.x, kernel, 1, "SAME", name="Conv2D")
                hidden = tf.nn.relu(tf.nn.bias_add(product, bias, name="BiasAdd"), name="Relu")
            left, right = tf.split(hidden, 2, axis=-1, name="split")
            some = v1.cond(tf.reduce_sum(self.x) > 0, lambda: left * 2.0, lambda: left * 3.0, name="either")
            _, more = v1.while_loop(lambda i, _: i < 3, lambda i, s: (i + 1, s * 1.5), [tf.constant(0), some])
            self.y = tf.reduce_mean(right * more, name="y")
            self.text = tf.constant("text", name="text")
            self.kernel = kernel
            self.step = v1.train.GradientDescentOptimizer(0.1).minimize(self.y)
            self.start = v1.global_variables_initializer()
        options = v1.ConfigProto()
        options.graph_options.rewrite_options.disable_meta_optimizer = True
        self.session = v1.Session(graph=self.graph, config=options)
        self.session.run(self.start)


@pytest.fixture(params=["handles", "references"])
def net(request):
    if request.param == "handles":
        yield Net()
        return
    v1.disable_control_flow_v2()
    yield Net(handles=False)
    v1.enable_control_flow_v2()


def recorded(tmp_path, net, fetches, feeds=None, **options):
    with Recorder(tmp_path).tf1(net.session, **options) as recording:
        result = recording.run(fetches, {net.x: X} if feeds is None else feeds)
    return open_dump(recording.directory), result


def test_every_tensor_of_the_run_is_recorded_by_the_names_of_tfdbg(tmp_path, net):
    dump, result = recorded(tmp_path, net, net.y)
    names = ["conv1/images:0", "conv1/Conv2D:0", "conv1/BiasAdd:0", "conv1/Relu:0", "split:0", "split:1", "y:0"]
    values = dict(zip(names, net.session.run(names, {net.x: X}), strict=True))
    for name, value in values.items():
        op, slot = name.split(":")
        assert dump.read(f"{op}:output:{slot}").tobytes() == value.tobytes()
        assert len(list(dump.dump.root.glob(f"{op.replace('/', '_')}.{slot}.*.npy"))) == 1
    assert result.tobytes() == values["y:0"].tobytes()
    assert not any("Descent" in address or "text" in address for address in dump)
    order = [address.split(":")[0] for address in dump]
    assert [order.index(name.split(":")[0]) for name in names[:5]] == sorted(
        order.index(n.split(":")[0]) for n in names[:5]
    )


def test_a_step_of_training_is_the_same_with_a_recording(tmp_path, net):
    twin = Net(handles=net.handles)
    assert net.session.run(net.kernel).tobytes() == twin.session.run(twin.kernel).tobytes()
    recorded(tmp_path, net, [net.step, net.y])
    twin.session.run([twin.step, twin.y], {twin.x: X})
    assert net.session.run(net.kernel).tobytes() == twin.session.run(twin.kernel).tobytes()


def test_variables_are_recorded_as_they_were_before_the_step(tmp_path, net):
    before = net.session.run(net.kernel)
    dump, _ = recorded(tmp_path, net, net.step)
    after = net.session.run(net.kernel)
    assert not np.array_equal(before, after)
    reads = [address for address in dump if address.startswith("conv1/") and dump.read(address).shape == before.shape]
    assert reads
    for address in reads:
        np.testing.assert_array_equal(dump.read(address), before)
    assert any(address.startswith("gradients/") for address in dump)


def test_what_is_fed_inside_of_the_graph_is_not_computed(tmp_path, net):
    hidden = np.ones((2, 8, 8, 8), np.float32)
    dump, _ = recorded(tmp_path, net, "split:0", {"conv1/Relu:0": hidden})
    assert not any(address.startswith("conv1/Conv2D") for address in dump)
    np.testing.assert_array_equal(dump.read("conv1/Relu"), hidden)
    assert list(read_manifest(dump.dump.root)[0].inputs) == ["conv1/Relu:0"]


def test_names_and_types_choose(tmp_path, net):
    assert list(recorded(tmp_path, net, net.y, types=["Conv2D", "BiasAdd"])[0]) == [
        "conv1/Conv2D:output:0",
        "conv1/BiasAdd:output:0",
    ]
    dump, _ = recorded(tmp_path, net, net.y, operations=["conv1/[A-Z]*"], exclude="conv1/Conv*")
    assert [address.split(":")[0] for address in dump if "Variable" not in address] == ["conv1/BiasAdd", "conv1/Relu"]
    with pytest.raises(UnknownNameError, match="no operator is called 'conv2'"):
        recorded(tmp_path, net, net.y, operations="conv2")


def test_results_have_the_form_that_was_asked_for_and_text_is_passed_over(tmp_path, net):
    with Recorder(tmp_path).tf1(net.session) as recording:
        result = recording.run({"y": net.y, "more": [net.text, net.step]}, {net.x: X})
    assert result["more"] == [b"text", None]
    assert result["y"].shape == ()


def test_runs_are_iterations(tmp_path, net):
    with Recorder(tmp_path).tf1(net.session, iterations=True, operations="y") as recording:
        losses = [recording.run([net.step, net.y], {net.x: X})[1] for _ in range(2)]
    refs = open_dump(recording.directory).refs
    assert [ref.key.op.at.iteration for ref in refs] == [0, 1]
    stored = [np.load(next((recording.directory / folder).glob("y.0.*"))) for folder in "01"]
    np.testing.assert_array_equal(stored, losses)
    with Recorder(tmp_path).tf1(net.session) as recording:
        recording.run(net.y, {net.x: X})
        with pytest.raises(ConfigError, match="iterations=True"):
            recording.run(net.y, {net.x: X})


@pytest.mark.parametrize("name", TYPES)
def test_every_type_comes_back_bit_for_bit(tmp_path, name):
    dtype, value = tf.dtypes.as_dtype(name), of_type(name)
    with tf.Graph().as_default() as graph:
        x = v1.placeholder(dtype, [None], name="x")
        y = tf.identity(x, name="y")
    with v1.Session(graph=graph) as session, Recorder(tmp_path).tf1(session) as recording:
        recording.run(y, {x: value})
    check_read_back(recording.directory, "y", value)
