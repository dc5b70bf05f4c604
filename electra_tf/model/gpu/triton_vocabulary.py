"""Triton kernels of rows of vocabulary logits; `electra_tf.model.gpu.vocabulary` calls them.

`logits` are [rows, WIDTH]; `targets`, `tokens`, `predictions` and `disallow` are int32 [rows],
ids of tokens. A program handles a row, COLUMNS of it at a time; for the gradient, one block of
COLUMNS of a row.
"""

import triton
import triton.language as tl

from electra_tf.model.gpu.triton_random import uniform

LOG2E = tl.constexpr(1.4426950408889634)
LN2 = tl.constexpr(0.6931471805599453)


@triton.jit
def _first_of_highest(highest, places, WIDTH: tl.constexpr):
    """Returns the lowest of the places of the highest value."""
    return tl.min(tl.where(highest == tl.max(highest, 0), places, WIDTH), 0)


@triton.jit
def cross_entropy_forward(
    logits,
    targets,
    losses,
    predictions,
    lse,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes -log softmax(logits)[target], the most likely token, and log2 of the sum of exp.

    A target outside the vocabulary has a loss of NaN. Each column of a block has its own
    maximum and sum until the end.
    """
    row = tl.program_id(0)
    logits += row.to(tl.int64) * WIDTH
    highest = tl.full([COLUMNS], -float("inf"), tl.float32)
    total = tl.zeros([COLUMNS], tl.float32)
    places = tl.zeros([COLUMNS], tl.int32)
    for start in range(0, WIDTH, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        x = tl.load(logits + columns, mask=columns < WIDTH, other=-float("inf"))
        x = x.to(tl.float32) * LOG2E
        is_higher = x > highest
        places = tl.where(is_higher, columns, places)
        higher = tl.where(is_higher, x, highest)
        # The difference of two infinities would be NaN; only NaN logits should give NaN.
        total *= tl.where(highest == higher, 1.0, tl.math.exp2(highest - higher))
        total += tl.where(x == -float("inf"), 0.0, tl.math.exp2(x - higher))
        highest = higher
    most = tl.max(highest, 0)
    log_sum = most + tl.math.log2(tl.sum(total * tl.math.exp2(highest - most), 0))
    target = tl.load(targets + row)
    is_token = (target >= 0) & (target < WIDTH)
    of_target = tl.load(logits + target, mask=is_token, other=float("nan")).to(tl.float32)
    tl.store(losses + row, log_sum * LN2 - of_target)
    tl.store(predictions + row, _first_of_highest(highest, places, WIDTH))
    tl.store(lse + row, log_sum)


@triton.jit
def cross_entropy_backward(
    logits,
    targets,
    lse,
    d_losses,
    d_logits,
    WIDTH: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes the gradient of the logits: (softmax - 1 at the target) * that of the loss."""
    BLOCKS: tl.constexpr = (WIDTH + COLUMNS - 1) // COLUMNS
    row, block = tl.program_id(0) // BLOCKS, tl.program_id(0) % BLOCKS
    columns = block * COLUMNS + tl.arange(0, COLUMNS)
    at = row.to(tl.int64) * WIDTH + columns
    x = tl.load(logits + at, mask=columns < WIDTH, other=-float("inf")).to(tl.float32)
    d = tl.math.exp2(x * LOG2E - tl.load(lse + row))
    d = (d - (columns == tl.load(targets + row)).to(tl.float32)) * tl.load(d_losses + row)
    tl.store(d_logits + at, d.to(d_logits.dtype.element_ty), mask=columns < WIDTH)


@triton.jit
def sample_tokens(
    logits,
    disallow,
    key,
    first_row,
    temperature,
    tokens,
    WIDTH: tl.constexpr,
    DISALLOWED: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes argmax(logits / temperature + Gumbel noise).

    `key` is uint32 [2], `first_row` uint32 [1] the number of preceding rows, at which the
    counters of the noise start, and `temperature` float32 [1].
    """
    row = tl.program_id(0)
    logits += row.to(tl.int64) * WIDTH
    first, second = tl.load(key), tl.load(key + 1)
    before = (tl.load(first_row) + row.to(tl.uint32)) * WIDTH
    factor, disallowed = 1.0 / tl.load(temperature), tl.load(disallow + row)
    highest = tl.full([COLUMNS], -float("inf"), tl.float32)
    places = tl.zeros([COLUMNS], tl.int32)
    for start in range(0, WIDTH, COLUMNS):
        columns = start + tl.arange(0, COLUMNS)
        x = tl.load(logits + columns, mask=columns < WIDTH, other=-float("inf"))
        x = x.to(tl.float32) * factor
        x -= tl.where(columns == disallowed, DISALLOWED, 0.0)
        # The inner logarithm has to be exact near 1, which the faster log2 is not.
        exponential = -tl.log(uniform(first, second, before + columns.to(tl.uint32)))
        x -= tl.math.log2(exponential) * LN2
        is_higher = x > highest
        places = tl.where(is_higher, columns, places)
        highest = tl.where(is_higher, x, highest)
    tl.store(tokens + row, _first_of_highest(highest, places, WIDTH))
