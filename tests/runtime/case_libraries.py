"""The few names that cases take from libraries that are not installed here, made of torch: what meets tensors in them
is torch's own code, and it keeps its state where the library keeps it (metrics in buffers, a model's weights)."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from typing import Any

import numpy
import torch
from torch import nn


class Batch(dict):
    """transformers.BatchEncoding: a dictionary whose `to` moves in place."""

    def to(self, device: Any) -> Batch:
        for key, value in self.items():
            self[key] = value.to(device)
        return self


class Tokenizer:
    """transformers.AutoTokenizer: host tensors."""

    @classmethod
    def from_pretrained(cls, name: str) -> Tokenizer:
        return cls()

    def encode(self, text: str, return_tensors: str) -> torch.Tensor:
        return torch.arange(5)[None]

    def decode(self, tokens: torch.Tensor, skip_special_tokens: bool = False) -> str:
        return " ".join(map(str, tokens.tolist()))

    def __call__(self, texts: list[str], return_tensors: str, padding: bool = False, truncation: bool = False) -> Batch:
        return Batch(input_ids=torch.arange(5)[None].repeat(len(texts), 1))


class Language(nn.Module):
    """transformers.AutoModelFor...: an embedding and a head; `device_map="auto"` on one device puts it there."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(8, 4)
        self.head = nn.Linear(4, 8)

    @classmethod
    def from_pretrained(cls, name: str, device_map: str | None = None) -> Language:
        return cls().to("cuda") if device_map else cls()

    @property
    def device(self) -> torch.device:
        return self.head.weight.device

    def forward(self, input_ids: torch.Tensor) -> types.SimpleNamespace:
        return types.SimpleNamespace(logits=self.head(self.embedding(input_ids)))

    def generate(self, input_ids: torch.Tensor, max_new_tokens: int, do_sample: bool, top_p: float) -> torch.Tensor:
        return torch.cat([input_ids, self(input_ids).logits.argmax(-1)], 1)


class Metric(nn.Module):
    """torchmetrics.Accuracy, F1Score: counts in buffers."""

    def __init__(self, task: str, num_classes: int) -> None:
        super().__init__()
        self.register_buffer("hits", torch.zeros(1))

    def update(self, scores: torch.Tensor, target: torch.Tensor) -> None:
        self.hits += (scores.argmax(-1) == target).sum()

    def compute(self) -> torch.Tensor:
        return self.hits

    forward = update


class Lightning(nn.Module):
    """pytorch_lightning.LightningModule: a module that knows where it is."""

    @property
    def device(self) -> torch.device:
        return next(self.parameters()).device

    def log(self, name: str, value: Any) -> None:
        pass


def _accuracy(truth: Any, guess: Any, average: str = "") -> float:
    """sklearn.metrics makes arrays of its arguments first (sklearn/utils/validation.py, check_array)."""
    return float((numpy.asarray(truth) == numpy.asarray(guess)).mean())


class Image:
    """PIL.Image: one grey picture."""

    @staticmethod
    def open(path: str) -> Image:
        return Image()

    def convert(self, mode: str) -> Image:
        return self


def _to_tensor(image: Image) -> torch.Tensor:
    return torch.full((3, 8, 8), 0.5)


def _compose(steps: list[Any]) -> Any:
    return steps[-1]


def _resnet(weights: str) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10))


LIBRARIES: dict[str, dict[str, Any]] = {
    "transformers": {
        "AutoTokenizer": Tokenizer,
        "AutoModelForCausalLM": Language,
        "AutoModelForSequenceClassification": Language,
    },
    "torchmetrics": {"Accuracy": Metric, "F1Score": Metric},
    "pytorch_lightning": {"LightningModule": Lightning},
    "sklearn": {},
    "sklearn.metrics": {"accuracy_score": _accuracy, "f1_score": _accuracy},
    "PIL": {"Image": Image},
    "torchvision": {
        "models": types.SimpleNamespace(resnet18=_resnet),
        "transforms": types.SimpleNamespace(
            Compose=_compose,
            Resize=lambda size: None,
            CenterCrop=lambda size: None,
            ToTensor=lambda: _to_tensor,
        ),
    },
}


@contextmanager
def libraries() -> Iterator[None]:
    """The libraries can be imported."""
    before = {name: sys.modules.get(name) for name in LIBRARIES}
    for name, content in LIBRARIES.items():
        module = types.ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        vars(module).update(content)
        sys.modules[name] = module
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
