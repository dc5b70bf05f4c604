"""The PyTorch side of `benchmarks.finetuning_peer`, for a Python of its own.

    python -m benchmarks.finetuning_peer --torch_python /path/to/env/bin/python …

starts this file with the path of its settings, a JSON file. Needs torch and transformers, and
nothing of this repository. It is what a user of Hugging Face would write: `ElectraModel`, one
linear layer on [CLS], and the authors' optimizer: Adam without bias correction, decoupled
weight decay, layer-wise learning rates, clipping by the global norm, linear warm-up and decay.
"""

import json
import math
import re
import sys
from collections.abc import Iterator

import numpy as np
import torch
from transformers import ElectraModel

BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-6
NOT_DECAYED = re.compile("LayerNorm|bias")


class Regressor(torch.nn.Module):
    """ELECTRA with one linear layer on [CLS]; a classifier for more than one output."""

    def __init__(self, settings: dict) -> None:
        super().__init__()
        self.electra = ElectraModel.from_pretrained(
            settings["huggingface"],
            hidden_dropout_prob=settings["hidden_dropout_prob"],
            attention_probs_dropout_prob=settings["attention_probs_dropout_prob"],
        )
        self.dropout = torch.nn.Dropout(settings["head_dropout"])
        self.dense = torch.nn.Linear(self.electra.config.hidden_size, settings["num_outputs"])
        torch.nn.init.xavier_uniform_(self.dense.weight)
        torch.nn.init.zeros_(self.dense.bias)

    def forward(self, batch: dict[str, torch.Tensor]) -> torch.Tensor:
        """Returns float32 [batch, num_outputs]."""
        encoded = self.electra(batch["ids"], batch["mask"], batch["segments"])
        return self.dense(self.dropout(encoded.last_hidden_state[:, 0]))


class Rows:
    """Features of all rows, which lie in an .npz one after the other.

    Args:
        path: the file; `ids` and `segments` int32 [tokens], `lengths` and `labels` [rows].
    """

    def __init__(self, path: str) -> None:
        arrays = dict(np.load(path))
        ends = np.cumsum(arrays["lengths"])[:-1]
        self.ids, self.segments = (np.split(arrays[n], ends) for n in ("ids", "segments"))
        self.labels = torch.from_numpy(arrays["labels"])

    def __len__(self) -> int:
        return len(self.ids)

    def batch(self, indices: np.ndarray) -> dict[str, torch.Tensor]:
        """Returns these rows, padded to the longest of them."""
        shape = len(indices), max(len(self.ids[i]) for i in indices)
        ids, mask, segments = (torch.zeros(shape, dtype=torch.long) for _ in range(3))
        for row, i in enumerate(indices):
            count = len(self.ids[i])
            ids[row, :count] = torch.from_numpy(self.ids[i])
            segments[row, :count] = torch.from_numpy(self.segments[i])
            mask[row, :count] = 1
        return {"ids": ids, "mask": mask, "segments": segments, "labels": self.labels[indices]}


class Adam:
    """The authors' Adam; `factors` are of the learning rate, by name of the parameter."""

    def __init__(self, model: torch.nn.Module, settings: dict) -> None:
        layers = model.electra.config.num_hidden_layers
        decay = settings["layerwise_lr_decay"]
        self._clip_norm = settings["clip_norm"]
        self._weight_decay = settings["weight_decay_rate"]
        self._parameters = [
            (name, parameter, _depth_factor(name, layers, decay))
            for name, parameter in model.named_parameters()
        ]
        self._moments = [
            (torch.zeros_like(parameter), torch.zeros_like(parameter))
            for _, parameter, _ in self._parameters
        ]

    @torch.no_grad()
    def step(self, rate: float) -> None:
        """Updates all parameters, and forgets their gradients."""
        parameters = [parameter for _, parameter, _ in self._parameters]
        torch.nn.utils.clip_grad_norm_(parameters, self._clip_norm)
        for (name, parameter, factor), (m, v) in zip(
            self._parameters, self._moments, strict=True
        ):
            if parameter.grad is None:
                continue
            m.lerp_(parameter.grad, 1 - BETA_1)
            v.lerp_(parameter.grad.square(), 1 - BETA_2)
            update = m / (v.sqrt() + EPSILON)
            if not NOT_DECAYED.search(name):
                update += self._weight_decay * parameter
            parameter -= rate * factor * update
            parameter.grad = None


def _depth_factor(name: str, layers: int, decay: float) -> float:
    if not decay or name.startswith("dense"):
        return 1.0
    found = re.search(r"layer\.(\d+)\.", name)
    return decay ** (layers - int(found[1]) if found else layers + 1)


def _epochs(num_rows: int, count: int, seed: int) -> Iterator[np.ndarray]:
    """Yields batches of one epoch after the other, each in a new order."""
    generator = np.random.default_rng(seed)
    rows = np.zeros(0, np.int64)
    while True:
        while len(rows) < count:
            rows = np.concatenate([rows, generator.permutation(num_rows)])
        yield rows[:count]
        rows = rows[count:]


def train(settings: dict, seed: int, train_rows: Rows, dev_rows: Rows) -> np.ndarray:
    """Returns the outputs for the dev set, float32 [rows, num_outputs]."""
    torch.manual_seed(seed)
    model, size = Regressor(settings), settings["train_batch_size"]
    optimizer = Adam(model, settings)
    steps = int(math.ceil(len(train_rows) / size) * settings["num_train_epochs"])
    warmup = steps * settings["warmup_proportion"]
    batches = _epochs(len(train_rows), size, seed)
    model.train()
    for step in range(1, steps + 1):
        batch = train_rows.batch(next(batches))
        outputs = model(batch)
        if settings["num_outputs"] == 1:
            loss = torch.nn.functional.mse_loss(outputs[:, 0], batch["labels"])
        else:
            loss = torch.nn.functional.cross_entropy(outputs, batch["labels"])
        loss.backward()
        rate = settings["learning_rate"] * (1 - step / steps)
        optimizer.step(rate * min(1.0, step / warmup) if warmup else rate)
    model.eval()
    with torch.inference_mode():
        indices = np.arange(len(dev_rows))
        parts = [indices[start : start + size] for start in range(0, len(indices), size)]
        return np.concatenate([model(dev_rows.batch(part)).numpy() for part in parts])


def main() -> None:
    """Trains with every seed."""
    with open(sys.argv[1], encoding="utf-8") as file:
        settings = json.load(file)
    torch.set_num_threads(settings["num_threads"])
    train_rows, dev_rows = (Rows(settings[name]) for name in ("train", "dev"))
    outputs = [train(settings, seed, train_rows, dev_rows) for seed in settings["seeds"]]
    np.save(settings["outputs"], np.stack(outputs))


if __name__ == "__main__":
    main()
