"""Small models in PyTorch and their ports, right and with one mistake each: small_ports.py graph|pynative FOLDER.

Writes `FOLDER/MODEL/reference` with hooks of PyTorch, and `FOLDER/MODEL/right` and one folder for each mistake: by
MindSpore's own dump in graph mode, by the recorder in PyNative mode.
"""

import json
import os
import shutil
import sys
import time
from pathlib import Path

import numpy as np

# Each model with the mistakes that a port of it may have, and the module that is then a cause; "" for any.
PORTS = {
    "cnn": {
        "bn_momentum": "bn1",
        "bn_eps": "bn1",
        "padding": "conv1",
        "pool": "pool",
        "last_layer": "head",
        "no_relu": "fc",
    },
    "encoder": {
        "gelu": "blocks.0.act",
        "norm_eps": "blocks.0.ln1",
        "softmax_axis": "blocks.0.attn.proj",
        "scale": "blocks.0.attn.proj",
        "residual": "blocks.0.ln2",
        "no_bias": "blocks.0.fc2",
        "head_weight": "head",
        "key_weight": "blocks.1.attn.k",
    },
    "names": {"slope": "lrelu", "last_layer": "head"},
    "parts": {"concat": "tanh"},
    "recurrent": {"activation": "", "gates": "keep"},
    "embedding": {"scale": "norm", "padding_row": "norm"},
    "norms": {"groups": "norm", "sigmoid": "gate"},
    "pooling": {"stride": "", "average": "stem.2"},
    "preactivation": {"order": "layer1.0.relu", "bn_eps": "layer1.0.bn1"},
    "classifier": {"log_softmax_axis": "prob", "dead_bias": "fc2"},
}
WIDTH, HEADS, TOKENS = 16, 2, 5


def torch_models():
    """Return the reference of each model and its input."""
    import torch
    from torch import nn

    class Cnn(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1, self.bn1, self.relu1 = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU()
            self.pool = nn.MaxPool2d(2, 2)
            self.conv2, self.bn2, self.relu2 = nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU()
            self.fc = nn.Linear(16, 10)

        def forward(self, x):
            x = self.pool(self.relu1(self.bn1(self.conv1(x))))
            return self.fc(self.relu2(self.bn2(self.conv2(x))).mean((2, 3)))

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.q, self.k, self.v, self.proj = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

        def forward(self, x):
            batch, length, _ = x.shape
            parts = (one(x).view(batch, length, HEADS, -1).transpose(1, 2) for one in (self.q, self.k, self.v))
            q, k, v = parts
            weights = torch.softmax(q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5, -1)
            return self.proj((weights @ v).transpose(1, 2).reshape(batch, length, WIDTH))

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.ln1, self.attn, self.ln2 = nn.LayerNorm(WIDTH), Attention(), nn.LayerNorm(WIDTH)
            self.fc1, self.act, self.fc2 = nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            x = x + self.attn(self.ln1(x))
            return x + self.fc2(self.act(self.fc1(self.ln2(x))))

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(31, WIDTH)
            self.blocks = nn.ModuleList(Block() for _ in range(3))
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 31)

        def forward(self, x):
            x = self.emb(x)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x))

    class Names(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.act, self.fc = nn.Conv2d(3, 6, 3), nn.LeakyReLU(0.01), nn.Linear(6 * 36, 10)

        def forward(self, x):
            return self.fc(self.act(self.conv(x)).flatten(1))

    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(8, 6), nn.Linear(8, 6)
            self.tanh, self.out = nn.Tanh(), nn.Linear(12, 4)

        def forward(self, x):
            return self.out(self.tanh(torch.cat([self.one(x), self.two(x)], -1)))

    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.take, self.keep, self.gate = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 16)
            self.out = nn.Linear(8, 4)

        def forward(self, x):
            state = torch.zeros_like(x[:, 0])
            for step in range(3):
                new = torch.tanh(self.take(x[:, step]) + self.keep(state))
                update, reset = torch.sigmoid(self.gate(new)).chunk(2, -1)
                state = update * new + (1 - reset) * state
            return self.out(state)

    class Embedding(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb, self.norm, self.up = nn.Embedding(31, 8), nn.LayerNorm(8), nn.Linear(8, 12)

        def forward(self, x):
            return self.up(self.norm(self.emb(x) * 8**0.5 + self.emb.weight[0]))

    class Norms(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.gate = nn.Conv2d(3, 8, 3), nn.GroupNorm(4, 8), nn.Sigmoid()
            self.last = nn.Conv2d(8, 4, 1)

        def forward(self, x):
            x = self.norm(self.conv(x))
            return self.last(x * self.gate(x))

    class Pooling(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2, 2))
            self.body = nn.Sequential(nn.Conv2d(6, 6, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2, 2))
            self.head = nn.Linear(6, 4)

        def forward(self, x):
            return self.head(self.body(self.stem(x)).mean((2, 3)))

    class Unit(nn.Module):
        def __init__(self):
            super().__init__()
            self.bn1, self.relu, self.conv1 = nn.BatchNorm2d(6), nn.ReLU(), nn.Conv2d(6, 6, 3, padding=1)
            self.bn2, self.conv2 = nn.BatchNorm2d(6), nn.Conv2d(6, 6, 3, padding=1)

        def forward(self, x):
            out = self.conv1(self.relu(self.bn1(x)))
            return x + self.conv2(self.relu(self.bn2(out)))

    class Preactivation(nn.Module):
        def __init__(self):
            super().__init__()
            self.stem, self.layer1, self.layer2 = (
                nn.Conv2d(3, 6, 3),
                nn.Sequential(Unit(), Unit()),
                nn.Sequential(Unit()),
            )
            self.fc = nn.Linear(6, 5)

        def forward(self, x):
            return self.fc(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1, self.act, self.fc2 = nn.Linear(8, 12), nn.ELU(), nn.Linear(12, 6)
            self.prob = nn.LogSoftmax(-1)

        def forward(self, x):
            return self.prob(self.fc2(self.act(self.fc1(x))))

    torch.manual_seed(0)
    image, tokens, rows = torch.randn(2, 3, 8, 8), torch.randint(0, 31, (2, TOKENS)), torch.randn(4, 3, 8)
    models = {
        "cnn": (Cnn().train(), torch.randn(4, 3, 16, 16)),
        "encoder": (Encoder().eval(), tokens),
        "names": (Names().eval(), image),
        "parts": (Parts().eval(), rows),
        "recurrent": (Recurrent().eval(), rows),
        "embedding": (Embedding().eval(), tokens),
        "norms": (Norms().eval(), image),
        "pooling": (Pooling().eval(), image),
        "preactivation": (Preactivation().eval(), image),
        "classifier": (Classifier().eval(), rows),
    }
    for model, _ in models.values():
        for name, value in model.named_parameters():
            if value.ndim == 1:
                torch.nn.init.normal_(value, 1.0 if "bn" in name or "ln" in name or "norm" in name else 0.0, 0.3)
        for name, value in model.named_buffers():
            if name.endswith("running_var") and not model.training:
                torch.nn.init.uniform_(value, 0.05, 2.0)
    return models


def reference(model, x, folder, *, weights):
    """Run a model of PyTorch and save what leaves each module, as one writes it oneself."""
    import torch

    folder.mkdir(parents=True)

    def save(name, value):
        np.save(folder / f"{name}.0.{time.time_ns() // 1000}.npy", value.detach().numpy())

    for name, module in model.named_modules():
        if name:
            module.register_forward_hook(lambda _, __, out, name=name: save(name, out))
    with torch.no_grad():
        model(x)
    if weights:
        for name, value in model.state_dict().items():
            if "num_batches" not in name:
                save(name, value)


def ports():
    """Return what makes a port of each model, with a mistake or without."""
    import mindspore as ms
    from mindspore import nn, ops

    class Cnn(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            is_same, norm = mistake == "padding", {"momentum": 0.1 if mistake == "bn_momentum" else 0.9}
            pad = {"pad_mode": "same"} if is_same else {"pad_mode": "pad", "padding": 1}
            self.conv1 = nn.Conv2d(3, 8, 3, stride=2, **pad)
            self.bn1, self.relu1 = nn.BatchNorm2d(8, eps=0.1 if mistake == "bn_eps" else 1e-5, **norm), nn.ReLU()
            self.pool = nn.AvgPool2d(2, 2) if mistake == "pool" else nn.MaxPool2d(2, 2)
            self.conv2 = nn.Conv2d(8, 16, 3, pad_mode="pad", padding=1, has_bias=True)
            self.bn2, self.relu2 = nn.BatchNorm2d(16, **norm), nn.ReLU()
            self.is_last, self.has_relu = mistake in ("renamed", "last_layer"), mistake != "no_relu"
            if self.is_last:
                self.head = nn.Dense(16, 10)
            else:
                self.fc = nn.Dense(16, 10)

        def construct(self, x):
            x = self.pool(self.relu1(self.bn1(self.conv1(x))))
            x = self.bn2(self.conv2(x))
            x = (self.relu2(x) if self.has_relu else x).mean((2, 3))
            return self.head(x) if self.is_last else self.fc(x)

    def layer_norm(mistake):
        return nn.LayerNorm((WIDTH,), epsilon=1e-2 if mistake == "norm_eps" else 1e-5)

    class Attention(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.q, self.k, self.v, self.proj = (nn.Dense(WIDTH, WIDTH) for _ in range(4))
            self.axis = -2 if mistake == "softmax_axis" else -1
            self.scale = WIDTH**0.5 if mistake == "scale" else (WIDTH // HEADS) ** 0.5

        def construct(self, x):
            batch, length, _ = x.shape
            shape = (batch, length, HEADS, WIDTH // HEADS)
            q = self.q(x).reshape(shape).transpose(0, 2, 1, 3)
            k = self.k(x).reshape(shape).transpose(0, 2, 1, 3)
            v = self.v(x).reshape(shape).transpose(0, 2, 1, 3)
            weights = ops.softmax(ops.matmul(q, k.transpose(0, 1, 3, 2)) / self.scale, axis=self.axis)
            return self.proj(ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(batch, length, WIDTH))

    class Block(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.ln1, self.attn, self.ln2 = layer_norm(mistake), Attention(mistake), layer_norm(mistake)
            self.fc1 = nn.Dense(WIDTH, 4 * WIDTH)
            self.fc2 = nn.Dense(4 * WIDTH, WIDTH, has_bias=mistake != "no_bias")
            self.act, self.has_residual = nn.GELU(approximate=mistake == "gelu"), mistake != "residual"

        def construct(self, x):
            out = self.attn(self.ln1(x))
            x = x + out if self.has_residual else out
            return x + self.fc2(self.act(self.fc1(self.ln2(x))))

    class Encoder(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.emb = nn.Embedding(31, WIDTH)
            self.blocks = nn.CellList([Block(mistake) for _ in range(3)])
            self.norm, self.head = layer_norm(mistake), nn.Dense(WIDTH, 31)
            # After the last hook of the reference: it has nothing to judge it by.
            self.scale = 1.1 if mistake == "head_scale" else 1.0

        def construct(self, x):
            x = self.emb(x)
            for block in self.blocks:
                x = block(x)
            x = self.head(self.norm(x))
            return x if self.scale == 1.0 else x * self.scale

    class Names(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.conv1 = nn.Conv2d(3, 6, 3, pad_mode="valid", has_bias=True)
            self.lrelu = nn.LeakyReLU(0.2 if mistake == "slope" else 0.01)
            self.head = nn.Dense(6 * 36, 10)

        def construct(self, x):
            return self.head(self.lrelu(self.conv1(x)).flatten(start_dim=1))

    class Parts(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.one, self.two = nn.Dense(8, 6), nn.Dense(8, 6)
            self.tanh, self.out, self.is_swapped = nn.Tanh(), nn.Dense(12, 4), mistake == "concat"

        def construct(self, x):
            one, two = self.one(x), self.two(x)
            return self.out(self.tanh(ops.cat((two, one) if self.is_swapped else (one, two), -1)))

    class Recurrent(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.take, self.keep, self.gate = nn.Dense(8, 8), nn.Dense(8, 8), nn.Dense(8, 16)
            self.out, self.is_relu, self.is_swapped = nn.Dense(8, 4), mistake == "activation", mistake == "gates"

        def construct(self, x):
            state = ops.zeros_like(x[:, 0])
            for step in range(3):
                new = self.take(x[:, step]) + self.keep(state)
                new = ops.relu(new) if self.is_relu else ops.tanh(new)
                update, reset = ops.split(ops.sigmoid(self.gate(new)), 8, axis=-1)
                if self.is_swapped:
                    update, reset = reset, update
                state = update * new + (1 - reset) * state
            return self.out(state)

    class Embedding(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.emb, self.norm, self.up = nn.Embedding(31, 8), nn.LayerNorm((8,), epsilon=1e-5), nn.Dense(8, 12)
            self.scale, self.row = 1.0 if mistake == "scale" else 8**0.5, 1 if mistake == "padding_row" else 0

        def construct(self, x):
            return self.up(self.norm(self.emb(x) * self.scale + self.emb.embedding_table[self.row]))

    class Norms(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.conv = nn.Conv2d(3, 8, 3, pad_mode="valid", has_bias=True)
            self.norm = nn.GroupNorm(2 if mistake == "groups" else 4, 8)
            self.gate = nn.HSigmoid() if mistake == "sigmoid" else nn.Sigmoid()
            self.last = nn.Conv2d(8, 4, 1, pad_mode="valid", has_bias=True)

        def construct(self, x):
            x = self.norm(self.conv(x))
            return self.last(x * self.gate(x))

    class Pooling(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            conv = {"pad_mode": "pad", "padding": 1, "has_bias": True}
            average = nn.MaxPool2d(2, 2) if mistake == "average" else nn.AvgPool2d(2, 2)
            self.stem = nn.SequentialCell(nn.Conv2d(3, 6, 3, **conv), nn.ReLU(), average)
            self.body = nn.SequentialCell(
                nn.Conv2d(6, 6, 3, **conv), nn.ReLU(), nn.MaxPool2d(2, 1 if mistake == "stride" else 2)
            )
            self.head = nn.Dense(6, 4)

        def construct(self, x):
            return self.head(self.body(self.stem(x)).mean((2, 3)))

    class Unit(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            conv = {"pad_mode": "pad", "padding": 1, "has_bias": True}
            self.bn1, self.bn2 = (nn.BatchNorm2d(6, eps=1e-2 if mistake == "bn_eps" else 1e-5) for _ in range(2))
            self.conv1, self.conv2, self.relu = nn.Conv2d(6, 6, 3, **conv), nn.Conv2d(6, 6, 3, **conv), nn.ReLU()
            self.is_late = mistake == "order"

        def construct(self, x):
            out = self.conv1(self.relu(self.bn1(x)))
            out = self.bn2(self.relu(out)) if self.is_late else self.relu(self.bn2(out))
            return x + self.conv2(out)

    class Preactivation(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.stem = nn.Conv2d(3, 6, 3, pad_mode="valid", has_bias=True)
            self.layer1 = nn.SequentialCell(Unit(mistake), Unit(mistake))
            self.layer2, self.fc = nn.SequentialCell(Unit(mistake)), nn.Dense(6, 5)

        def construct(self, x):
            return self.fc(self.layer2(self.layer1(self.stem(x))).mean((2, 3)))

    class Classifier(nn.Cell):
        def __init__(self, mistake):
            super().__init__()
            self.fc1, self.act = nn.Dense(8, 12), nn.ELU()
            self.fc2, self.prob = nn.Dense(12, 6), nn.LogSoftmax(1 if mistake == "log_softmax_axis" else -1)

        def construct(self, x):
            return self.prob(self.fc2(self.act(self.fc1(x))))

    classes = (Cnn, Encoder, Names, Parts, Recurrent, Embedding, Norms, Pooling, Preactivation, Classifier)
    return ms, {one.__name__.lower(): one for one in classes}


RENAMED = {"names": {"conv1": "conv", "head": "fc"}}
# Mistake → a weight that is another one than the reference's.
SPOILED = {
    "last_layer": ("head.weight", lambda values: values[::-1]),
    "head_weight": ("head.weight", lambda values: values[::-1]),
    "key_weight": ("blocks.1.attn.k.weight", lambda values: values.T),
    "dead_bias": ("fc2.bias", lambda values: 0 * values),
}
# Ports whose tests are their own.
MORE = {"cnn": ["renamed"], "encoder": ["head_scale"]}


def main(mode, folder):
    """Run every model and every port of it."""
    models = torch_models()
    ms, made = ports()
    from pytest_msdump.record import Recorder, load_weights

    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    dump = folder / "dump" / "rank_0"
    known = set()
    for name, (model, x) in models.items():
        state = {key: value.detach().numpy().copy() for key, value in model.state_dict().items()}
        np.savez(folder / f"{name}.npz", **{key: value for key, value in state.items() if "num_batches" not in key})
        reference(model, x, folder / name / "reference", weights=name in ("cnn", "encoder") and mode == "graph")
        for mistake in ("right", *PORTS[name], *MORE.get(name, [])):
            net = made[name](mistake).set_train(name == "cnn")
            renamed = dict(RENAMED.get(name, {}))
            if name == "cnn" and mistake in ("renamed", "last_layer"):
                renamed["head"] = "fc"
            ignored = "*.fc2.bias" if mistake == "no_bias" else ()
            load_weights(net, folder / f"{name}.npz", map=renamed, ignore=ignored)
            if mistake in SPOILED:
                weight, spoil = SPOILED[mistake]
                (held,) = (one for one in net.get_parameters() if one.name == weight)
                held.set_data(ms.Tensor(np.ascontiguousarray(spoil(held.asnumpy()))))
            data = ms.Tensor(x.numpy().astype(np.int32) if name in ("encoder", "embedding") else x.numpy())
            target = folder / name / mistake
            if mode == "pynative":
                with Recorder(folder).mindspore(net, directory=target):
                    net(data)
                continue
            net(data).asnumpy()
            graphs = {int(one.name) for one in (dump / "Net").iterdir() if one.name.isdigit()} - known
            keep(dump, target, graphs)
            known |= graphs


def keep(dump, target, graphs):
    """Move what one network dumped to a directory of its own."""
    for file in sorted(dump.rglob("*")):
        parts = file.relative_to(dump).parts
        words = file.stem.split("_")
        is_own = (
            parts[1].isdigit() and int(parts[1]) in graphs
            if parts[0] == "Net" and len(parts) > 1
            else any(word.isdigit() and int(word) in graphs for word in words)
        )
        new = target / "rank_0" / Path(*parts)
        if parts[0] == ".dump_metadata" and file.is_dir():
            shutil.copytree(file, new)
        elif file.is_file() and is_own:
            new.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(file, new)


if __name__ == "__main__":
    if sys.argv[1] == "graph":
        settings = {
            "common_dump_settings": {
                "dump_mode": 0,
                "path": f"{Path(sys.argv[2]).resolve()}/dump",
                "net_name": "Net",
                "iteration": "all",
                "saved_data": "tensor",
                "input_output": 2,
                "kernels": [],
                "support_device": [0],
                "op_debug_mode": 0,
                "file_format": "npy",
            },
            "e2e_dump_settings": {"enable": True, "trans_flag": True},
        }
        config = Path(sys.argv[2]) / "dump.json"
        config.write_text(json.dumps(settings))
        os.environ["MINDSPORE_DUMP_CONFIG"] = str(config)
    main(sys.argv[1], Path(sys.argv[2]).resolve())
