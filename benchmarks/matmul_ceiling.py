"""What the machine reaches on matrix products alone: the ceiling of a training step."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.step_components import WHOLE, Seconds
from electra_tf.config.pretraining import PretrainingConfig, discriminator_config
from electra_tf.flops.counting import model_flops_per_step

LARGE = 2048


class Product(NamedTuple):
    """One product [rows, inner] x [inner, columns], compiled, and its FLOPs."""

    function: Callable
    flops: int


def create_products(config: PretrainingConfig) -> dict[str, Product]:
    """Returns a large square product and that of a feed-forward layer, by shape."""
    encoder = discriminator_config(config)
    tokens = config.train_batch_size * config.max_seq_length
    dtype = "float32" if config.precision == "float32" else config.precision[6:]
    shapes = [
        (LARGE, LARGE, LARGE),
        (tokens, encoder.hidden_size, encoder.intermediate_size),
    ]
    return {" x ".join(map(str, shape)): _product(*shape, dtype) for shape in shapes}


def _product(rows: int, inner: int, columns: int, dtype: str) -> Product:
    import tensorflow as tf

    x = tf.cast(tf.random.normal([rows, inner]), dtype)
    y = tf.cast(tf.random.normal([inner, columns]), dtype)
    function = tf.function(lambda: tf.matmul(x, y), autograph=False)
    function()
    return Product(function, 2 * rows * inner * columns)


def summarize_ceiling(
    rounds: Sequence[Mapping[str, Seconds]],
    products: Mapping[str, Product],
    config: PretrainingConfig,
) -> dict[str, Any]:
    """Returns GFLOP/s of the step's model FLOPs and of each product, and their ratios.

    Args:
        rounds: times of the step and of the products, by name.
        products: by name.
        config: of the step.
    """

    def gigaflops(name: str, flops: float) -> list[float]:
        return [flops / times[name].wall / 1e9 for times in rounds]

    step = gigaflops(WHOLE, model_flops_per_step(config))
    found: dict[str, Any] = {"step_gigaflops": statistics.median(step), "products": {}}
    for name, product in products.items():
        rates = gigaflops(name, product.flops)
        found["products"][name] = {
            "gigaflops": statistics.median(rates),
            "step_over_product": statistics.median(
                a / b for a, b in zip(step, rates, strict=True)
            ),
        }
    return found


def print_ceiling(found: Mapping[str, Any]) -> None:
    """Prints one line for the step and one for each product."""
    print(f"\nThe step: {found['step_gigaflops']:.0f} GFLOP/s of model FLOPs")
    for name, product in found["products"].items():
        print(
            f"A product of {name} alone: {product['gigaflops']:.0f} GFLOP/s; the step reaches "
            f"{product['step_over_product']:.0%} of it"
        )
