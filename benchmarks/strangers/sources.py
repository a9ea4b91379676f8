"""The lefts of each model: hand-written ports in PyTorch, and what the other modules have."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cache, cached_property, partial
from importlib import import_module
from random import Random
from typing import Any

import torch
from torch import nn

from .keras_source import KERAS, KerasSource
from .mindspore_source import PORTED, MindSporeSource
from .mistakes import MISTAKES, NoPlaceError
from .onnx_sources import EXPORTS, OnnxSource, QuantisedSource
from .port import Model, Port
from .recording import mark_origins, record, record_training
from .source import Source
from .tensors import Recording
from .truth import Meaning, meaning_of, unmeant, wrong_by_value

__all__ = ["HELD_OUT", "MODELS", "sources_of"]

# Name → module below `models` that has it, and the name that it has there.
MODELS = {
    "lenet": ("lenet", "MODEL"),
    "resnet18": ("resnet", "MODEL"),
    "mobilenetv3": ("mobilenetv3", "MODEL"),
    "unet": ("unet", "MODEL"),
    "vit": ("vit", "MODEL"),
    "swin": ("swin", "MODEL"),
    "bert": ("bert", "MODEL"),
    "gpt2": ("gpt2", "MODEL"),
    "llama": ("llama", "MODEL"),
    "mixtral": ("mixtral", "MODEL"),
    "lstm": ("lstm", "MODEL"),
    "encoder": ("training", "FORWARD"),
    "lenet-steps": ("training", "LENET"),
    "encoder-steps": ("training", "ENCODER"),
}
# The same, of models that nothing is tuned on.
HELD_OUT = {
    "convnext": ("held_out_vision", "CONVNEXT"),
    "efficientnet": ("held_out_vision", "EFFICIENTNET"),
    "regnet": ("held_out_vision", "REGNET"),
    "densenet": ("held_out_vision", "DENSENET"),
    "mixer": ("held_out_vision", "MIXER"),
    "diffusion": ("held_out_vision", "DIFFUSION"),
    "t5": ("held_out_text", "T5"),
    "whisper": ("held_out_text", "WHISPER"),
    "seq2seq": ("held_out_text", "SEQ2SEQ"),
    "dlrm": ("held_out_text", "DLRM_MODEL"),
}
_BLOCKS = ("no_block", "extra_block")


@cache
def _model(name: str) -> Model:
    module, attribute = (MODELS | HELD_OUT)[name]
    found = getattr(import_module(f"{__package__}.models.{module}"), attribute)
    assert isinstance(found, Model)
    return found


@cache
def _reference(name: str) -> nn.Module:
    torch.manual_seed(0)
    return _model(name).build().eval()


@cache
def _right(name: str) -> Recording:
    return _recorded(_model(name), copy.deepcopy(_reference(name)), _model(name).run)


def _recorded(model: Model, module: nn.Module, run: Any, arm: Any = None) -> Recording:
    """Run a forward pass, or the steps of a training."""
    if model.optimizer is not None:
        return record_training(module.train(), run, model.optimizer, model.steps, arm)
    with torch.no_grad():
        return record(module.eval(), run, arm)


class TorchSource(Source):
    """A hand-written port in PyTorch."""

    def __init__(self, model: str, port: Port) -> None:
        super().__init__(model, f"torch-{port.name}", _right(model))
        self._port = port

    @cached_property
    def good(self) -> Recording:  # type: ignore[override]
        """The port without a mistake."""
        return self._record(self._port.made(_reference(self.model)))

    @cached_property
    def meaning(self) -> Meaning:  # type: ignore[override]
        """What its tensors mean."""
        return meaning_of(self._port, self.good, self.right)

    def wrong(self, mistake: str, draw: Random) -> Recording:
        """Return the port with a mistake."""
        if mistake in _BLOCKS and not self._port.has_equal_blocks:
            raise NoPlaceError
        model = self._port.made(_reference(self.model))
        mark_origins(model)
        with torch.no_grad():
            arm = MISTAKES[mistake](model, draw)
        return self._record(model, arm)

    def _record(self, model: nn.Module, arm: Any = None) -> Recording:
        return _recorded(_model(self.model), model, self._port.run or _model(self.model).run, arm)

    def wrong_rows(self) -> list[str]:
        """Return what the table says and the values contradict."""
        return wrong_by_value(self._port, self.meaning, self.good, self.right)

    def missing_rows(self) -> list[str]:
        """Return what the values say and the table does not."""
        return unmeant(self._port, self.meaning, self.good, self.right)


def sources_of(model: str, lefts: Sequence[str] | None = None) -> list[Source]:
    """Return the lefts of a model, or those of them whose name begins as one of these."""
    found: list[Source] = [TorchSource(model, port) for port in _model(model).ports]
    right = _right(model)
    reference = partial(_reference, model)
    found += [OnnxSource(_model(model), reference, right, exporter) for exporter in EXPORTS.get(model, ())]
    if "int8" in EXPORTS.get(model, ()):
        found.append(QuantisedSource(_model(model), reference))
    if model in PORTED:
        found.append(MindSporeSource(_model(model), reference, right, _model(model).inputs))
    if model in KERAS:
        found.append(KerasSource(_model(model), reference, right, _model(model).inputs[0]))
    return [source for source in found if not lefts or any(source.left.startswith(one) for one in lefts)]
