"""Records a small network made of tinyops into $MSDUMP_DIR; its size and numbers are by $SEED."""

import inspect
import os

import numpy as np
import tinyops

from pytest_msdump.core.model.dump import Edge, Operator
from pytest_msdump.record import DumpWriter

KINDS = {"matmul": "MatMul", "layer_norm": "LayerNorm", "softmax": "Softmax", "add": "Add", "mul": "Mul"}
KINDS |= {"relu": "ReLU", "reduce_sum": "ReduceSum"}


class Network:
    """Calls operators, and records each call with what fed it."""

    def __init__(self, writer):
        self.writer, self.made, self.kept = writer, {}, []

    def call(self, name, function, *inputs, **attributes):
        """Call an operator, record it, and return what goes on."""
        kind = KINDS[function]
        call = getattr(tinyops, function)
        for slot, one in enumerate(inputs):
            self.writer.write(name, one, slot=slot, io="input", op_type=kind)
        value = call(*inputs, **attributes)
        own = inspect.signature(call).parameters.values()
        attributes = {one.name: one.default for one in own if one.default is not one.empty} | attributes
        edges = tuple(Edge(self.made[id(one)], 0) if id(one) in self.made else None for one in inputs)
        written = ", ".join(f"{key}: {one}" for key, one in attributes.items())
        self.writer.add_call(Operator(name, kind, inputs=edges, attributes=written))
        value = self.writer.pass_on(name, value, op_type=kind)
        self.made[id(value)] = name
        # So that no other gets its number.
        self.kept.append(value)
        return value


def main():
    """Record the network."""
    rng = np.random.default_rng(int(os.environ["SEED"]))
    width, rows = 64 + 32 * int(rng.integers(3)), 8 + int(rng.integers(8))

    def weight(*shape):
        return (rng.standard_normal(shape) / np.sqrt(shape[0])).astype("f4")

    x = rng.standard_normal((rows, width)).astype("f4")
    with DumpWriter(os.environ["MSDUMP_DIR"], framework="tinyops", version=tinyops.__version__) as writer:
        writer.describe(settings=tinyops.settings(), inputs={"x": x})
        net = Network(writer)
        for layer in range(2):
            at = f"layer{layer}."
            y = net.call(at + "norm", "layer_norm", x, 1 + weight(width), weight(width))
            q = net.call(at + "query", "matmul", y, weight(width, width))
            k = net.call(at + "key", "matmul", y, weight(width, rows))
            p = net.call(at + "softmax", "softmax", net.call(at + "scores", "matmul", y[:, :rows], k[:rows]))
            y = net.call(at + "attended", "matmul", p, q)
            x = net.call(at + "residual", "add", x, y)
            h = net.call(at + "relu", "relu", net.call(at + "up", "matmul", x, weight(width, 2 * width)))
            h = net.call(at + "gate", "mul", h, weight(rows, 2 * width))
            x = net.call(at + "out", "add", x, net.call(at + "down", "matmul", h, weight(2 * width, width)))
        net.call("total", "reduce_sum", x)


if __name__ == "__main__":
    main()
