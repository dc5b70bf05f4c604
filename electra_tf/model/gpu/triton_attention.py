"""Triton kernels of attention; `electra_tf.model.gpu.attention` calls them.

A program of a kernel handles one head of one row and a block of its positions: of queries
forward, of keys and values backward. Where all queries are one block, one program handles all
keys and values. The scores and probabilities of two blocks are in registers only (Dao et al.
2022, "FlashAttention"; Dao 2023, "FlashAttention-2"). If blocks divide the sequence evenly, its
end needs no mask.

`qkv` [batch, SEQ, 3 * HEADS * SIZE] is a product without its `bias`, float32 of the last axis.
That of keys is left out: it adds the same to all scores of a query. `mask` is float32 [batch,
SEQ], `key` the uint32 [2] of the dropout (`electra_tf.model.randomness`), `out` in the dtype of
`qkv` [batch, SEQ, HEADS * SIZE], and `lse` float32 [batch, HEADS, SEQ] log2 of the sum of 2 to
the power of the scores.

Constants: SCALE of the scores, RATE and THRESHOLD of the dropout, QUERIES and KEYS of a block.
"""

import triton
import triton.language as tl

from electra_tf.model.gpu.triton_random import keeps

# exp2 is faster than exp.
LOG2E = tl.constexpr(1.4426950408889634)
MASKED_SCORE = tl.constexpr(-10_000.0 * 1.4426950408889634)


@triton.jit
def _load(start, rows, columns, stride, SEQ: tl.constexpr, EVEN: tl.constexpr):
    at = start + rows[:, None] * stride + columns[None, :]
    if EVEN:
        return tl.load(at)
    return tl.load(at, mask=rows[:, None] < SEQ, other=0.0)


@triton.jit
def _store(start, rows, columns, stride, value, SEQ: tl.constexpr, EVEN: tl.constexpr):
    at = start + rows[:, None] * stride + columns[None, :]
    value = value.to(start.dtype.element_ty)
    if EVEN:
        tl.store(at, value)
    else:
        tl.store(at, value, mask=rows[:, None] < SEQ)


@triton.jit
def _load_lse(lse, queries, SEQ: tl.constexpr, EVEN: tl.constexpr):
    """Probabilities of queries beyond the end become 0."""
    if EVEN:
        return tl.load(lse + queries)
    return tl.load(lse + queries, mask=queries < SEQ, other=float("inf"))


@triton.jit
def _score_bias(mask, keys, SEQ: tl.constexpr, EVEN: tl.constexpr):
    if EVEN:
        return (1.0 - tl.load(mask + keys)) * MASKED_SCORE
    bias = (1.0 - tl.load(mask + keys, mask=keys < SEQ, other=1.0)) * MASKED_SCORE
    return tl.where(keys < SEQ, bias, -float("inf"))


@triton.jit
def attention_forward(
    qkv,
    bias,
    mask,
    key,
    out,
    lse,
    SEQ: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    SCALE: tl.constexpr,
    RATE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Writes `out` and `lse`."""
    HIDDEN: tl.constexpr = HEADS * SIZE
    ROW: tl.constexpr = 3 * HIDDEN
    BLOCKS: tl.constexpr = (SEQ + QUERIES - 1) // QUERIES
    EVEN: tl.constexpr = SEQ % QUERIES == 0 and SEQ % KEYS == 0
    block, pair = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS
    batch, head = pair // HEADS, pair % HEADS
    qkv += batch.to(tl.int64) * SEQ * ROW + head * SIZE
    out += batch.to(tl.int64) * SEQ * HIDDEN + head * SIZE
    bias += head * SIZE
    mask += batch * SEQ
    lse += pair * SEQ
    columns = tl.arange(0, SIZE)
    queries = block * QUERIES + tl.arange(0, QUERIES)
    q = _load(qkv, queries, columns, ROW, SEQ, EVEN)
    q = (q + tl.load(bias + columns)[None, :]).to(q.dtype)
    if RATE > 0:
        first, second = tl.load(key), tl.load(key + 1)
        drawn = (pair * SEQ + queries).to(tl.uint32)[:, None]
    highest = tl.full([QUERIES], -float("inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    kept_total = tl.zeros([QUERIES], tl.float32)
    context = tl.zeros([QUERIES, SIZE], tl.float32)
    for start in range(0, SEQ, KEYS):
        keys = start + tl.arange(0, KEYS)
        k = _load(qkv + HIDDEN, keys, columns, ROW, SEQ, EVEN)
        scores = tl.dot(q, tl.trans(k)) * (SCALE * LOG2E)
        scores += _score_bias(mask, keys, SEQ, EVEN)[None, :]
        new_highest = tl.maximum(highest, tl.max(scores, 1))
        probs = tl.math.exp2(scores - new_highest[:, None])
        shrink = tl.math.exp2(highest - new_highest)
        total = total * shrink + tl.sum(probs, 1)
        if RATE > 0:
            kept = keeps(first, second, drawn, keys.to(tl.uint32)[None, :], SEQ, THRESHOLD)
            probs = tl.where(kept, probs, 0.0)
            kept_total = kept_total * shrink + tl.sum(probs, 1)
        v = _load(qkv + 2 * HIDDEN, keys, columns, ROW, SEQ, EVEN)
        context = tl.dot(probs.to(v.dtype), v, context * shrink[:, None])
        highest = new_highest
    if RATE == 0:
        kept_total = total
    context += kept_total[:, None] * tl.load(bias + 2 * HIDDEN + columns)[None, :]
    context *= (1 / (1 - RATE)) / total[:, None]
    _store(out, queries, columns, HIDDEN, context, SEQ, EVEN)
    tl.store(lse + queries, highest + tl.math.log2(total), mask=queries < SEQ)


@triton.jit
def attention_backward(
    qkv,
    bias,
    mask,
    key,
    out,
    lse,
    d_out,
    d_qkv,
    d_bias,
    SEQ: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    SCALE: tl.constexpr,
    RATE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Writes the gradient of `qkv`, and float32 sums of it over blocks of KEYS positions.

    Probabilities are computed again from `lse`. The gradient of the scores is P * (dP - sum(dO
    * O)), with the gradients dP of the probabilities P and dO of the output O. Factors that all
    elements share are left to the results.
    """
    HIDDEN: tl.constexpr = HEADS * SIZE
    ROW: tl.constexpr = 3 * HIDDEN
    KEEP: tl.constexpr = 1 / (1 - RATE)
    EVEN: tl.constexpr = SEQ % QUERIES == 0 and SEQ % KEYS == 0
    BLOCKS: tl.constexpr = (SEQ + KEYS - 1) // KEYS
    block, pair = tl.program_id(0) % BLOCKS, tl.program_id(0) // BLOCKS
    batch, head = pair // HEADS, pair % HEADS
    qkv += batch.to(tl.int64) * SEQ * ROW + head * SIZE
    d_qkv += batch.to(tl.int64) * SEQ * ROW + head * SIZE
    out += batch.to(tl.int64) * SEQ * HIDDEN + head * SIZE
    d_out += batch.to(tl.int64) * SEQ * HIDDEN + head * SIZE
    d_bias += (batch * BLOCKS + block) * ROW + head * SIZE
    bias += head * SIZE
    mask += batch * SEQ
    lse += pair * SEQ
    columns = tl.arange(0, SIZE)
    q_bias, v_bias = tl.load(bias + columns), tl.load(bias + 2 * HIDDEN + columns)
    if RATE > 0:
        first, second = tl.load(key), tl.load(key + 1)

    # The block as keys and values, with all queries. Scores are [KEYS, QUERIES], so that two of
    # the three products that take them or their gradient do so from registers.
    rows = block * KEYS + tl.arange(0, KEYS)
    k = _load(qkv + HIDDEN, rows, columns, ROW, SEQ, EVEN)
    v = _load(qkv + 2 * HIDDEN, rows, columns, ROW, SEQ, EVEN)
    v = (v + v_bias[None, :]).to(v.dtype)
    score_bias = _score_bias(mask, rows, SEQ, EVEN)
    d_k = tl.zeros([KEYS, SIZE], tl.float32)
    d_v = tl.zeros([KEYS, SIZE], tl.float32)
    for start in range(0, SEQ, QUERIES):
        queries = start + tl.arange(0, QUERIES)
        q = _load(qkv, queries, columns, ROW, SEQ, EVEN)
        q = (q + q_bias[None, :]).to(q.dtype)
        do = _load(d_out, queries, columns, HIDDEN, SEQ, EVEN)
        o = _load(out, queries, columns, HIDDEN, SEQ, EVEN)
        means = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1) * (1 - RATE)
        offsets = score_bias[:, None] - _load_lse(lse, queries, SEQ, EVEN)[None, :]
        probs = tl.math.exp2(tl.dot(k, tl.trans(q)) * (SCALE * LOG2E) + offsets)
        d_probs = tl.dot(v, tl.trans(do))
        kept_probs = probs
        if RATE > 0:
            drawn = (pair * SEQ + queries).to(tl.uint32)[None, :]
            kept = keeps(first, second, drawn, rows.to(tl.uint32)[:, None], SEQ, THRESHOLD)
            d_probs = tl.where(kept, d_probs, 0.0)
            kept_probs = tl.where(kept, probs, 0.0)
        d_v = tl.dot(kept_probs.to(v.dtype), do, d_v)
        d_scores = (probs * (d_probs - means[None, :])).to(k.dtype)
        d_k = tl.dot(d_scores, q, d_k)
    d_k *= SCALE * KEEP
    d_v *= KEEP
    _store(d_qkv + HIDDEN, rows, columns, ROW, d_k, SEQ, EVEN)
    _store(d_qkv + 2 * HIDDEN, rows, columns, ROW, d_v, SEQ, EVEN)
    tl.store(d_bias + HIDDEN + columns, tl.sum(d_k, 0))
    tl.store(d_bias + 2 * HIDDEN + columns, tl.sum(d_v, 0))

    # The block as queries, with all keys and values: adding up their gradients in memory, one
    # block of keys after the other, took longer than computing all scores again.
    q = _load(qkv, rows, columns, ROW, SEQ, EVEN)
    q = (q + q_bias[None, :]).to(q.dtype)
    do = _load(d_out, rows, columns, HIDDEN, SEQ, EVEN)
    o = _load(out, rows, columns, HIDDEN, SEQ, EVEN)
    means = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1) * (1 - RATE)
    # The products with values lack their bias.
    of_bias = tl.sum(do.to(tl.float32) * v_bias[None, :], 1)
    sums = _load_lse(lse, rows, SEQ, EVEN)
    drawn = (pair * SEQ + rows).to(tl.uint32)[:, None]
    d_q = tl.zeros([KEYS, SIZE], tl.float32)
    for start in range(0, SEQ, QUERIES):
        keys = start + tl.arange(0, QUERIES)
        all_k = _load(qkv + HIDDEN, keys, columns, ROW, SEQ, EVEN)
        all_v = _load(qkv + 2 * HIDDEN, keys, columns, ROW, SEQ, EVEN)
        offsets = _score_bias(mask, keys, SEQ, EVEN)[None, :] - sums[:, None]
        probs = tl.math.exp2(tl.dot(q, tl.trans(all_k)) * (SCALE * LOG2E) + offsets)
        d_probs = tl.dot(do, tl.trans(all_v)) + of_bias[:, None]
        if RATE > 0:
            kept = keeps(first, second, drawn, keys.to(tl.uint32)[None, :], SEQ, THRESHOLD)
            d_probs = tl.where(kept, d_probs, 0.0)
        d_scores = (probs * (d_probs - means[:, None])).to(q.dtype)
        d_q = tl.dot(d_scores, all_k, d_q)
    d_q *= SCALE * KEEP
    _store(d_qkv, rows, columns, ROW, d_q, SEQ, EVEN)
    tl.store(d_bias + columns, tl.sum(d_q, 0))


@triton.jit
def attention_backward_short(
    qkv,
    bias,
    mask,
    key,
    out,
    lse,
    d_out,
    d_qkv,
    d_bias,
    SEQ: tl.constexpr,
    HEADS: tl.constexpr,
    SIZE: tl.constexpr,
    SCALE: tl.constexpr,
    RATE: tl.constexpr,
    THRESHOLD: tl.constexpr,
    QUERIES: tl.constexpr,
    KEYS: tl.constexpr,
):
    """Does what `attention_backward` does, with all queries in one block.

    Each block of keys and values meets all queries at once, so its gradients are complete, and
    only the gradient of the queries stays in registers from block to block.
    """
    HIDDEN: tl.constexpr = HEADS * SIZE
    ROW: tl.constexpr = 3 * HIDDEN
    KEEP: tl.constexpr = 1 / (1 - RATE)
    EVEN: tl.constexpr = SEQ == QUERIES and SEQ % KEYS == 0
    pair = tl.program_id(0)
    batch, head = pair // HEADS, pair % HEADS
    qkv += batch.to(tl.int64) * SEQ * ROW + head * SIZE
    d_qkv += batch.to(tl.int64) * SEQ * ROW + head * SIZE
    out += batch.to(tl.int64) * SEQ * HIDDEN + head * SIZE
    d_out += batch.to(tl.int64) * SEQ * HIDDEN + head * SIZE
    d_bias += batch * ROW + head * SIZE
    bias += head * SIZE
    mask += batch * SEQ
    lse += pair * SEQ
    columns, queries = tl.arange(0, SIZE), tl.arange(0, QUERIES)
    q_bias, v_bias = tl.load(bias + columns), tl.load(bias + 2 * HIDDEN + columns)
    q = _load(qkv, queries, columns, ROW, SEQ, EVEN)
    q = (q + q_bias[None, :]).to(q.dtype)
    do = _load(d_out, queries, columns, HIDDEN, SEQ, EVEN)
    o = _load(out, queries, columns, HIDDEN, SEQ, EVEN)
    means = tl.sum(do.to(tl.float32) * o.to(tl.float32), 1) * (1 - RATE)
    # The products with values lack their bias.
    of_bias = tl.sum(do.to(tl.float32) * v_bias[None, :], 1)
    sums = _load_lse(lse, queries, SEQ, EVEN)
    if RATE > 0:
        first, second = tl.load(key), tl.load(key + 1)
        drawn = (pair * SEQ + queries).to(tl.uint32)[None, :]
    d_q = tl.zeros([QUERIES, SIZE], tl.float32)
    d_k_bias = tl.zeros([SIZE], tl.float32)
    d_v_bias = tl.zeros([SIZE], tl.float32)
    for start in range(0, SEQ, KEYS):
        keys = start + tl.arange(0, KEYS)
        k = _load(qkv + HIDDEN, keys, columns, ROW, SEQ, EVEN)
        v = _load(qkv + 2 * HIDDEN, keys, columns, ROW, SEQ, EVEN)
        offsets = _score_bias(mask, keys, SEQ, EVEN)[:, None] - sums[None, :]
        probs = tl.math.exp2(tl.dot(k, tl.trans(q)) * (SCALE * LOG2E) + offsets)
        d_probs = tl.dot(v, tl.trans(do)) + of_bias[None, :]
        kept_probs = probs
        if RATE > 0:
            kept = keeps(first, second, drawn, keys.to(tl.uint32)[:, None], SEQ, THRESHOLD)
            d_probs = tl.where(kept, d_probs, 0.0)
            kept_probs = tl.where(kept, probs, 0.0)
        d_v = tl.dot(kept_probs.to(v.dtype), do) * KEEP
        _store(d_qkv + 2 * HIDDEN, keys, columns, ROW, d_v, SEQ, EVEN)
        d_v_bias += tl.sum(d_v, 0)
        d_scores = (probs * (d_probs - means[None, :])).to(k.dtype)
        d_k = tl.dot(d_scores, q) * (SCALE * KEEP)
        _store(d_qkv + HIDDEN, keys, columns, ROW, d_k, SEQ, EVEN)
        d_k_bias += tl.sum(d_k, 0)
        d_q = tl.dot(tl.trans(d_scores), k, d_q)
    d_q *= SCALE * KEEP
    _store(d_qkv, queries, columns, ROW, d_q, SEQ, EVEN)
    tl.store(d_bias + columns, tl.sum(d_q, 0))
    tl.store(d_bias + HIDDEN + columns, d_k_bias)
    tl.store(d_bias + 2 * HIDDEN + columns, d_v_bias)
