"""Triton's kernels with random arrays, what they should compute, and tiles to choose from."""

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from electra_tf.model.gpu import tiles, triton_attention, triton_rows, triton_vocabulary

HEAD_SIZE = 64
RATE = 0.1
KEY = (123_456_789, 3_307_312_575)
VOCABULARY_SIZE = 30522
# Choices of tiles: queries and keys; rows times columns; programs; warps; stages.
BLOCKS, TILE_SIZES, PROGRAMS = (32, 64, 128), (512, 1024, 2048, 4096), (1056, 2112, 4224)
WARPS, STAGES, LOAD_STAGES = (1, 2, 4, 8), (1, 2, 3), (1, 3, 4)
# Of results; those of the others are their case's.
DTYPES = dict.fromkeys(("lse", "losses", "d_bias", "sums"), torch.float32)
DTYPES |= dict.fromkeys(("predictions", "tokens"), torch.int32)


@dataclasses.dataclass(frozen=True)
class Case:
    """A kernel with its arrays.

    Attributes:
        label: kernel and shape.
        kernel: Triton's.
        operands: its first arguments, by name.
        constants: its last arguments, without those of tiles.
        results: of some tiles: names and shapes of the results.
        launch: of some tiles: grid, constants and options of the kernel.
        expected: float64 results by name; "d_bias" and "sums" are summed over axis 0.
        used: the tiles in use.
        others: other tiles.
        dtype: of the results that `DTYPES` does not have.
    """

    label: str
    kernel: Any
    operands: dict[str, torch.Tensor]
    constants: dict[str, float]
    results: Callable[[Any], dict[str, tuple[int, ...]]]
    launch: Callable[[Any], tuple[tuple[int, ...], dict[str, int]]]
    expected: Callable[[], dict[str, torch.Tensor]]
    used: Any
    others: Sequence[Any]
    dtype: torch.dtype = torch.bfloat16

    def allocate(self, chosen: Any) -> dict[str, torch.Tensor]:
        """Returns the results, full of NaN, or of -1."""
        device = next(iter(self.operands.values())).device
        own = torch.float32 if device.type == "cpu" else self.dtype
        found = {}
        for name, shape in self.results(chosen).items():
            dtype = DTYPES.get(name, own)
            value = math.nan if dtype.is_floating_point else -1
            found[name] = torch.full(shape, value, dtype=dtype, device=device)
        return found

    def run(self, chosen: Any, results: dict[str, torch.Tensor]) -> None:
        """Runs the kernel."""
        grid, options = self.launch(chosen)
        self.kernel[grid](**self.operands, **results, **self.constants, **options)


def cases(batch: int, length: int, heads: int, device: str) -> Iterator[Case]:
    """Yields the kernels of a layer."""
    hidden = heads * HEAD_SIZE
    yield from attention_cases(batch, length, heads, device)
    yield from norm_cases(batch * length, hidden, device)
    yield from norm_dropout_cases(batch * length, hidden, device)
    yield from gelu_cases(batch * length, 4 * hidden, device)
    yield from vocabulary_cases(batch * max(1, 19 * length // 128), device)


def attention_cases(batch: int, length: int, heads: int, device: str) -> Iterator[Case]:
    """Yields the two kernels of attention; a part of the keys is masked."""
    hidden = heads * HEAD_SIZE
    qkv, d_out = (
        normal(device, batch, length, 3 * hidden),
        normal(device, batch, length, hidden),
    )
    bias = normal(device, 3 * hidden).float()
    mask = torch.ones(batch, length, device=device)
    mask[-1, length // 2 :] = 0
    constants = {"SEQ": length, "HEADS": heads, "SIZE": HEAD_SIZE}
    constants |= {"SCALE": 1 / math.sqrt(HEAD_SIZE)} | dropout_constants()

    def compute() -> dict[str, torch.Tensor]:
        x, b = (t.double().requires_grad_() for t in (qkv, bias))
        heads_of = (x + b).reshape(batch, length, 3, heads, HEAD_SIZE).permute(2, 0, 3, 1, 4)
        scores = heads_of[0] @ heads_of[1].transpose(-1, -2) / math.sqrt(HEAD_SIZE)
        probs = (scores + ((mask.double() - 1) * 1e4)[:, None, None]).softmax(-1)
        out = (dropped(probs) @ heads_of[2]).transpose(1, 2).reshape(d_out.shape)
        d_qkv, d_bias = torch.autograd.grad((out * d_out.double()).sum(), (x, b))
        # That of keys is 0.
        d_bias[hidden : 2 * hidden] = 0
        return {"out": out.detach(), "d_qkv": d_qkv, "d_bias": d_bias}

    operands = {"qkv": qkv, "bias": bias, "mask": mask, "key": key(device)}

    def launcher(blocks: Callable) -> Callable:
        return lambda t: (
            (blocks(t) * batch * heads, 1, 1),
            {"QUERIES": t.queries, "KEYS": t.keys}
            | {"num_warps": t.num_warps, "num_stages": t.num_stages},
        )

    choices = [
        tiles.AttentionTiles(*each)
        for each in itertools.product(BLOCKS, BLOCKS, WARPS[2:], STAGES)
    ]
    forward = Case(
        f"attention_forward, {batch} x {length} x {heads}",
        triton_attention.attention_forward,
        operands,
        constants,
        lambda _: {"out": (batch, length, hidden), "lse": (batch, heads, length)},
        launcher(lambda t: tiles.divide(length, t.queries)),
        lambda: {"out": compute()["out"]},
        tiles.attention_forward(length),
        choices,
    )
    yield forward
    made = forward.allocate(forward.used)
    forward.run(forward.used, made)

    def expected() -> dict[str, torch.Tensor]:
        found = compute()
        return {name: found[name] for name in ("d_qkv", "d_bias")}

    used = tiles.attention_backward(length)
    is_short = length <= used.queries
    name = "attention_backward_short" if is_short else "attention_backward"

    def count_blocks(t: tiles.AttentionTiles) -> int:
        return 1 if is_short else tiles.divide(length, t.keys)

    yield Case(
        f"{name}, {batch} x {length} x {heads}",
        getattr(triton_attention, name),
        {**operands, **made, "d_out": d_out},
        constants,
        lambda t: {
            "d_qkv": tuple(qkv.shape),
            "d_bias": (batch * count_blocks(t), 3 * hidden),
        },
        launcher(count_blocks),
        expected,
        used,
        [t for t in choices if (length <= t.queries) == is_short],
    )


def norm_cases(rows: int, width: int, device: str) -> Iterator[Case]:
    """Yields the two kernels of normalization."""
    x, residual, d_y = (normal(device, rows, width) for _ in range(3))
    bias, gamma, beta = (normal(device, width).float() for _ in range(3))
    constants = {"ROWS": rows, "WIDTH": width, "EPSILON": 1e-12} | dropout_constants()

    def compute() -> dict[str, torch.Tensor]:
        given = [t.double().requires_grad_() for t in (x, residual, bias, gamma, beta)]
        summed = dropped(given[0] + given[2]) + given[1]
        y = torch.nn.functional.layer_norm(summed, (width,), *given[3:], eps=1e-12)
        d_x, d_residual, *sums = torch.autograd.grad((y * d_y.double()).sum(), given)
        found = {"y": y.detach(), "d_x": d_x, "d_residual": d_residual}
        return found | {"sums": torch.stack(sums)}

    operands = {"x": x, "residual": residual, "bias": bias, "gamma": gamma}
    yield Case(
        f"add_norm_forward, {rows} x {width}",
        triton_rows.add_norm_forward,
        {**operands, "beta": beta, "key": key(device)},
        constants,
        lambda _: {"y": (rows, width)},
        lambda t: (
            (t.programs, 1, 1),
            {"TILE": t.rows, "COLUMNS": t.columns, "num_warps": t.num_warps},
        ),
        lambda: {"y": compute()["y"]},
        tiles.norm_forward(rows, width),
        row_tiles(tiles.norm_forward(rows, width), rows, sums=False),
    )

    def expected() -> dict[str, torch.Tensor]:
        found = compute()
        return {name: found[name] for name in ("d_x", "d_residual", "sums")}

    yield Case(
        f"add_norm_backward, {rows} x {width}",
        triton_rows.add_norm_backward,
        {**operands, "key": key(device), "d_y": d_y},
        constants,
        lambda t: {
            "d_x": (rows, width),
            "d_residual": (rows, width),
            "sums": (t.programs, 3, width),
        },
        lambda t: ((t.programs, 1, 1), step_options(t)),
        expected,
        tiles.norm_backward(rows, width),
        row_tiles(tiles.norm_backward(rows, width), rows, sums=True),
    )


def norm_dropout_cases(rows: int, width: int, device: str) -> Iterator[Case]:
    """Yields the two kernels of the normalization of float32 embeddings."""
    x, d_y = normal(device, rows, width).float(), normal(device, rows, width)
    gamma, beta = normal(device, width).float(), normal(device, width).float()
    constants = {"ROWS": rows, "WIDTH": width, "EPSILON": 1e-12} | dropout_constants()

    def compute() -> dict[str, torch.Tensor]:
        given = [t.double().requires_grad_() for t in (x, gamma, beta)]
        y = dropped(torch.nn.functional.layer_norm(given[0], (width,), *given[1:], eps=1e-12))
        d_x, *sums = torch.autograd.grad((y * d_y.double()).sum(), given)
        return {"y": y.detach(), "d_x": d_x, "sums": torch.stack(sums)}

    used = tiles.norm_forward(rows, width)
    yield Case(
        f"norm_dropout_forward, {rows} x {width}",
        triton_rows.norm_dropout_forward,
        {"x": x, "gamma": gamma, "beta": beta, "key": key(device)},
        constants,
        lambda _: {"y": (rows, width)},
        lambda t: (
            (t.programs, 1, 1),
            {"TILE": t.rows, "COLUMNS": t.columns, "num_warps": t.num_warps},
        ),
        lambda: {"y": compute()["y"]},
        used,
        row_tiles(used, rows, sums=False),
    )

    def expected() -> dict[str, torch.Tensor]:
        found = compute()
        return {name: found[name] for name in ("d_x", "sums")}

    yield Case(
        f"norm_dropout_backward, {rows} x {width}",
        triton_rows.norm_dropout_backward,
        {"x": x, "gamma": gamma, "key": key(device), "d_y": d_y},
        constants,
        lambda t: {"d_x": (rows, width), "sums": (t.programs, 2, width)},
        lambda t: ((t.programs, 1, 1), step_options(t)),
        expected,
        tiles.norm_backward(rows, width),
        row_tiles(tiles.norm_backward(rows, width), rows, sums=True),
        torch.float32,
    )


def gelu_cases(rows: int, width: int, device: str) -> Iterator[Case]:
    """Yields the two kernels of GELU."""
    x, d_y = normal(device, rows, width), normal(device, rows, width)
    bias = normal(device, width).float()
    used = tiles.gelu_forward(rows, width)
    yield Case(
        f"bias_gelu_forward, {rows} x {width}",
        triton_rows.bias_gelu_forward,
        {"x": x, "bias": bias},
        {"ROWS": rows, "WIDTH": width},
        lambda _: {"y": (rows, width)},
        lambda t: (
            (t.blocks * t.programs, 1, 1),
            {"TILE": t.rows, "COLUMNS": t.columns, "num_warps": t.num_warps},
        ),
        lambda: {"y": torch.nn.functional.gelu(x.double() + bias.double())},
        used,
        row_tiles(used, rows, sums=False),
    )

    def expected() -> dict[str, torch.Tensor]:
        given = [t.double().requires_grad_() for t in (x, bias)]
        y = torch.nn.functional.gelu(given[0] + given[1])
        d_x, d_bias = torch.autograd.grad((y * d_y.double()).sum(), given)
        return {"d_x": d_x, "sums": d_bias}

    used = tiles.gelu_backward(rows, width)
    yield Case(
        f"bias_gelu_backward, {rows} x {width}",
        triton_rows.bias_gelu_backward,
        {"x": x, "bias": bias, "d_y": d_y},
        {"ROWS": rows, "WIDTH": width},
        lambda t: {"d_x": (rows, width), "sums": (t.programs, width)},
        lambda t: ((t.blocks, t.programs, 1), step_options(t)),
        expected,
        used,
        row_tiles(used, rows, sums=True),
    )


def vocabulary_cases(rows: int, device: str) -> Iterator[Case]:
    """Yields the kernels of cross-entropy and sampling."""
    width = VOCABULARY_SIZE
    logits, d_losses = 3 * normal(device, rows, width), normal(device, rows).float()
    targets = torch.randint(width, (rows,), device=device, dtype=torch.int32)
    choices = [
        tiles.VocabularyTiles(*each)
        for each in itertools.product((1024, *TILE_SIZES[2:], 8192), WARPS[2:])
    ]

    def options(t: tiles.VocabularyTiles) -> dict[str, int]:
        return {"COLUMNS": t.columns, "num_warps": t.num_warps}

    def expected() -> dict[str, torch.Tensor]:
        exact = logits.double()
        losses = torch.nn.functional.cross_entropy(exact, targets.long(), reduction="none")
        return {"losses": losses, "predictions": exact.argmax(-1)}

    forward = Case(
        f"cross_entropy_forward, {rows} x {width}",
        triton_vocabulary.cross_entropy_forward,
        {"logits": logits, "targets": targets},
        {"WIDTH": width},
        lambda _: dict.fromkeys(("losses", "predictions", "lse"), (rows,)),
        lambda t: ((rows, 1, 1), options(t)),
        expected,
        tiles.CROSS_ENTROPY_FORWARD,
        choices,
    )
    yield forward
    made = forward.allocate(forward.used)
    forward.run(forward.used, made)

    def gradient() -> dict[str, torch.Tensor]:
        d = logits.double().softmax(-1)
        d[torch.arange(rows, device=device), targets.long()] -= 1
        return {"d_logits": d * d_losses[:, None].double()}

    yield Case(
        f"cross_entropy_backward, {rows} x {width}",
        triton_vocabulary.cross_entropy_backward,
        {"logits": logits, "targets": targets, "lse": made["lse"], "d_losses": d_losses},
        {"WIDTH": width},
        lambda _: {"d_logits": (rows, width)},
        lambda t: ((rows * tiles.divide(width, t.columns), 1, 1), options(t)),
        gradient,
        tiles.CROSS_ENTROPY_BACKWARD,
        choices,
    )

    def sampled() -> dict[str, torch.Tensor]:
        counters = torch.arange(rows * width, device=device).reshape(rows, width)
        bits = mixed((mixed(counters ^ KEY[0]) + KEY[1]) % 2**32) >> 9
        noise = -torch.log(-torch.log((bits + 0.5) * 2**-23))
        return {"tokens": (logits.double() + noise).argmax(-1)}

    yield Case(
        f"sample_tokens, {rows} x {width}",
        triton_vocabulary.sample_tokens,
        {
            "logits": logits,
            "disallow": torch.full_like(targets, -1),
            "key": key(device),
            "first_row": torch.zeros(1, dtype=torch.int64).to(torch.uint32).to(device),
            "temperature": torch.ones(1, device=device),
        },
        {"WIDTH": width, "DISALLOWED": 1e9},
        lambda _: {"tokens": (rows,)},
        lambda t: ((rows, 1, 1), options(t)),
        sampled,
        tiles.SAMPLE,
        choices,
    )


def mixed(x: torch.Tensor) -> torch.Tensor:
    """Returns int64 of 32 bits after `_mix` of `electra_tf.model.randomness`."""
    x = (x ^ (x >> 16)) * 0x7FEB352D % 2**32
    x = (x ^ (x >> 15)) * 0x846CA68B % 2**32
    return x ^ (x >> 16)


def row_tiles(used: tiles.RowTiles, rows: int, *, sums: bool) -> list[tiles.RowTiles]:
    """Returns other tiles as wide as those in use; without sums, each program has one."""
    found = []
    stages = LOAD_STAGES if sums else (1,)
    for size, programs, warps, in_flight in itertools.product(
        TILE_SIZES, PROGRAMS, WARPS, stages
    ):
        tile_rows = max(1, size // used.columns)
        steps = tiles.divide(rows * used.blocks, tile_rows * programs) if sums else 1
        count = tiles.divide(rows, tile_rows * steps)
        shape = (tile_rows, used.columns, steps, count, used.blocks)
        found.append(tiles.RowTiles(*shape, warps, in_flight))
    return list(dict.fromkeys(found))


def step_options(chosen: tiles.RowTiles) -> dict[str, int]:
    """Returns constants and options of a kernel with steps."""
    constants = {"STEPS": chosen.steps, "STAGES": chosen.num_stages}
    constants |= {"TILE": chosen.rows, "COLUMNS": chosen.columns}
    return constants | {"num_warps": chosen.num_warps}


def dropout_constants() -> dict[str, float]:
    """Returns the constants of dropout."""
    return {"RATE": RATE, "THRESHOLD": round(RATE * 2**32)}


def dropped(x: torch.Tensor) -> torch.Tensor:
    """Returns `x` after dropout; see `keeps` of `electra_tf.model.randomness`."""
    bits = torch.arange(x.numel(), device=x.device).reshape(x.shape) * 0x9E3779B9 + KEY[0]
    bits %= 2**32
    bits = (bits ^ (bits >> 16)) * 0x7FEB352D % 2**32
    bits = (bits ^ (bits >> 15) ^ KEY[1]) * 0x846CA68B % 2**32
    return torch.where(bits >= round(RATE * 2**32), x / (1 - RATE), 0.0)


def key(device: str) -> torch.Tensor:
    """Returns the key of dropout."""
    return torch.tensor(KEY, dtype=torch.int64).to(torch.uint32).to(device)


def normal(device: str, *shape: int) -> torch.Tensor:
    """Returns standard normal noise: bfloat16, but float32 for the interpreter."""
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    return torch.randn(shape, device=device).to(dtype)
