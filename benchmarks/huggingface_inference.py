"""The PyTorch side of `benchmarks.inference`, for a Python of its own.

    python -m benchmarks.inference --torch_python /path/to/env/bin/python

starts this file with its settings as JSON. Needs torch and transformers, and nothing of this
repository; `serve` of `benchmarks/inference.py` says what is read from and written to the
standard streams.
"""

import json
import resource
import sys
import time
from typing import Any

import numpy as np
import torch
from transformers import ElectraConfig, ElectraModel

# The authors' names of variables to PyTorch's.
RENAMED = {"kernel": "weight", "gamma": "weight", "beta": "bias"}
TABLES = ("word_embeddings", "position_embeddings", "token_type_embeddings")


class Classifier(torch.nn.Module):
    """ELECTRA and one affine map of the vector of [CLS] to two logits."""

    def __init__(self, config: ElectraConfig) -> None:
        super().__init__()
        self.electra = ElectraModel(config)
        self.dense = torch.nn.Linear(config.hidden_size, 2)
        self.eval()

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor
    ) -> torch.Tensor:
        """Returns logits [batch, 2] of int64 [batch, seq]."""
        return self.dense(self.electra(ids, mask, segments).last_hidden_state[:, 0])


def load_weights(model: Classifier, path: str, task: str) -> None:
    """Loads weights that lie in a .npz under the authors' names; all of them must be there."""
    state = {}
    for name, value in np.load(path).items():
        scope, _, last = name.removeprefix(f"task_specific/{task}/").rpartition("/")
        if last in TABLES:
            scope, last = f"{scope}/{last}", "weight"
        scope = scope.replace("/", ".").replace("layer_", "layer.")
        tensor = torch.from_numpy(value.T.copy() if last == "kernel" else value)
        state[f"{scope}.{RENAMED.get(last, last)}"] = tensor
    model.load_state_dict(state)


def create_model(
    settings: dict[str, Any], *, num_shapes: int = 1, dynamic: bool = False
) -> torch.nn.Module:
    """Returns the model, run in the way that `settings["way"]` names.

    "float32" and "bfloat16" are the dtype of the weights; "_autocast" keeps float32 weights;
    "_compiled" compiles the model, which takes minutes unless PyTorch still has the kernels
    of an earlier run in its cache.

    Args:
        settings: those of the program.
        num_shapes: number of shapes of inputs, each of which is compiled by itself.
        dynamic: compile for all shapes at once.
    """
    precision, _, option = settings["way"].partition("_")
    model = Classifier(ElectraConfig(**settings["encoder"]))
    load_weights(model, settings["weights"], settings["task"])
    if precision == "bfloat16" and option != "autocast":
        model = model.to(torch.bfloat16)
    if option == "compiled":
        if not dynamic:
            # Beyond its limit, PyTorch would go on in eager mode.
            torch._dynamo.config.recompile_limit = num_shapes
            torch._dynamo.config.fail_on_recompile_limit_hit = True
        model = torch.compile(model, dynamic=dynamic)
    return model


def main() -> None:
    """Warms up, then answers every line of standard input until it ends."""
    settings = json.loads(sys.argv[1])
    torch.set_num_threads(settings["num_threads"])
    inputs = np.load(settings["inputs"])
    model = create_model(settings, num_shapes=len(inputs))
    autocast = settings["way"] == "bfloat16_autocast"
    # One context for all passes: autocast then converts the weights a single time.
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        batches, logits = {}, {}
        for name, ids in inputs.items():
            ids = torch.from_numpy(ids).long()
            batches[tuple(ids.shape)] = ids, torch.ones_like(ids), torch.zeros_like(ids)
            for _ in range(2):
                logits[name] = model(*batches[tuple(ids.shape)]).float().numpy()
        np.savez(settings["logits"], **logits)
        about = {
            "parameters": sum(parameter.numel() for parameter in model.parameters()),
            "attention": model.electra.config._attn_implementation,
        }
        print(json.dumps(about), flush=True)
        for line in sys.stdin:
            batch_size, length, seconds = json.loads(line)
            batch = batches[batch_size, length]
            forwards, start, cpu_start = 0, time.perf_counter(), time.process_time()
            while not forwards or time.perf_counter() - start < seconds:
                model(*batch).float().numpy()
                forwards += 1
            turn = {
                "forwards": forwards,
                "seconds": time.perf_counter() - start,
                "cpu_seconds": time.process_time() - cpu_start,
                "max_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            }
            print(json.dumps(turn), flush=True)


if __name__ == "__main__":
    main()
