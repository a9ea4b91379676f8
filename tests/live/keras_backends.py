"""One step of a Keras model on the backend that KERAS_BACKEND names, recorded: FOLDER METHOD."""

import sys

import keras
import numpy as np
from keras import layers

from pytest_msdump.record import Recorder


class Own(keras.Model):
    """Lists of layers, an inner model, a layer that is called twice."""

    def __init__(self):
        super().__init__(name="own")
        self.blocks = [layers.Dense(4, name="a"), layers.Dense(4, name="b")]
        self.head = keras.Sequential([layers.Dense(3, name="c"), layers.ReLU(name="relu")], name="head")

    def call(self, x):
        for block in (*self.blocks, self.blocks[0]):
            x = block(x) + x
        return self.head(x)


def main(folder, method):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(2, 4)).astype("f4")
    model = Own()
    model(x)
    for variable in model.variables:
        variable.assign(draw.normal(size=variable.shape).astype("f4"))
    recorder = Recorder(folder)
    options = {"directory": f"{folder}/{keras.config.backend()}", "inputs": True, "gradients": True, "parameters": True}
    with getattr(recorder, method)(model, **options):
        if keras.config.backend() == "torch":
            model(x).square().sum().backward()
        else:
            import tensorflow as tf

            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(model(x) ** 2)
            tape.gradient(loss, model.trainable_variables)


if __name__ == "__main__":
    if "--without-tensorflow" in sys.argv:
        sys.modules["tensorflow"] = None
    main(*sys.argv[1:3])
