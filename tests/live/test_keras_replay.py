"""A reference of Keras replayed layer by layer with the tensors of ports."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from dump_builder import write_reference

from pytest_msdump.comparison.planning import plan
from pytest_msdump.errors import ConfigError
from pytest_msdump.record import Recorder
from pytest_msdump.replay.reference_model import reference_of, replay_plan
from pytest_msdump.suite import load_suite

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
    return {(keys[number].op.label, keys[number].op.at.occurrence or 0): one for number, one in found.items()}


def replayed(folder, reference, port, given=X, training=None, feeds=None):
    record(folder / "left", port(), given, training)
    net = reference()
    record(folder / "right", net, given, training)
    return judged(planned_of(folder), net, given if feeds is None else feeds)


def named(found, outcome="fail"):
    return {name for (name, _), one in found.items() if one.outcome == outcome}


def test_debug(tmp_path):
    for kw in ({}, dict(epsilon=1e-3), dict(approximate=True), dict(scale=1.001), dict(slope=0.011), dict(twice=1.001)):
        d = tmp_path / "_".join(kw) ; d.mkdir(exist_ok=True)
        d= d/"x"; d.mkdir()
        found = replayed(d, model, lambda: model(**kw))
        print(kw)
        for k, v in found.items(): print("   ", k, v.outcome, v.score, v.limit, v.why, v.segment)
