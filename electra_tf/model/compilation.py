"""Functions that graphs call: kernels compiled by XLA, and subgraphs that are traced once."""

import contextlib
import contextvars
import functools
import weakref
from collections.abc import Callable, Iterator

import tensorflow as tf

# Kernels called by the function that is being traced.
_called: contextvars.ContextVar["list | None"] = contextvars.ContextVar(
    "called_kernels", default=None
)
# Kernels that `compile_ahead` has compiled in this process.
_compiled: weakref.WeakSet = weakref.WeakSet()


def compiled_by_xla(function: Callable) -> Callable:
    """Decorator of a pure function of tensors: one kernel, which `compile_ahead` knows of."""
    kernel = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(*tensors: object):
        called = _called.get()
        if called is None:
            return kernel(*tensors)
        called.append(kernel.get_concrete_function(*tensors))
        return called[-1](*tensors)

    return call


def traced_once(function: Callable) -> Callable:
    """Decorator of a pure function `function(*tensors, **static)` that graphs call often.

    It is traced, and its gradient derived, once for each combination of static values, shapes
    and dtypes; then a call adds one operation to a graph, which TensorFlow inlines before it
    runs. Tracing a deep model so takes a fraction of the time. Called eagerly, the function
    is that which is decorated.
    """

    @functools.cache
    def traced(static: tuple) -> tf.types.experimental.PolymorphicFunction:
        return tf.function(lambda *tensors: function(*tensors, **dict(static)), autograph=False)

    kernels_of: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()

    @functools.wraps(function)
    def call(*tensors: object, **static: object):
        if not tf.inside_function():
            return function(*tensors, **static)
        polymorphic = traced(tuple(sorted(static.items())))
        with _recorded_kernels() as kernels:
            concrete = polymorphic.get_concrete_function(*tensors)
        if kernels:
            kernels_of[concrete] = kernels
        called = _called.get()
        if called is not None:
            called.extend(kernels_of.get(concrete, ()))
        return concrete(*tensors)

    return call


@contextlib.contextmanager
def _recorded_kernels() -> Iterator[list]:
    """Gives a list to which the kernels are added that are called within the block."""
    token = _called.set(called := [])
    try:
        yield called
    finally:
        _called.reset(token)


def compile_ahead(function: tf.types.experimental.PolymorphicFunction, *inputs: object) -> int:
    """Traces a function, and compiles the kernels that it calls one after another.

    The first call of a traced function compiles them as its operations become ready, several
    at once, and on CPU about one process in 200 does not survive that. Here each kernel runs
    on zeros, alone; the first call then finds the compiled kernels in TensorFlow's cache.
    Kernels whose input shapes are not fully known are left to the first call.

    Args:
        function: a `tf.function`; it is traced as its first call would, but not run.
        *inputs: inputs of the first call.

    Returns:
        The number of kernels that were compiled.
    """
    with _recorded_kernels() as called:
        function.get_concrete_function(*inputs)
    kernels = [
        kernel
        for kernel in {id(kernel): kernel for kernel in called}.values()
        if kernel not in _compiled and _has_known_shapes(kernel)
    ]
    if not kernels:
        return 0
    specs = tf.nest.flatten([_input_specs(kernel) for kernel in kernels])
    kinds = list(dict.fromkeys((tuple(spec.shape), spec.dtype) for spec in specs))

    # Grappler must not compute it: inputs are no constants, and the output needs each kernel.
    # Called on their own, kernels would have another entry in TensorFlow's cache.
    @functools.partial(tf.function, autograph=False)
    def run_in_order(zeros: list[tf.Tensor]) -> list[tf.Tensor]:
        zeros_of = dict(zip(kinds, zeros, strict=True))
        elements = []
        for kernel in kernels:
            with tf.control_dependencies(elements[-1:]):
                inputs = tf.nest.map_structure(
                    lambda spec: zeros_of[tuple(spec.shape), spec.dtype], _input_specs(kernel)
                )
                output = tf.nest.flatten(kernel(*inputs))[0]
                first = [min(1, size) for size in output.shape]
                elements.append(tf.slice(output, [0] * len(first), first))
        return elements

    run_in_order([tf.zeros(shape, dtype) for shape, dtype in kinds])
    _compiled.update(kernels)
    return len(kernels)


def _input_specs(kernel: tf.types.experimental.ConcreteFunction) -> tuple:
    return kernel.structured_input_signature[0]


def _has_known_shapes(kernel: tf.types.experimental.ConcreteFunction) -> bool:
    return all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(_input_specs(kernel)))
