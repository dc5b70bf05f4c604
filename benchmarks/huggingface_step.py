"""The PyTorch side of `benchmarks.training_step`, for a Python of its own.

    python -m benchmarks.training_step --torch_python /path/to/env/bin/python
    python -m benchmarks.gpu_training_step --torch_python /path/to/env/bin/python
    python -m benchmarks.stablehlo_step DIR --torch_python /path/to/env/bin/python

start this file with their settings as JSON. Each line of standard input is a number of steps
to run; the answer is one line of JSON. Hugging Face has no pre-training of ELECTRA, so the
step is put together here from its two models, in eager mode or compiled, and with the
optimizer that its Trainer takes. Needs torch and transformers, and nothing of this repository.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.nn import functional
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining

# As in `electra_tf.masking.masked_batch`: the other masked positions keep their token.
MASK_TOKEN_PROB = 0.85


class PretrainingModels(torch.nn.Module):
    """Generator and discriminator with tied embeddings, and the loss of a batch."""

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__()
        self.config = settings["config"]
        self.special = settings["special"]
        # Scaled-dot-product attention of PyTorch: fused where the device has it.
        shapes = [
            ElectraConfig(**settings[part], attn_implementation="sdpa")
            for part in ("discriminator", "generator")
        ]
        self.discriminator = ElectraForPreTraining(shapes[0])
        self.generator = ElectraForMaskedLM(shapes[1])
        embeddings = self.discriminator.electra.embeddings
        self.generator.electra.embeddings = embeddings
        self.generator.generator_lm_head.weight = embeddings.word_embeddings.weight
        self.train()

    def forward(
        self, ids: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor
    ) -> torch.Tensor:
        """Returns gen_weight * L_MLM + disc_weight * L_Disc."""
        positions = self._draw_positions(ids)
        targets = ids.gather(1, positions)
        shows_mask = torch.rand(positions.shape, device=ids.device) < MASK_TOKEN_PROB
        masked = ids.scatter(1, positions, targets.where(~shows_mask, self.special["mask"]))

        hidden = self.generator.electra(masked, mask, segments).last_hidden_state
        at_masked = positions[..., None].expand(-1, -1, hidden.shape[-1])
        hidden = self.generator.generator_predictions(hidden.gather(1, at_masked))
        logits = self.generator.generator_lm_head(hidden).float()
        generator_loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

        corrupted = ids.scatter(1, positions, sample(logits.detach()))
        labels = (corrupted != ids).float()
        scores = self.discriminator(corrupted, mask, segments).logits.float()
        discriminator_loss = functional.binary_cross_entropy_with_logits(scores, labels)
        return (
            self.config["gen_weight"] * generator_loss
            + self.config["disc_weight"] * discriminator_loss
        )

    def _draw_positions(self, ids: torch.Tensor) -> torch.Tensor:
        noise = torch.rand(ids.shape, device=ids.device)
        for name in ("cls", "sep"):
            noise.masked_fill_(ids == self.special[name], -1.0)
        return noise.topk(self.config["max_predictions_per_seq"]).indices


def sample(logits: torch.Tensor) -> torch.Tensor:
    """Draws from the softmax; minus the logarithm of exponential noise is Gumbel noise."""
    return (logits - torch.empty_like(logits).exponential_().log_()).argmax(-1)


def create_optimizer(
    model: torch.nn.Module, config: dict[str, Any]
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LRScheduler]:
    """Returns AdamW, which decays all but LayerNorms and biases, and its schedule."""
    decayed, rest = [], []
    for name, parameter in model.named_parameters():
        (rest if "LayerNorm" in name or "bias" in name else decayed).append(parameter)
    groups = [
        {"params": decayed, "weight_decay": config["weight_decay_rate"]},
        {"params": rest, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=config["learning_rate"], eps=1e-6, fused=True)

    def factor(step: int) -> float:
        warmup = min(1.0, (step + 1) / max(1, config["num_warmup_steps"]))
        return warmup * (1 - (step + 1) / config["num_train_steps"])

    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


def random_batch(settings: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns ids, mask and segments of full rows."""
    config, special = settings["config"], settings["special"]
    shape = (config["train_batch_size"], config["max_seq_length"])
    first, device = special["first_ordinary"], settings["device"]
    ids = torch.randint(first, config["vocab_size"], shape, device=device)
    ids[:, 0], ids[:, -1] = special["cls"], special["sep"]
    return ids, torch.ones_like(ids), torch.zeros_like(ids)


def create_run(settings: dict[str, Any]) -> tuple[Callable[[int], float], int]:
    """Returns a function that runs steps and gives the last loss, and the parameters."""
    config = settings["config"]
    torch.manual_seed(config["seed"])
    torch.set_num_threads(settings["num_threads"])
    model = PretrainingModels(settings).to(settings["device"])
    optimizer, schedule = create_optimizer(model, config)
    mode = settings["compile_mode"]
    forward = torch.compile(model, mode=mode) if mode else model
    bfloat16 = config["precision"] == "mixed_bfloat16"
    with_backward = settings["part"] == "step"

    def run(num_steps: int) -> float:
        for _ in range(num_steps):
            torch.compiler.cudagraph_mark_step_begin()
            autocast = torch.autocast(settings["device"], torch.bfloat16, enabled=bfloat16)
            with autocast, torch.set_grad_enabled(with_backward):
                loss = forward(*random_batch(settings))
            if not with_backward:
                continue
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), config["clip_norm"])
            optimizer.step()
            schedule.step()
        return loss.item()

    return run, sum(parameter.numel() for parameter in model.parameters())


def main() -> None:
    """Answers every line of standard input until it ends."""
    settings = json.loads(sys.argv[1])
    run, num_parameters = create_run(settings)
    on_gpu = settings["device"] == "cuda"
    for line in sys.stdin:
        start, cpu_start = time.perf_counter(), time.process_time()
        loss = run(int(line))
        answer = {
            "seconds": time.perf_counter() - start,
            "cpu_seconds": time.process_time() - cpu_start,
            "loss": loss,
            "parameters": num_parameters,
            "max_rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
            "peak_device_bytes": torch.cuda.max_memory_allocated() if on_gpu else None,
        }
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
