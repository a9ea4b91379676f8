"""What a recording of a Keras model holds, beside what TensorFlow itself gives back. Needs TensorFlow."""

from contextlib import suppress

import numpy as np
import pytest
from live.reading_back import TYPES, check_read_back, of_type
from live.recordings import manifest_of

from pytest_msdump import open_dump
from pytest_msdump.core.dumps.manifest import read_manifest
from pytest_msdump.core.errors import ConfigError, UnknownNameError
from pytest_msdump.record import Perturbation, Recorder

tf = pytest.importorskip("tensorflow")
keras = pytest.importorskip("keras")
layers = keras.layers

pytestmark = pytest.mark.live

X = np.random.default_rng(1).normal(size=(2, 8, 8, 3)).astype(np.float32)
LABELS = np.array([1, 4])


def functional():
    """Inner models, an operation that is no layer, a layer that is called twice, random numbers."""
    keras.utils.set_random_seed(5)
    images = keras.Input((8, 8, 3))
    same = layers.Conv2D(3, 3, padding="same", name="same")
    hidden = layers.BatchNormalization(name="bn")(same(same(images)))
    hidden = keras.ops.relu(hidden) + images
    head = keras.Sequential([layers.Flatten(), layers.Dropout(0.5), layers.Dense(5, name="fc")], name="head")
    return keras.Model(images, head(hidden), name="net")


class Block(layers.Layer):
    def __init__(self, **options):
        super().__init__(**options)
        self.first, self.second = layers.Dense(4, name="first"), layers.Dense(4, name="second")

    def call(self, x, *, scale):
        # x goes to three places, and what `first` gives back to two.
        hidden = self.first(x)
        return {"out": self.second(hidden) + x * scale + hidden * hidden, "rest": (hidden, None)}


class Own(keras.Model):
    """A class of one's own: lists of layers, dictionaries as outputs."""

    def __init__(self):
        super().__init__(name="own")
        self.blocks = [Block(name="a"), Block(name="b")]
        self.drop = layers.Dropout(0.3, name="drop")

    def call(self, x, training=False):
        for block in self.blocks:
            x = block(x, scale=2.0)["out"]
        return self.drop(x, training=training)


def train(model, x, *, persistent=False):
    """Outputs, loss and gradients of one step of training."""
    with tf.GradientTape(persistent=persistent) as tape:
        logits = model(x, training=True)
        loss = tf.reduce_mean(logits**2)
    return [logits, loss, *tape.gradient(loss, model.trainable_variables)]


def bits(tensors):
    return [tf.convert_to_tensor(tensor).numpy().tobytes() for tensor in tensors]


# -- recording changes nothing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("gradients", [False, True])
def test_outputs_and_gradients_are_those_without_a_recording(tmp_path, gradients):
    def step(model, x, **options):
        keras.utils.set_random_seed(9)
        if not options:
            return bits(train(model, x))
        with Recorder(tmp_path).keras(model, **options):
            return bits(train(model, x))

    for make, x in ((functional, X), (Own, X[:, 0, 0, :1].repeat(4, axis=1))):
        runs = []
        for options in ({}, {"gradients": gradients, "inputs": True}, {}):
            keras.utils.set_random_seed(5)
            model = make()
            model(x)
            runs.append(step(model, x, **options))
        assert runs[0] == runs[1] == runs[2]


def test_classes_are_as_before_whatever_happens(tmp_path):
    model = functional()
    kinds = [*{type(layer) for layer in model.layers}, layers.Layer, tf.GradientTape]
    before = [dict(vars(kind)) for kind in kinds]
    recording = Recorder(tmp_path).keras(model, gradients=True, compiled="eager")
    with pytest.raises(ValueError, match="expected shape"), recording:
        model(X[:, :4])
    assert [dict(vars(kind)) for kind in kinds] == before
    assert not tf.config.functions_run_eagerly()
    assert not manifest_of(recording)["complete"]


# -- what is recorded -------------------------------------------------------------------------------------------------


def test_layers_and_operations_are_recorded_in_the_order_of_their_calls(tmp_path):
    model = functional()
    with Recorder(tmp_path).keras(model) as recording:
        result = model(X)
    dump = open_dump(recording.directory)
    names = [(ref.key.op.name, ref.key.op.at.occurrence) for ref in dump.refs]
    operations = [layer.name for layer in model.operations if type(layer).__name__ in ("Relu", "Add")]
    head = [f"head_{layer.name}" for layer in model.get_layer("head").layers]
    assert names == [("same", 0), ("same", 1), ("bn", 0), *((name, 0) for name in (*operations, *head)), ("net", 0)]
    once = model.get_layer("same")(X)
    np.testing.assert_array_equal(dump.read("same"), once)
    np.testing.assert_array_equal(dump.read("bn"), model.get_layer("bn")(model.get_layer("same")(once)))
    np.testing.assert_array_equal(dump.read("net"), result)
    np.testing.assert_array_equal(dump.read("head/fc"), result)


def test_nested_outputs_are_slots_and_lines_are_of_the_user(tmp_path):
    model, x = Own(), np.ones((2, 4), np.float32)
    with Recorder(tmp_path).keras(model, inputs=True) as recording:
        model(x)
    dump = open_dump(recording.directory)
    block = [address for address in dump if address.startswith("a:")]
    assert block == ["a:input:0", "a:output:0", "a:output:1"]
    np.testing.assert_array_equal(dump.read("a:output:1"), dump.read("a/first"))
    np.testing.assert_array_equal(dump.read("b:input:0"), dump.read("a:output:0"))
    entries = read_manifest(recording.directory)[0].tensors.values()
    assert {entry.line.rpartition(":")[0] for entry in entries} == {__file__}


def test_globs_and_types_choose(tmp_path):
    model = functional()

    def names(**options):
        with Recorder(tmp_path).keras(model, **options) as recording:
            model(X)
        return {ref.key.op.name for ref in open_dump(recording.directory).refs}

    assert names(types="Conv*") == {"same"}
    assert names(layers="head*", exclude=["head/drop*", "head/flat*"]) == {"head", "head_fc"}
    with pytest.raises(UnknownNameError, match="no operator is called 'smae'; did you mean"):
        names(layers="smae")


def test_iterations_have_folders_of_their_own(tmp_path):
    model = functional()
    with Recorder(tmp_path).keras(model, iterations=True, layers="bn") as recording:
        for scale in (1, 2):
            model(X * np.float32(scale))
            recording.step()
    dump = open_dump(recording.directory)
    assert [ref.key.op.at.iteration for ref in dump.refs] == [0, 1]
    assert [*read_manifest(recording.directory)[0].inputs] == ["inputs", "inputs[1]"]
    with Recorder(tmp_path).keras(model) as recording:
        model(X)
        with pytest.raises(ConfigError, match="iterations=True"):
            recording.step()


# -- gradients --------------------------------------------------------------------------------------------------------


def test_gradients_are_those_that_a_tape_gives_for_the_tensors_themselves(tmp_path):
    model = functional()
    model(X)
    parts = model.get_layer("head").layers
    with tf.GradientTape() as tape:
        images = tf.constant(X)
        tape.watch(images)
        first = model.get_layer("same")(images)
        second = model.get_layer("same")(first)
        bn = model.get_layer("bn")(second, training=True)
        total = tf.nn.relu(bn) + images
        hidden = total
        for part in parts:
            hidden = part(hidden, training=True) if "drop" in part.name else part(hidden)
        loss = tf.reduce_mean(hidden**2)
    kernel = model.get_layer("same").kernel
    exact = tape.gradient(loss, [images, first, second, bn, total, hidden, kernel.value])
    # Another one of the same seed: layers that draw numbers have drawn some.
    model = functional()
    model(X)
    with Recorder(tmp_path).keras(model, gradients=True) as recording, tf.GradientTape() as tape:
        images = tf.constant(X)
        tape.watch(images)
        loss = tf.reduce_mean(model(images, training=True) ** 2)
        tape.gradient(loss, model.trainable_variables)
    folder = recording.directory
    found = {
        name: [np.load(path) for path in sorted(folder.glob(f"{name}.0.*"), key=lambda path: path.name.split(".")[-2])]
        for name in ("net_grad_input", "same_grad_input", "same_grad_output", "bn_grad_output", "head_fc_grad_output")
    }
    # Backwards: the second call of `same` comes first.
    for name, expected in (
        ("net_grad_input", [exact[0]]),
        ("same_grad_input", [exact[1], exact[0]]),
        ("same_grad_output", [exact[2], exact[1]]),
        ("bn_grad_output", [exact[3]]),
        ("head_fc_grad_output", [exact[5]]),
    ):
        assert [array.tobytes() for array in found[name]] == bits(expected), name
    assert open_dump(folder).read("same/kernel/grad").tobytes() == bits([exact[6]])[0]


def test_gradients_of_an_embedding_are_whole(tmp_path):
    model = keras.Sequential([layers.Embedding(6, 2, name="table")])
    model(np.array([[1, 3, 3]]))
    with Recorder(tmp_path).keras(model, gradients=True) as recording, tf.GradientTape() as tape:
        tape.gradient(tf.reduce_sum(model(np.array([[1, 3, 3]]))), model.trainable_variables)
    gradient = open_dump(recording.directory).read("table/embeddings/grad")
    np.testing.assert_array_equal(gradient, np.array([0, 1, 0, 2, 0, 0])[:, None] * np.ones(2))


def test_gradients_that_never_come_are_an_error(tmp_path):
    model = functional()
    recording = Recorder(tmp_path).keras(model, gradients=True)
    with pytest.raises(ConfigError, match="gradients of net were asked for, and none came"), recording:
        model(X)


def test_weights_are_those_before_the_first_call(tmp_path):
    model = functional()
    mean = model.get_layer("bn").moving_mean.numpy()
    with Recorder(tmp_path).keras(model, parameters=True) as recording:
        model(X, training=True)
    dump = open_dump(recording.directory)
    assert not np.array_equal(mean, model.get_layer("bn").moving_mean.numpy())
    np.testing.assert_array_equal(dump.read("bn/moving_mean"), mean)
    assert dump["head/fc/kernel"].key.op.op_type == "Parameter"
    with pytest.raises(ConfigError, match="own has no weights yet"), Recorder(tmp_path).keras(Own(), parameters=True):
        pass


# -- compiled functions -----------------------------------------------------------------------------------------------


def test_predict_and_fit_are_refused_or_run_uncompiled(tmp_path):
    model = functional()
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    recorder = Recorder(tmp_path)
    with pytest.raises(ConfigError, match=r"net ran inside of a tf\.function.*compiled='eager'"), recorder.keras(model):
        model.predict(X, verbose=0)
    again = recorder.keras(model)
    with pytest.raises(ConfigError, match=r"none of the chosen layers was called.*compiled='eager'"), again:
        model.predict(X, verbose=0)
    with recorder.keras(model, compiled="eager") as recording:
        predicted = model.predict(X, verbose=0)
    np.testing.assert_array_equal(open_dump(recording.directory).read("net"), predicted)
    with recorder.keras(model, compiled="eager", gradients=True, iterations=True) as recording:
        step = keras.callbacks.LambdaCallback(on_train_batch_end=lambda *_, **__: recording.step())
        model.fit(X, LABELS, batch_size=1, verbose=0, callbacks=[step])
    refs = open_dump(recording.directory).refs
    assert {ref.key.op.at.iteration for ref in refs if ref.key.op.name == "same_kernel_grad"} == {0, 1}


def test_a_layer_inside_of_a_compiled_function_is_never_left_out_silently(tmp_path):
    inner = functional()
    compiled = tf.function(inner)

    class Outer(keras.Model):
        def __init__(self):
            super().__init__(name="outer")
            self.inner = inner

        def call(self, x):
            return compiled(x)

    model = Outer()
    with pytest.raises(ConfigError, match=r"net ran inside of a tf\.function"), Recorder(tmp_path).keras(model):
        model(X)


# -- types and the manifest -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TYPES)
def test_every_type_comes_back_bit_for_bit(tmp_path, name):
    array = of_type(name)
    value = tf.constant(array)
    assert value.dtype.name == name
    layer = layers.Lambda(lambda _: value, name="source")
    with Recorder(tmp_path).keras(layer) as recording:
        layer(np.zeros(1, np.float32))
    check_read_back(recording.directory, "source", array)


def test_sparse_tensors_are_whole_and_text_is_passed_over(tmp_path):
    sparse = tf.sparse.from_dense([[0, 2.0], [0, 0]])
    layer = layers.Lambda(lambda _: {"a": tf.constant("text"), "b": sparse}, name="source")
    with Recorder(tmp_path).keras(layer) as recording:
        layer(np.zeros(1, np.float32))
    dump = open_dump(recording.directory)
    assert list(dump) == ["source:output:1"]
    np.testing.assert_array_equal(dump.read("source"), [[0, 2], [0, 0]])


def test_the_manifest_tells_the_run(tmp_path):
    model = functional()
    with Recorder(tmp_path).keras(model) as recording:
        model(X)
    manifest = read_manifest(recording.directory)[0]
    assert (manifest.framework, manifest.version, manifest.device) == ("tensorflow", tf.__version__, "cpu")
    assert manifest.seeds == {"tensorflow": 5}
    with Recorder(tmp_path).writer(directory=tmp_path / "other") as other:
        other.describe(inputs={"inputs": X}, weights={"fc": model.get_layer("head").layers[-1].kernel.numpy().T})
    theirs = read_manifest(tmp_path / "other")[0]
    assert manifest.inputs == theirs.inputs
    assert manifest.weights["head/fc/kernel"].split("/")[1] == theirs.weights["fc"].split("/")[1]


def test_what_is_no_layer_of_keras_3_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="not a layer or model of Keras 3"):
        Recorder(tmp_path).keras(tf.Module())


# -- The graph -------------------------------------------------------------------------------------------------------


def calls_of(model, x, directory):
    with Recorder(directory).keras(model, directory=directory / "d") as recording:
        model(x)
    calls = manifest_of(recording)["graph"]
    return [(call["name"], call["inputs"], call.get("inside")) for call in calls]


def test_a_functional_model_is_as_it_is_written(tmp_path):
    layer = layers.Conv2D(3, 3, padding="same", name="same")
    images = keras.Input((8, 8, 3))
    hidden = layers.BatchNormalization(name="bn")(layer(layer(images)))
    joined = layers.Add(name="join")([layers.ReLU(name="relu")(hidden), images])
    head = keras.Sequential([layers.Flatten(name="flat"), layers.Dense(5, name="fc")], name="head")
    model = keras.Model(images, head(joined), name="net")
    assert calls_of(model, tf.constant(X), tmp_path) == [
        ("same", [None], "net"),
        ("same", [["same", 0, 0]], "net"),
        ("bn", [["same", 0, 1]], "net"),
        ("relu", [["bn", 0]], "net"),
        ("join", [["relu", 0], None], "net"),
        ("head/flat", [["join", 0]], "net"),
        ("head/fc", [["head/flat", 0]], "net"),
        ("net", [None, ["head/fc", 0]], None),
    ]


def test_what_operations_between_layers_made_is_not_known(tmp_path):
    class Between(keras.Model):
        def __init__(self):
            super().__init__(name="net")
            self.a, self.b, self.c = (layers.Dense(4, name=name) for name in "abc")

        def call(self, x):
            hidden = self.a(x)
            return self.c(self.b(hidden * 2) + hidden)

    model = Between()
    model(tf.ones((2, 4)))
    assert calls_of(model, tf.ones((2, 4)), tmp_path) == [
        ("a", [None], "net"),
        ("b", [["", 0]], "net"),
        ("c", [["", 0]], "net"),
        ("net", [None, ["c", 0]], None),
    ]


@pytest.mark.parametrize("policy", ["float32", "mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("whole", [True, False])
def test_the_manifest_has_the_coarsest_policy_of_the_layers(tmp_path, policy, whole):
    inner = [layers.Dense(4, dtype=policy), layers.Dense(2, dtype=policy if whole else "float32")]
    model = keras.Sequential([keras.Input((3,)), *inner])
    with Recorder(tmp_path).keras(model) as recording:
        model(np.ones((2, 3), "float32"))
    manifest, _ = read_manifest(recording.directory)
    assert manifest.dtype_policy == ("" if policy == "float32" else policy)


# -- perturbed runs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["float32", "bfloat16"])
def test_a_perturbed_run_is_that_of_perturbed_weights_and_inputs(tmp_path, policy):
    keras.utils.set_random_seed(1)
    keras.config.set_dtype_policy(policy)
    try:
        model = keras.Sequential([keras.Input((6,)), layers.Dense(5, name="fc"), layers.BatchNormalization(name="bn")])
    finally:
        keras.config.set_dtype_policy("float32")
    perturb = Perturbation(4, 2.0**-5)
    x = tf.cast(np.random.default_rng(2).normal(size=(3, 6)), policy)
    before = bits(model.weights)
    result = {}
    for name, options in {"plain": {}, "noisy": {"perturb": perturb, "inputs": True, "parameters": True}}.items():
        with Recorder(tmp_path).keras(model, directory=tmp_path / name, **options), tf.GradientTape() as tape:
            tape.watch(x)
            result[name] = model(x, training=name == "noisy")
            gradient = tape.gradient(result[name], x) if name == "plain" else None
            assert gradient is None or gradient.shape == x.shape
    assert bits(model.weights) == before
    dump = open_dump(tmp_path / "noisy")
    given = perturb("0/0", x.numpy())
    assert dump.read("fc:input:0").tobytes() == given.astype("float32").tobytes()
    kernel = perturb("fc/kernel", model.get_layer("fc").kernel.numpy())
    assert dump.read("fc/kernel").tobytes() == kernel.astype("float32").tobytes()
    plain, noisy = (read_manifest(tmp_path / name)[0] for name in ("plain", "noisy"))
    assert plain.inputs == noisy.inputs != {}
    assert plain.weights == noisy.weights != {}
    assert noisy.perturbation == {"u": 2.0**-5, "what": "input+weights", "seed": 4}
    assert plain.perturbation is None


def test_weights_are_put_back_after_an_error_and_gradients_reach_what_was_given(tmp_path):
    model = functional()
    before, x = bits(model.weights), tf.constant(X)
    with suppress(ZeroDivisionError), Recorder(tmp_path).keras(model, perturb=Perturbation(1)):
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(model(x, training=True) ** 2)
        assert tf.reduce_max(tf.abs(tape.gradient(loss, x))) > 0
        raise ZeroDivisionError
    assert bits(model.weights) == before
    infinite = tf.constant([[np.inf, -np.inf, 1.0]])
    with Recorder(tmp_path).keras(
        keras.Sequential([keras.Input((3,)), layers.Activation("linear")]), perturb=Perturbation(1)
    ) as recording:
        assert recording.model(infinite).numpy()[0, :2].tolist() == [np.inf, -np.inf]


def test_arrays_are_perturbed_too_and_a_model_without_weights_is_refused(tmp_path):
    with Recorder(tmp_path).keras(model := functional(), perturb=Perturbation(1, 2.0**-4, "input")):
        noisy = model(X)
    given = Perturbation(1, 2.0**-4)("0/0", X)
    assert bits([noisy]) == bits([model(given)])
    with (
        pytest.raises(ConfigError, match="has no weights yet"),
        Recorder(tmp_path).keras(Own(), perturb=Perturbation(1)),
    ):
        pass
