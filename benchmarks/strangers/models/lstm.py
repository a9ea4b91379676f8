"""Two LSTM cells in a loop over time; ports with cells of one's own, and with the layer that PyTorch has."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from ..port import Model, Port
from .weights import TOKENS, VOCABULARY, seeded

WIDTH = 24


class Loop(nn.Module):
    """The reference: each cell is called once for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.cell0, self.cell1 = nn.LSTMCell(WIDTH, WIDTH), nn.LSTMCell(WIDTH, WIDTH)
        self.norm, self.fc1, self.tanh = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16), nn.Tanh()
        self.fc2 = nn.Linear(16, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.embedding(ids)
        states = [(torch.zeros(len(ids), WIDTH), torch.zeros(len(ids), WIDTH)) for _ in range(2)]
        outputs = []
        for token in x.unbind(1):
            states[0] = self.cell0(token, states[0])
            states[1] = self.cell1(states[0][0], states[1])
            outputs.append(states[1][0])
        return self.fc2(self.tanh(self.fc1(self.norm(torch.stack(outputs, 1)))))


class OwnCell(nn.Module):
    """A cell of two linear layers."""

    def __init__(self) -> None:
        super().__init__()
        self.ih, self.hh = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(WIDTH, 4 * WIDTH)

    def forward(self, x: torch.Tensor, h: torch.Tensor, c: torch.Tensor) -> Any:  # noqa: D102
        i, f, g, o = (self.ih(x) + self.hh(h)).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class Own(nn.Module):
    """embed, rnn.layers, out."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.rnn = nn.Module()
        self.rnn.layers = nn.ModuleList(OwnCell() for _ in range(2))
        self.ln = nn.LayerNorm(WIDTH)
        self.out = nn.Sequential(nn.Linear(WIDTH, 16), nn.Tanh(), nn.Linear(16, VOCABULARY))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        x = self.embed(ids)
        states = [(torch.zeros(len(ids), WIDTH), torch.zeros(len(ids), WIDTH)) for _ in range(2)]
        outputs = []
        for token in x.unbind(1):
            for number, cell in enumerate(self.rnn.layers):
                states[number] = cell(token, *states[number])
                token = states[number][0]
            outputs.append(token)
        return self.out(self.ln(torch.stack(outputs, 1)))


class Stacked(nn.Module):
    """One module for both layers and all tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.emb = nn.Embedding(VOCABULARY, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
        self.layer_norm, self.dense1 = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 16)
        self.act, self.dense2 = nn.Tanh(), nn.Linear(16, VOCABULARY)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:  # noqa: D102
        return self.dense2(self.act(self.dense1(self.layer_norm(self.lstm(self.emb(ids))[0]))))


def _fill_own(model: Any, reference: Any) -> None:
    for cell, theirs in zip(model.rnn.layers, (reference.cell0, reference.cell1), strict=True):
        for part in ("ih", "hh"):
            getattr(cell, part).weight.data.copy_(getattr(theirs, f"weight_{part}").data)
            getattr(cell, part).bias.data.copy_(getattr(theirs, f"bias_{part}").data)


def _fill_stacked(model: Any, reference: Any) -> None:
    for number, theirs in enumerate((reference.cell0, reference.cell1)):
        for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"):
            getattr(model.lstm, f"{name}_l{number}").data.copy_(getattr(theirs, name).data)


_CALLS = ("", ":1", *(f"{slot}@{call}" for call in range(1, TOKENS.shape[1]) for slot in ("", ":1")))
_OWN = {
    "embed": "embedding", "ln": "norm", "out.0": "fc1", "out.1": "tanh", "out.2": "fc2",
    **{f"rnn.layers.{{i}}{call}": f"cell{{i}}{call}" for call in _CALLS},
}  # fmt: skip
_STACKED = {"emb": "embedding", "layer_norm": "norm", "dense1": "fc1", "act": "tanh", "dense2": "fc2"}

MODEL = Model(
    "lstm",
    lambda: seeded(Loop()),
    lambda model: model(TOKENS),
    (
        # A cell that is missing, or there twice, would change how often the others' states are handed on.
        Port("own-cells", Own, _OWN, fill=_fill_own, has_equal_blocks=False),
        Port("stacked", Stacked, _STACKED, fill=_fill_stacked),
    ),
)
