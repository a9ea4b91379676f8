"""Parameters cut by MindSpore's own functions, and strategy files of its own classes: run by MindSpore, with a FOLDER.

Writing a strategy file from a network needs Ascend; what is written is the same message.
"""

import sys
from pathlib import Path

import mindspore
import numpy as np
from mindspore.parallel import _tensor as of_mindspore
from mindspore.train.node_strategy_pb2 import ParallelStrategyMap

# Name → shape, device matrix, tensor map, step and size of the optimizer's shards.
ONE = {
    "net.rows": ((8, 6), [2, 4], [0, -1], 0, 0),
    "net.both": ((8, 6), [2, 4], [0, 1], 0, 0),
    "net.turned": ((8, 6, 2), [2, 2, 2], [-1, 0, 2], 0, 0),
    "net.whole": ((5,), [8], [-1], 0, -1),
    "net.number": ((), [2, 4], [], 0, 0),
    "net.nested": ((8, 6), [2, 2, 2], [[2, 0], [1]], 0, 0),
    "net.nested_one": ((8, 6), [2, 2, 2], [[1, 2], [-1]], 0, 0),
    "adam.all": ((16, 3), [8], [-1, -1], 1, -1),
    "adam.outer": ((16, 4), [4, 2], [0, -1], 2, 4),
    "adam.part": ((16, 4), [4, 2], [-1, 0], 2, 2),
    "adam.two_axes": ((16, 4), [2, 2, 2], [-1, 1], 1, 4),
    "adam.inner": ((16, 4), [2, 2, 2], [1, -1], 1, 2),
}
FIRST = {"head.first": ((4, 6), [2, 2], [1, 0], 0, 0), "tied": ((8, 3), [2, 2], [0, -1], 0, 0)}
LAST = {"head.last": ((4, 8), [4], [-1, 0], 0, 0), "tied": FIRST["tied"]}


def strategy_file(path, stage, parameters):
    made = ParallelStrategyMap(current_stage=1)
    node = made.parallel_strategy_item.add(node_name="MatMul-op0")
    node.parallel_strategys.stage = stage
    node.parallel_strategys.parallel_strategy.add(dim=[2, 1])
    for name, (_, matrix, maps, step, size) in parameters.items():
        layout = made.parallel_layout_item.add(param_name=name).parallel_layouts
        layout.dev_matrix.add(dim=matrix)
        for one in maps if any(isinstance(one, list) for one in maps) else [maps]:
            layout.tensor_map.add(dim=one)
        layout.param_split_shape.add()
        layout.indices_offset.add()
        layout.field, layout.opt_weight_shard_step, layout.opt_weight_shard_size = 0, step, size
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(made.SerializeToString())


def save(path, values):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path, values)


def cut(values, matrix, maps, step, size, rank):
    if not maps:
        return values
    layout = of_mindspore._extract_layout_item([list(matrix), list(maps), None, 0, step, size])
    devices, expanded, shape = of_mindspore._construct_tensor_layout_for_opt_shard(*layout, values.shape)
    tensor = mindspore.Tensor(values.reshape(shape))
    part = of_mindspore._load_tensor(tensor, devices, expanded, rank_id=rank)
    parts = of_mindspore._get_tensor_strategy(matrix, maps)
    inner = [length // count for length, count in zip(values.shape[1:], parts[1:], strict=True)]
    return part.reshape(-1, *inner)


def main(folder):
    whole = {}
    for place, (name, (shape, *_)) in enumerate({**ONE, **FIRST, **LAST}.items()):
        whole[name] = np.random.default_rng(place).random(shape, "f4")
    for run, first, ranks, parameters in [
        ("one", 0, 8, ONE),
        ("stages", 0, 4, FIRST),
        ("stages", 4, 4, LAST),
    ]:
        for name, (_, *layout) in parameters.items():
            save(folder / f"{run}_whole/{name}.npy", whole[name])
            for rank in range(ranks):
                save(folder / f"{run}/rank_{first + rank}/{name}.npy", cut(whole[name], *layout, rank))
    strategy_file(folder / "one.ckpt", 0, ONE)
    for stage, parameters in enumerate((FIRST, LAST)):
        strategy_file(folder / f"of_stages/stage{stage}.ckpt", stage, parameters)
    mindspore.merge_pipeline_strategys(str(folder / "of_stages"), str(folder / "stages.ckpt"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
