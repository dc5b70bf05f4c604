"""The tiles into which kernels divide their work; no TensorFlow is imported here.

They were the fastest of those tried, or nearly, on an H100 at hidden sizes of 256 and 768:
`python -m benchmarks.gpu_kernels` times others.
"""

from typing import NamedTuple

NORM_TILE_SIZE, NORM_WARPS = 2048, 4
NORM_BACKWARD_TILE_SIZE, NORM_BACKWARD_WARPS, NORM_BACKWARD_STAGES = 512, 1, 4
# Each program writes sums as wide as a row. So wide rows have fewer programs, and a program has
# a minimum number of rows: of fewer, sums would be a large part of what it writes.
NORM_BACKWARD_PROGRAMS, NORM_BACKWARD_WIDE_PROGRAMS, NORM_BACKWARD_MIN_ROWS = 2112, 1056, 8
GELU_TILE_SIZE, GELU_COLUMNS, GELU_WARPS = 1024, 128, 4
GELU_BACKWARD_TILE_SIZE, GELU_BACKWARD_PROGRAMS = 2048, 4224
GELU_BACKWARD_WARPS, GELU_BACKWARD_STAGES = 8, 3


class AttentionTiles(NamedTuple):
    """Rows of a block of queries and of one of keys, and how Triton compiles the kernel.

    `num_warps` and `num_stages` are as in `calls.Launch`.
    """

    queries: int
    keys: int
    num_warps: int
    num_stages: int


class RowTiles(NamedTuple):
    """Tiles of a matrix.

    Attributes:
        rows, columns: size of a tile; columns are a power of two.
        steps: number of tiles per program, one below the other.
        programs: number of programs that share the rows.
        blocks: number of blocks that share the columns.
        num_warps, num_stages: as in `calls.Launch`.
    """

    rows: int
    columns: int
    steps: int
    programs: int
    blocks: int
    num_warps: int
    num_stages: int = 1


class VocabularyTiles(NamedTuple):
    """Columns of a block of vocabulary logits, a power of two.

    `num_warps` is as in `calls.Launch`.
    """

    columns: int
    num_warps: int


CROSS_ENTROPY_FORWARD = VocabularyTiles(1024, 4)
CROSS_ENTROPY_BACKWARD = VocabularyTiles(2048, 8)
SAMPLE = VocabularyTiles(2048, 8)


def attention_forward(length: int) -> AttentionTiles:
    """Returns the tiles for sequences of this length and heads of size 64."""
    return AttentionTiles(64, 32, 4, 3) if length <= 128 else AttentionTiles(64, 64, 4, 3)


def attention_backward(length: int) -> AttentionTiles:
    """Returns the tiles of the backward kernel; all queries of a short sequence are a block."""
    if length <= 32:
        return AttentionTiles(32, 32, 4, 1)
    if 64 < length <= 128:
        return AttentionTiles(128, 32, 4, 2)
    return AttentionTiles(64, 64, 4, 3)


def norm_forward(rows: int, width: int) -> RowTiles:
    """Returns the tiles of normalizations, which are as wide as the rows."""
    columns = _next_power_of_two(width)
    tile_rows = max(1, NORM_TILE_SIZE // columns)
    return RowTiles(tile_rows, columns, 1, divide(rows, tile_rows), 1, NORM_WARPS)


def norm_backward(rows: int, width: int) -> RowTiles:
    """Returns the tiles of the backward kernel of normalizations."""
    columns = _next_power_of_two(width)
    tile_rows = max(1, NORM_BACKWARD_TILE_SIZE // columns)
    most = NORM_BACKWARD_WIDE_PROGRAMS if columns > 512 else NORM_BACKWARD_PROGRAMS
    steps = divide(max(divide(rows, most), NORM_BACKWARD_MIN_ROWS), tile_rows)
    programs = divide(rows, tile_rows * steps)
    warps = NORM_BACKWARD_WARPS
    # Wider ones would not fit into the shared memory of every GPU.
    stages = NORM_BACKWARD_STAGES if columns <= 1024 else 1
    return RowTiles(tile_rows, columns, steps, programs, 1, warps, stages)


def gelu_forward(rows: int, width: int) -> RowTiles:
    """Returns the tiles of GELU."""
    columns = min(GELU_COLUMNS, _next_power_of_two(width))
    tile_rows, blocks = GELU_TILE_SIZE // columns, divide(width, columns)
    return RowTiles(tile_rows, columns, 1, divide(rows, tile_rows), blocks, GELU_WARPS)


def gelu_backward(rows: int, width: int) -> RowTiles:
    """Returns the tiles of the gradient of GELU."""
    columns = min(GELU_COLUMNS, _next_power_of_two(width))
    tile_rows, blocks = GELU_BACKWARD_TILE_SIZE // columns, divide(width, columns)
    steps = divide(rows * blocks, tile_rows * GELU_BACKWARD_PROGRAMS)
    programs = divide(rows, tile_rows * steps)
    warps, stages = GELU_BACKWARD_WARPS, GELU_BACKWARD_STAGES
    return RowTiles(tile_rows, columns, steps, programs, blocks, warps, stages)


def divide(number: int, by: int) -> int:
    """Returns the quotient, rounded up."""
    return -(-number // by)


def _next_power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
