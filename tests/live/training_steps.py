"""Two steps of training the CNN of `small_ports`: reference STYLE WEIGHTS FOLDER, or port MISTAKE WEIGHTS.

The reference is PyTorch's, saved by hooks of one's own as ``NAME.0.TIME.npy``; the port is MindSpore's, which dumps it.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from small_ports import ports, torch_models

LABELS = [1, 2, 3, 4]


def reference(style: str, weights: str, folder: str) -> None:
    """Train, and save what the hooks see, with dots or underscores in names, or both steps in one folder."""
    import torch
    from torch.nn import functional

    model, images = torch_models()["cnn"]
    np.savez(weights, images=images.numpy(), **{name: values.numpy() for name, values in model.state_dict().items()})
    now = SimpleNamespace(step=0)

    def save(name: str, values: torch.Tensor) -> None:
        place = Path(folder) if style == "flat" else Path(folder) / str(now.step)
        place.mkdir(parents=True, exist_ok=True)
        name = name.replace(".", "_") if style == "underscores" else name
        np.save(place / f"{name}.0.{time.time_ns() // 1000}.npy", values.detach().numpy())

    for name, module in model.named_modules():
        if name:
            module.register_forward_hook(lambda _, __, output, name=name: save(name, output))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2)
    for now.step in range(2):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(images), torch.tensor(LABELS))
        loss.backward()
        save("loss", loss)
        for name, weight in model.named_parameters():
            save(f"{name}.grad", weight.grad)
        optimizer.step()
        for name, values in model.state_dict().items():
            if values.ndim:
                save(name, values)
        for name, weight in model.named_parameters():
            save(f"{name}.momentum_buffer", optimizer.state[weight]["momentum_buffer"])


def port(mistake: str, weights: str) -> None:
    """Train the port."""
    from pytest_msdump.record import load_weights

    ms, made = ports()
    ms.set_context(mode=ms.GRAPH_MODE)
    net = made["cnn"](mistake)
    load_weights(net, weights, ignore="images")
    groups = net.trainable_params()
    if mistake != "nodecay":
        # Not grouped, MindSpore leaves beta and gamma out of weight decay.
        groups = [{"params": groups, "weight_decay": 1e-2}]
    rate, momentum = (0.05 if mistake == "lr" else 0.1), (0.8 if mistake == "momentum" else 0.9)
    optimizer = ms.nn.Momentum(groups, rate, momentum, weight_decay=1e-2 if mistake == "nodecay" else 0.0)
    loss = ms.nn.CrossEntropyLoss(reduction="sum" if mistake == "reduction" else "mean")
    step = ms.nn.TrainOneStepCell(ms.nn.WithLossCell(net, loss), optimizer)
    step.set_train()
    for _ in range(2):
        step(ms.Tensor(np.load(weights)["images"]), ms.Tensor(np.array(LABELS, np.int32)))


if __name__ == "__main__":
    {"reference": reference, "port": port}[sys.argv[1]](*sys.argv[2:])
