"""A reference of Keras replayed layer by layer with the tensors of ports."""

import numpy as np
import pytest
from dump_builder import write_reference
from live import sixteen_bits

from pytest_msdump.capabilities.replay.reference_model import reference_of, replay_plan
from pytest_msdump.core.compare.planning import plan
from pytest_msdump.core.errors import ConfigError
from pytest_msdump.core.report.json_report import read_json
from pytest_msdump.core.suite import load_suite
from pytest_msdump.record import Recorder

pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
layers = keras.layers

pytestmark = pytest.mark.live
X = np.random.default_rng(1).standard_normal((4, 8, 8, 3)).astype("f4")


def halved(tensor):
    """Not of Keras, as far as the replay knows."""
    return tensor * 0.5


def model(epsilon=1e-5, approximate=False, scale=1.0, slope=0.01, twice=1.0):
    """A convolution that is called twice, inner models, operations that are no layers, functions of one's own."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(7)
    given = keras.Input((8, 8, 3), name="image")
    shared = layers.Conv2D(3, 3, padding="same", name="shared")
    x = shared(shared(given) * twice)
    x = layers.BatchNormalization(epsilon=epsilon, name="norm")(x)
    act = layers.Activation(lambda one: keras.activations.gelu(one, approximate=approximate), name="act")
    x = keras.ops.cast(act(x) + given, "float32")
    inside = keras.Input((8, 8, 3))
    block = keras.Model(inside, layers.LeakyReLU(negative_slope=slope, name="leaky")(inside), name="block")
    x = block(block(x))
    x = layers.Lambda(halved, name="half")(x)
    x = keras.Sequential([layers.Flatten(), layers.Dropout(0.5), layers.Dense(5, name="fc")], name="head")(x)
    net = keras.Model(given, layers.Softmax(name="last")(x), name="net")
    for variable in net.weights:
        variable.assign(variable + 0.05)
    fc = net.get_layer("head").get_layer("fc")
    fc.kernel.assign(fc.kernel * scale)
    return net


def record(folder, net, given=X, training=None, **options):
    with Recorder(folder.parent).keras(net, directory=folder, **options):
        net(given, **({} if training is None else {"training": training}))


def planned_of(folder):
    table = {"left": str(folder / "left"), "right": str(folder / "right")}
    return plan(load_suite(file=None, table=table, options={}, directory=folder))


def judged(planned, reference, given=X):
    found = replay_plan(planned, reference_of(reference, given))
    assert sorted(found) == list(range(len(planned.pairing.pairs)))
    keys = [pair.right.key for pair in planned.pairing.pairs]
    return {(key.op.label, key.op.at.occurrence or key.slot): found[number] for number, key in enumerate(keys)}


def replayed(folder, reference, port, given=X, training=None, feeds=None):
    record(folder / "left", port(), given, training)
    net = reference()
    record(folder / "right", net, given, training)
    return judged(planned_of(folder), net, given if feeds is None else feeds)


def named(found, outcome="fail"):
    return {name for (name, _), one in found.items() if one.outcome == outcome}


@pytest.mark.parametrize(
    ("mistake", "at"),
    [
        ({}, set()),
        ({"epsilon": 1e-3}, {"norm"}),
        ({"approximate": True}, {"act"}),
        ({"scale": 1.001}, {"head/fc"}),
        ({"slope": 0.011}, {"block/leaky"}),
        ({"twice": 1.001}, {"multiply"}),
    ],
)
def test_exactly_the_wrong_layers_are_accused(tmp_path, mistake, at):
    found = replayed(tmp_path, model, lambda: model(**mistake))
    assert named(found) == at
    assert {one.why for one in found.values()} == {None}
    assert {call for name, call in found if name in ("shared", "block/leaky", "block")} == {0, 1}


def test_a_score_is_the_error_over_that_of_the_layer_in_float32(tmp_path):
    """The reference's own error is that of numpy's float32 to float64, of the left's own inputs."""
    generator = np.random.default_rng(3)
    x, kernel = generator.standard_normal((6, 40)).astype("f4"), generator.standard_normal((40, 30)).astype("f4")
    net = keras.Sequential([keras.Input((40,)), layers.Dense(30, name="fc")], name="net")
    net.set_weights([kernel, np.zeros(30, "f4")])
    record(tmp_path / "right", net, x)
    exact = x.astype("f8") @ kernel.astype("f8")
    wrong = (exact * 1.001).astype("f4")
    write_reference(tmp_path / "left", {"fc": wrong, "net": wrong})
    own = net(x).numpy()

    def errors(one):
        apart = one - exact
        return np.array([np.linalg.norm(apart) / np.linalg.norm(exact), abs(apart).max() / abs(exact).max()])

    found = judged(planned_of(tmp_path), net, x)
    assert found["fc", 0].score == pytest.approx(max(errors(wrong) / np.maximum(errors(own), 2**-25)), rel=1e-6)


def test_between_tensors_of_the_left_layers_are_judged_together(tmp_path):
    net = model()
    record(tmp_path / "right", net)
    with Recorder(tmp_path).keras(
        model(epsilon=1e-3), directory=tmp_path / "left", exclude=["norm", "act"]
    ) as recording:
        recording.model(X)
    found = judged(planned_of(tmp_path), net)
    assert named(found) == {"add"}
    assert found["add", 0].segment == ("act", "norm")


@pytest.mark.parametrize(("slope", "at"), [(0.0, set()), (0.02, {"relu"})])
def test_of_a_run_in_16_bits_weights_and_inputs_are_rounded_first(tmp_path, slope, at):
    first, second = (layers.Dense(size, use_bias=False, name=name) for size, name in ((40, "first"), (30, "second")))
    net = keras.Sequential([keras.Input((12,)), first, layers.ReLU(name="relu"), second])
    net.set_weights([sixteen_bits.W1, sixteen_bits.W2])
    record(tmp_path / "right", net, sixteen_bits.X)
    sixteen_bits.write_run(tmp_path / "left", slope)
    found = judged(planned_of(tmp_path), net, sixteen_bits.X)
    assert {one.measure for one in found.values() if one.outcome == "pass"} == {"flips"}
    assert named(found) == at


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_runs_of_keras_own_policies_are_right_by_themselves(tmp_path, policy):
    def under(**mistake):
        keras.config.set_dtype_policy(policy)
        try:
            return model(**mistake)
        finally:
            keras.config.set_dtype_policy("float32")

    (tmp_path / "wrong").mkdir()
    found = replayed(tmp_path, under, under)
    assert named(found) == set()
    assert named(replayed(tmp_path / "wrong", under, lambda: under(slope=0.05))) == {"block/leaky"}


def test_nothing_of_the_model_changes(tmp_path):
    net = model()
    record(tmp_path / "left", net, training=True)
    record(tmp_path / "right", net, training=True)
    kept = [[*map(np.array, net.get_weights())], net(X).numpy(), [one.dtype_policy.name for one in net.layers[:3]]]
    judged(planned_of(tmp_path), net, {"image": X, "training": True})
    for before, after in zip(kept[0], net.get_weights(), strict=True):
        np.testing.assert_array_equal(before, after)
    np.testing.assert_array_equal(kept[1], net(X))
    assert kept[2] == [one.dtype_policy.name for one in net.layers[:3]]
    assert keras.config.floatx() == "float32"


class Noisy(layers.Layer):
    """Draws from TensorFlow, of which Keras knows nothing."""

    def call(self, x):
        import tensorflow as tf

        return x + 1e-3 * tf.random.normal(tf.shape(x), dtype=x.dtype)


class Single(layers.Layer):
    """Computes in float32 whatever it is asked for."""

    def call(self, x):
        return keras.ops.cast(keras.ops.cast(x, "float32") * 2, "float32")


class Stubborn(layers.Layer):
    """Takes float32 alone."""

    def call(self, x):
        import tensorflow as tf

        return x * tf.constant(3.0, tf.float32)


class Block(layers.Layer):
    """Layers inside of one that is no graph, one of which has another mode in training."""

    def __init__(self, scale=1.0, **options):
        super().__init__(**options)
        self.scale = scale
        self.dense, self.norm = layers.Dense(4, name="dense"), layers.BatchNormalization(name="norm")

    def build(self, shape):
        self.dense.build(shape)
        self.norm.build((*shape[:-1], 4))

    def call(self, x):
        return {"out": self.norm(self.dense(x)) * self.scale, "rest": (x,)}


def odd(scale=1.0, noise=True):
    keras.backend.clear_session()
    keras.utils.set_random_seed(3)
    given = keras.Input((4,), name="given")
    x = Single(name="single")(given)
    x = layers.Dense(4, name="first")(x)
    x = Stubborn(name="stubborn")(x)
    x = layers.Dense(4, name="second")(x)
    if noise:
        x = layers.GaussianNoise(0.1, name="noise")(x)
        x = layers.Lambda(lambda one: one + keras.random.normal((4,)), name="lambda")(x)
        x = layers.Dropout(0.5, name="drop")(Noisy(name="noisy")(x))
    x = layers.LayerNormalization(name="third")(x)
    return keras.Model(given, Block(scale, name="block")(x)["out"], name="odd")


Y = np.random.default_rng(5).standard_normal((16, 4)).astype("f4")
REASONS = {
    "single": "local_single",
    "stubborn": "local_single",
    "block/dense": "local_inside",
    "block/norm": "local_inside",
}


@pytest.mark.parametrize("training", [True, False])
def test_what_is_not_judged_says_why_and_what_follows_is_judged(tmp_path, training):
    found = replayed(tmp_path, odd, odd, Y, training, {"given": Y, "training": training})
    random = {"lambda", "noisy", *(("noise", "drop") if training else ())}
    assert {name: one.why.code for (name, _), one in found.items() if one.why} == {
        **REASONS,
        **dict.fromkeys(random, "local_random"),
    }
    assert named(found) == set()


@pytest.mark.parametrize("training", [True, False])
def test_a_layer_of_ones_own_is_judged_as_a_whole(tmp_path, training):
    port = lambda: odd(scale=1.01, noise=False)  # noqa: E731
    found = replayed(tmp_path, lambda: odd(noise=False), port, Y, training, {"given": Y, "training": training})
    assert named(found) == {"block"}
    assert found["block", 0].segment == ("block/dense", "block/norm")


class Own(keras.Model):
    """A class of one's own."""

    def __init__(self):
        super().__init__(name="own")
        self.first, self.second = layers.Dense(4, name="first"), layers.Dense(4, name="second")

    def call(self, x):
        return self.second(keras.ops.relu(self.first(x)))


def test_a_class_of_ones_own_says_so_of_each_of_its_layers(tmp_path):
    net = Own()
    with pytest.raises(ConfigError, match="has no weights yet"):
        reference_of(net, Y)
    net(Y)
    found = replayed(tmp_path, lambda: net, lambda: net, Y)
    assert {name: one.why and one.why.code for (name, _), one in found.items()} == {
        "first": "local_inside",
        "second": "local_inside",
        "own": None,
    }


def test_masks_go_with_the_left_tensors(tmp_path):
    def build(factor=1.0):
        keras.utils.set_random_seed(3)
        given = keras.Input((6,), dtype="int32", name="ids")
        x = layers.Embedding(9, 5, mask_zero=True, name="embed")(given)
        x = layers.Bidirectional(layers.LSTM(4, return_sequences=True), name="both")(x)
        x, state = layers.GRU(4, return_state=True, return_sequences=True, name="gru")(x)
        x = layers.MultiHeadAttention(2, 4, name="attend")(x, x)
        x = layers.GlobalAveragePooling1D(name="mean")(x)
        x = layers.Concatenate(name="cat")([x, state])
        net = keras.Model(given, {"y": layers.Dense(3, activation="gelu", name="fc")(x), "x": x}, name="net")
        kernel = net.get_layer("gru").cell.kernel
        kernel.assign(kernel * factor)
        return net

    ids = np.array([[1, 2, 3, 0, 0, 0], [4, 5, 6, 7, 8, 0]], "i4")
    (tmp_path / "wrong").mkdir()
    good = replayed(tmp_path, build, build, ids)
    assert named(good) == set()
    assert {one.why.code for one in good.values() if one.why} == {"local_inside"}
    wrong = replayed(tmp_path / "wrong", build, lambda: build(1.01), ids)
    assert {place for place, one in wrong.items() if one.outcome == "fail"} == {("gru", 0), ("gru", 1)}


def test_gradients_are_a_reason(tmp_path):
    import tensorflow as tf

    net = odd(noise=False)
    for side in ("left", "right"):
        with Recorder(tmp_path).keras(net, directory=tmp_path / side, gradients=True), tf.GradientTape() as tape:
            tape.gradient(tf.reduce_sum(net(Y) ** 2), net.trainable_variables)
    found = judged(planned_of(tmp_path), net, Y)
    codes = {name: one.why.code for (name, _), one in found.items() if one.why}
    assert {code for name, code in codes.items() if name.endswith(("/grad", "/grad_output"))} == {"local_forward_only"}
    assert {name: code for name, code in codes.items() if "grad" not in name} == REASONS


@pytest.mark.parametrize(
    ("given", "says"),
    [(lambda net: net(X), "return \\(model, inputs\\) instead"), (X[..., :2], "the reference model raised")],
)
def test_what_the_model_cannot_be_called_with_is_one_error(tmp_path, given, says):
    net = model()
    record(tmp_path / "left", net)
    record(tmp_path / "right", net)
    with pytest.raises(ConfigError, match=says):
        judged(planned_of(tmp_path), net, given)


REFERENCE = """
import numpy as np
import keras

def build():
    keras.utils.set_random_seed(7)
    layers = [keras.Input((6,)), keras.layers.Dense(5, name="fc"), keras.layers.ReLU(name="act")]
    return keras.Sequential(layers, name="net")

def wrong():
    net = build()
    net.layers[0].kernel.assign(net.layers[0].kernel * 1.001)
    return net
"""


@pytest.fixture
def reference(tmp_path):
    """The functions of a file that the command is given."""
    (tmp_path / "reference.py").write_text(REFERENCE)
    space = {}
    exec(REFERENCE, space)
    return space


def test_the_command_takes_a_function_and_recorded_inputs(tmp_path, reference, msdump):
    record(tmp_path / "left", reference["wrong"](), np.ones((2, 6), "f4"), inputs=True)
    ran = msdump("replay", "left", "--model", "reference.py:build")
    assert ran.returncode == 1, ran.stderr
    assert "wrong by themselves: fc" in ran.stdout
    results = read_json(tmp_path / "msdump-report" / "results.json")
    assert [one["local"]["outcome"] for one in results["tensors"]] == ["fail", "pass", "pass"]
    ran = msdump("match", "left", "left", "--suggest", "--model", "reference.py:build")
    assert ran.returncode == 4
    assert "only models of PyTorch suggest partners" in ran.stderr


def test_without_inputs_it_is_one_line_and_exit_code_4(tmp_path, reference, msdump):
    record(tmp_path / "left", reference["wrong"](), np.ones((2, 6), "f4"))
    ran = msdump("replay", "left", "--model", "reference.py:build")
    assert ran.returncode == 4
    assert "neither dump has those of net" in ran.stderr


def test_a_model_with_other_weights_than_the_recorded_one_is_refused(tmp_path, reference, msdump):
    for side, build in (("left", "build"), ("right", "wrong")):
        record(tmp_path / side, reference[build](), np.ones((2, 6), "f4"), inputs=True)
    ran = msdump("compare", "left", "right", "--replay", "reference.py:build")
    assert ran.returncode == 4
    assert "has other weights than the model that the right side was recorded of: fc/kernel;" in ran.stderr
