"""Triton kernels of functions of the rows of a matrix; `electra_tf.model.gpu.rows` calls them.

Matrices are [ROWS, WIDTH], vectors float32 [WIDTH], `key` uint32 [2] the key of the dropout.
Backward, each program handles STEPS times TILE rows, and writes its sums over them: the
gradients of vectors, which have yet to be summed over the programs. Loads of STAGES steps are
in flight.
"""

import triton
import triton.language as tl

from electra_tf.model.gpu.triton_random import keeps


@triton.jit
def _normalized(
    x,
    residual,
    bias,
    kept,
    inside,
    RATE: tl.constexpr,
    WIDTH: tl.constexpr,
    EPSILON: tl.constexpr,
):
    x = x.to(tl.float32) + bias[None, :]
    if RATE > 0:
        x = tl.where(kept, x * (1 / (1 - RATE)), 0.0)
    return _standardized(x + residual.to(tl.float32), inside, WIDTH, EPSILON)


@triton.jit
def _standardized(x, inside, WIDTH: tl.constexpr, EPSILON: tl.constexpr):
    """Returns rows standardized to mean 0 and deviation 1, and 1 over their deviations."""
    x = tl.where(inside, x, 0.0)
    mean = tl.sum(x, 1) / WIDTH
    centered = tl.where(inside, x - mean[:, None], 0.0)
    scale = tl.math.rsqrt(tl.sum(centered * centered, 1) / WIDTH + EPSILON)
    return centered * scale[:, None], scale


@triton.jit
def _norm_gradient(normalized, scale, g, WIDTH: tl.constexpr):
    """Returns the gradient of a normalization's input from that of its normalized rows.

    For normalized rows N, scale s and gradient G, it is s * (G - mean(G) - N * mean(G * N))
    (Ba et al. 2016).
    """
    mean = tl.sum(g, 1) / WIDTH
    slope = tl.sum(g * normalized, 1) / WIDTH
    return scale[:, None] * (g - mean[:, None] - normalized * slope[:, None])


@triton.jit
def _keeps(first, second, rows, columns, WIDTH: tl.constexpr, THRESHOLD: tl.constexpr):
    rows, columns = rows.to(tl.uint32)[:, None], columns.to(tl.uint32)[None, :]
    return keeps(first, second, rows, columns, WIDTH, THRESHOLD)


@triton.jit
def add_norm_forward(
    x,
    residual,
    bias,
    gamma,
    beta,
    key,
    y,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    EPSILON: tl.constexpr,
    RATE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes LayerNorm(residual + dropout(x + bias))."""
    columns = tl.arange(0, COLUMNS)
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    inside = (rows[:, None] < ROWS) & (columns[None, :] < WIDTH)
    at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    vector = columns < WIDTH
    kept = inside
    if RATE > 0:
        kept = _keeps(tl.load(key), tl.load(key + 1), rows, columns, WIDTH, THRESHOLD)
    normalized, _ = _normalized(
        tl.load(x + at, mask=inside, other=0.0),
        tl.load(residual + at, mask=inside, other=0.0),
        tl.load(bias + columns, mask=vector, other=0.0),
        kept,
        inside,
        RATE,
        WIDTH,
        EPSILON,
    )
    scaled = normalized * tl.load(gamma + columns, mask=vector, other=0.0)[None, :]
    scaled += tl.load(beta + columns, mask=vector, other=0.0)[None, :]
    tl.store(y + at, scaled.to(y.dtype.element_ty), mask=inside)


@triton.jit
def add_norm_backward(
    x,
    residual,
    bias,
    gamma,
    key,
    d_y,
    d_x,
    d_residual,
    sums,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    EPSILON: tl.constexpr,
    RATE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    STEPS: tl.constexpr,
    STAGES: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes the gradients of `x` and `residual`, and sums for bias, gamma and beta."""
    columns = tl.arange(0, COLUMNS)
    vector = columns < WIDTH
    bias_of = tl.load(bias + columns, mask=vector, other=0.0)
    gamma_of = tl.load(gamma + columns, mask=vector, other=0.0)
    if RATE > 0:
        first, second = tl.load(key), tl.load(key + 1)
    d_bias = tl.zeros([TILE, COLUMNS], tl.float32)
    d_gamma = tl.zeros([TILE, COLUMNS], tl.float32)
    d_beta = tl.zeros([TILE, COLUMNS], tl.float32)
    for step in tl.range(STEPS, num_stages=STAGES):
        rows = (tl.program_id(0) * STEPS + step) * TILE + tl.arange(0, TILE)
        inside = (rows[:, None] < ROWS) & vector[None, :]
        at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        kept = inside
        if RATE > 0:
            kept = _keeps(first, second, rows, columns, WIDTH, THRESHOLD)
        normalized, scale = _normalized(
            tl.load(x + at, mask=inside, other=0.0),
            tl.load(residual + at, mask=inside, other=0.0),
            bias_of,
            kept,
            inside,
            RATE,
            WIDTH,
            EPSILON,
        )
        dy = tl.load(d_y + at, mask=inside, other=0.0).to(tl.float32)
        d_beta += dy
        d_gamma += dy * normalized
        d = _norm_gradient(normalized, scale, dy * gamma_of[None, :], WIDTH)
        tl.store(d_residual + at, d.to(d_residual.dtype.element_ty), mask=inside)
        if RATE > 0:
            d = tl.where(kept, d * (1 / (1 - RATE)), 0.0)
        tl.store(d_x + at, d.to(d_x.dtype.element_ty), mask=inside)
        d_bias += tl.where(inside, d, 0.0)
    sums += tl.program_id(0) * 3 * WIDTH + columns
    tl.store(sums, tl.sum(d_bias, 0), mask=vector)
    tl.store(sums + WIDTH, tl.sum(d_gamma, 0), mask=vector)
    tl.store(sums + 2 * WIDTH, tl.sum(d_beta, 0), mask=vector)


@triton.jit
def norm_dropout_forward(
    x,
    gamma,
    beta,
    key,
    y,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    EPSILON: tl.constexpr,
    RATE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes dropout(LayerNorm(x)) of float32 `x`."""
    columns = tl.arange(0, COLUMNS)
    rows = tl.program_id(0) * TILE + tl.arange(0, TILE)
    vector = columns < WIDTH
    inside = (rows[:, None] < ROWS) & vector[None, :]
    at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    value, _ = _standardized(tl.load(x + at, mask=inside, other=0.0), inside, WIDTH, EPSILON)
    value *= tl.load(gamma + columns, mask=vector, other=0.0)[None, :]
    value += tl.load(beta + columns, mask=vector, other=0.0)[None, :]
    if RATE > 0:
        kept = _keeps(tl.load(key), tl.load(key + 1), rows, columns, WIDTH, THRESHOLD)
        value = tl.where(kept, value * (1 / (1 - RATE)), 0.0)
    tl.store(y + at, value.to(y.dtype.element_ty), mask=inside)


@triton.jit
def norm_dropout_backward(
    x,
    gamma,
    key,
    d_y,
    d_x,
    sums,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    EPSILON: tl.constexpr,
    RATE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    STEPS: tl.constexpr,
    STAGES: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes the gradient of float32 `x`, and sums for gamma and beta."""
    columns = tl.arange(0, COLUMNS)
    vector = columns < WIDTH
    gamma_of = tl.load(gamma + columns, mask=vector, other=0.0)
    if RATE > 0:
        first, second = tl.load(key), tl.load(key + 1)
    d_gamma = tl.zeros([TILE, COLUMNS], tl.float32)
    d_beta = tl.zeros([TILE, COLUMNS], tl.float32)
    for step in tl.range(STEPS, num_stages=STAGES):
        rows = (tl.program_id(0) * STEPS + step) * TILE + tl.arange(0, TILE)
        inside = (rows[:, None] < ROWS) & vector[None, :]
        at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        normalized, scale = _standardized(
            tl.load(x + at, mask=inside, other=0.0), inside, WIDTH, EPSILON
        )
        dy = tl.load(d_y + at, mask=inside, other=0.0).to(tl.float32)
        if RATE > 0:
            kept = _keeps(first, second, rows, columns, WIDTH, THRESHOLD)
            dy = tl.where(kept, dy * (1 / (1 - RATE)), 0.0)
        d_beta += dy
        d_gamma += dy * normalized
        d = _norm_gradient(normalized, scale, dy * gamma_of[None, :], WIDTH)
        tl.store(d_x + at, d, mask=inside)
    sums += tl.program_id(0) * 2 * WIDTH + columns
    tl.store(sums, tl.sum(d_gamma, 0), mask=vector)
    tl.store(sums + WIDTH, tl.sum(d_beta, 0), mask=vector)


@triton.jit
def _normal(z):
    """Returns the standard normal distribution function of `z`, and exp(-z * z / 2).

    Abramowitz and Stegun 1964, 7.1.26, for 1 - erf(abs(z) / sqrt(2)), whose error is at most
    1.5e-7. It uses the same exponential as the density.
    """
    exponential = tl.math.exp2(z * z * -0.7213475204444817)
    t = 1.0 / (1.0 + 0.3275911 * 0.7071067811865476 * tl.abs(z))
    tail = 1.061405429 * t - 1.453152027
    tail = tail * t + 1.421413741
    tail = tail * t - 0.284496736
    tail = tail * t + 0.254829592
    tail *= 0.5 * t * exponential
    return tl.where(z > 0, 1.0 - tail, tail), exponential


@triton.jit
def bias_gelu_forward(
    x,
    bias,
    y,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes GELU(x + bias), with z * Phi(z) of the standard normal distribution."""
    BLOCKS: tl.constexpr = (WIDTH + COLUMNS - 1) // COLUMNS
    columns = tl.program_id(0) % BLOCKS * COLUMNS + tl.arange(0, COLUMNS)
    rows = tl.program_id(0) // BLOCKS * TILE + tl.arange(0, TILE)
    vector = columns < WIDTH
    inside = (rows[:, None] < ROWS) & vector[None, :]
    at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
    z = tl.load(x + at, mask=inside, other=0.0).to(tl.float32)
    z += tl.load(bias + columns, mask=vector, other=0.0)[None, :]
    cumulative, _ = _normal(z)
    tl.store(y + at, (z * cumulative).to(y.dtype.element_ty), mask=inside)


@triton.jit
def bias_gelu_backward(
    x,
    bias,
    d_y,
    d_x,
    sums,
    ROWS: tl.constexpr,
    WIDTH: tl.constexpr,
    STEPS: tl.constexpr,
    STAGES: tl.constexpr,
    TILE: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Writes the gradient of `x` in GELU(x + bias), and sums of it.

    The derivative is Phi(x) + x * phi(x), of the standard normal distribution.
    """
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    vector = columns < WIDTH
    bias_of = tl.load(bias + columns, mask=vector, other=0.0)
    d_bias = tl.zeros([TILE, COLUMNS], tl.float32)
    for step in tl.range(STEPS, num_stages=STAGES):
        rows = (tl.program_id(1) * STEPS + step) * TILE + tl.arange(0, TILE)
        inside = (rows[:, None] < ROWS) & vector[None, :]
        at = rows.to(tl.int64)[:, None] * WIDTH + columns[None, :]
        z = tl.load(x + at, mask=inside, other=0.0).to(tl.float32) + bias_of[None, :]
        dy = tl.load(d_y + at, mask=inside, other=0.0).to(tl.float32)
        cumulative, exponential = _normal(z)
        d = dy * (cumulative + z * (0.3989422804014327 * exponential))
        tl.store(d_x + at, d.to(d_x.dtype.element_ty), mask=inside)
        d_bias += d
    tl.store(sums + tl.program_id(1) * WIDTH + columns, tl.sum(d_bias, 0), mask=vector)
