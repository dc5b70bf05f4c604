"""Functions that graphs call: kernels compiled by XLA, and subgraphs that are traced once."""

import contextvars
import functools
import weakref
from collections.abc import Callable, Sequence

import tensorflow as tf

# Kernels called by the function that is being traced.
_called: contextvars.ContextVar["list | None"] = contextvars.ContextVar(
    "called_kernels", default=None
)
# Kernels that a traced function calls.
_kernels_of: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
# Kernels that `compile_ahead` has compiled in this process, and for which lengths; None is that
# of kernels whose shapes are known.
_compiled: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


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

    @functools.wraps(function)
    def call(*tensors: object, **static: object):
        if not tf.inside_function():
            return function(*tensors, **static)
        concrete = _trace(traced(tuple(sorted(static.items()))), *tensors)
        called = _called.get()
        if called is not None:
            called.extend(_kernels_of[concrete])
        return concrete(*tensors)

    return call


def _trace(
    function: tf.types.experimental.PolymorphicFunction, *inputs: object
) -> tf.types.experimental.ConcreteFunction:
    """Returns the traced function, whose kernels are in `_kernels_of`."""
    token = _called.set(called := [])
    try:
        concrete = function.get_concrete_function(*inputs)
    finally:
        _called.reset(token)
    _kernels_of.setdefault(concrete, list({id(kernel): kernel for kernel in called}.values()))
    return concrete


def compile_ahead(
    function: tf.types.experimental.PolymorphicFunction,
    *inputs: object,
    lengths: Sequence[int] = (),
) -> int:
    """Traces a function, and compiles the kernels that it calls one after another.

    The first call of a traced function compiles them as its operations become ready, several
    at once, and on CPU about one process in 200 does not survive that. Here each kernel runs
    on zeros, alone; the first call then finds the compiled kernels in TensorFlow's cache.

    Args:
        function: a `tf.function`; it is traced as its first call would, but not run.
        *inputs: inputs of the first call.
        lengths: sequence lengths of the batches, if their shapes leave them open. Kernels
            whose shapes are not fully known are compiled for each.

    Returns:
        The number of compilations.
    """
    jobs = [
        (kernel, length)
        for kernel in _kernels_of[_trace(function, *inputs)]
        for length in ([None] if _has_known_shapes(kernel) else lengths)
        if length not in _compiled.setdefault(kernel, set())
    ]
    if not jobs:
        return 0
    inputs_of = [
        tf.nest.map_structure(functools.partial(_kind, length), _input_specs(kernel))
        for kernel, length in jobs
    ]
    kinds = list(dict.fromkeys(tf.nest.flatten(inputs_of)))

    # Grappler must not compute it: inputs are no constants, and the output needs each kernel.
    # Called on their own, kernels would have another entry in TensorFlow's cache.
    @functools.partial(tf.function, autograph=False)
    def run_in_order(zeros: list[tf.Tensor]) -> list[tf.Tensor]:
        zeros_of = dict(zip(kinds, zeros, strict=True))
        elements = []
        for (kernel, _), inputs in zip(jobs, inputs_of, strict=True):
            with tf.control_dependencies(elements[-1:]):
                outputs = kernel(*tf.nest.map_structure(zeros_of.__getitem__, inputs))
                output = tf.nest.flatten(outputs)[0]
                sizes = [min(1, size or 1) for size in output.shape]
                elements.append(tf.slice(output, [0] * len(sizes), sizes))
        return elements

    run_in_order([tf.zeros(kind.shape, kind.dtype) for kind in kinds])
    for kernel, length in jobs:
        _compiled[kernel].add(length)
    return len(jobs)


def _kind(length: int | None, spec: tf.TensorSpec) -> tf.TensorSpec:
    """Returns the spec of an input with all sizes known."""
    shape = [length if size is None else size for size in spec.shape]
    return tf.TensorSpec(shape, spec.dtype)


def _input_specs(kernel: tf.types.experimental.ConcreteFunction) -> tuple:
    return kernel.structured_input_signature[0]


def _has_known_shapes(kernel: tf.types.experimental.ConcreteFunction) -> bool:
    return all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(_input_specs(kernel)))
