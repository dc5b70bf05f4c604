"""Functions that graphs call: kernels compiled by XLA, subgraphs traced once, parts of rows."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

# Kernels that graphs call, by the name of their function.
_kernels: weakref.WeakValueDictionary = weakref.WeakValueDictionary()
# Kernels that a traced function calls, with the devices.
_kernels_of: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
# Kernels that `compile_ahead` has compiled in this process, with the devices and the lengths;
# None if all shapes of a kernel are known.
_compiled: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
# Passes of Grappler that find nothing to do in a graph of matrix products and compiled kernels.
_USELESS_PASSES = (
    "arithmetic_optimization",
    "constant_folding",
    "function_optimization",
    "implementation_selector",
    "layout_optimizer",
    "loop_optimization",
    "remapping",
    "shape_optimization",
)


@contextlib.contextmanager
def few_graph_passes() -> Iterator[None]:
    """Context in which TensorFlow takes half as long to optimize called functions, on CPUs.

    TensorFlow optimizes the graph of a function when it is first called, and again if it is
    then called with other settings: all its calls belong in such a context. The remaining
    passes remove the thousands of operations that compute nothing.
    """
    before = tf.config.optimizer.get_experimental_options()
    tf.config.optimizer.set_experimental_options(dict.fromkeys(_USELESS_PASSES, False))
    try:
        yield
    finally:
        tf.config.optimizer.set_experimental_options(
            {name: before.get(name) for name in _USELESS_PASSES}  # None is the default
        )


def compiled_by_xla(function: Callable) -> Callable:
    """Decorator that compiles a function of tensors to one kernel, for `compile_ahead`, too.

    The only side effect that the function may have is to update variables among its arguments,
    which XLA does in place. Calls that differ only in their variables share a kernel.
    """
    kernel = tf.function(function, jit_compile=True, autograph=False)

    @functools.wraps(function)
    def call(*tensors: object):
        if not tf.inside_function():
            return kernel(*tensors)
        concrete = kernel.get_concrete_function(*tensors)
        _kernels[_name(concrete)] = concrete
        return concrete(*tensors)

    return call


def traced_once(function: Callable) -> Callable:
    """Decorator of a pure function `function(*tensors, **static)` that graphs call often.

    It is traced, and its gradient derived, once for each combination of static values, shapes
    and dtypes; then a call adds one operation to a graph, which TensorFlow inlines before it
    runs. Tracing a deep model so takes a fraction of the time. Called eagerly, it is the
    undecorated function.
    """

    @functools.cache
    def traced(static: tuple) -> tf.types.experimental.PolymorphicFunction:
        return tf.function(lambda *tensors: function(*tensors, **dict(static)), autograph=False)

    @functools.wraps(function)
    def call(*tensors: object, **static: object):
        if not tf.inside_function():
            return function(*tensors, **static)
        return traced(tuple(sorted(static.items())))(*tensors)

    return call


def side_by_side(function: Callable, max_parts: int) -> Callable:
    """Returns a function that computes equal parts of its rows at the same time.

    An operation on few rows uses the cores of a CPU badly: it ends before another thread has
    begun. The operations of several parts need not wait for each other.

    Args:
        function: takes and returns nested structures of tensors [rows, ...], and computes each
            row by itself.
        max_parts: largest number of parts; the number is a divisor of the number of rows, and
            1 if that is not known while tracing.
    """
    # Optimized once for all parts, since it is not inlined.
    part = tf.function(function, autograph=False, experimental_attributes={"_noinline": True})

    def call(rows: Any) -> Any:
        flat = tf.nest.flatten(rows)
        count = largest_divisor(flat[0].shape[0], max_parts)
        if count == 1:
            return function(rows)
        parts = zip(*(tf.split(x, count) for x in flat), strict=True)
        outputs = [part(tf.nest.pack_sequence_as(rows, each)) for each in parts]
        return tf.nest.map_structure(lambda *values: tf.concat(values, axis=0), *outputs)

    return call


def largest_divisor(number: int | None, limit: int) -> int:
    """Returns into how many equal parts, at most `limit`, rows can be divided.

    Args:
        number: number of rows; None, for which there is one part, if it is not known.
        limit: largest number of parts.
    """
    if number is None:
        return 1
    return max(n for n in range(1, limit + 1) if number % n == 0)


def compile_ahead(
    function: tf.types.experimental.PolymorphicFunction,
    *inputs: object,
    lengths: Sequence[int] = (),
    meanwhile: Callable[[], object] | None = None,
) -> int:
    """Traces a function, and compiles the kernels that it calls one after another.

    The first call of a traced function compiles them as its operations become ready, several
    at once, and on CPU about one process in 200 does not survive that. Here each kernel runs
    on zeros, in place of variables, too, and alone; the first call then finds the compiled
    kernels in TensorFlow's cache.

    Args:
        function: a `tf.function`; it is traced as its first call would, but not run. Each of
            its kernels has an output.
        *inputs: inputs of the first call.
        lengths: sequence lengths of the batches, if their shapes leave them open. Kernels
            whose shapes are not fully known are compiled for each.
        meanwhile: called while another thread compiles, if anything has to be compiled; it must
            not run a kernel.

    Returns:
        The number of compilations.
    """
    jobs: dict[str, list[tuple]] = collections.defaultdict(list)
    for kernel, device in _kernels_in(function.get_concrete_function(*inputs)):
        for length in [None] if _has_known_shapes(kernel) else lengths:
            if (device, length) not in _compiled.get(kernel, ()):
                jobs[device].append((kernel, length))

    def compile_all() -> None:
        for device, kernels in jobs.items():
            _compile_in_order(kernels, device)

    if meanwhile is None or not jobs:
        compile_all()
    else:
        with concurrent.futures.ThreadPoolExecutor(max_workers=1) as thread:
            compiling = thread.submit(compile_all)
            meanwhile()
            compiling.result()
    return sum(map(len, jobs.values()))


def _compile_in_order(jobs: Sequence[tuple], device: str) -> None:
    """Compiles kernels on a device, each for a length or None (see `_compiled`)."""
    inputs_of = [_kinds(kernel, length) for kernel, length in jobs]
    kinds = list(dict.fromkeys(tf.nest.flatten(inputs_of)))

    # Grappler must not compute it: inputs are no constants, and the output needs each kernel.
    # Called on their own, kernels would have another entry in TensorFlow's cache.
    @functools.partial(tf.function, autograph=False)
    def run_in_order(zeros: list[tf.Tensor | tf.Variable]) -> list[tf.Tensor]:
        zeros_of = dict(zip(kinds, zeros, strict=True))
        elements = []
        for (kernel, _), inputs in zip(jobs, inputs_of, strict=True):
            with tf.device(device), tf.control_dependencies(elements[-1:]):
                outputs = kernel(*tf.nest.map_structure(zeros_of.__getitem__, inputs))
                output = tf.nest.flatten(outputs)[0]
                sizes = [1 if size is None else min(1, size) for size in output.shape]
                elements.append(tf.slice(output, [0] * len(sizes), sizes))
        return elements

    with tf.device(device):
        zeros = [kind.zeros() for kind in kinds]
        run_in_order(zeros)
        for variable in zeros:
            if isinstance(variable, tf.Variable):
                _free(variable)
    for kernel, length in jobs:
        _compiled.setdefault(kernel, set()).add((device, length))


def _kernels_in(function: tf.types.experimental.ConcreteFunction) -> list[tuple]:
    """Returns the kernels that a function, or the functions in it, call, each with a device."""
    if function not in _kernels_of:
        graph = function.graph.as_graph_def()
        bodies = {each.signature.name: each.node_def for each in graph.library.function}
        found: dict[tuple[str, str], None] = {}
        waiting = [(graph.node, _local_device(""))]
        while waiting:
            nodes, outer_device = waiting.pop()
            for node in nodes:
                device = _local_device(node.device) if node.device else outer_device
                for name in _functions_of(node):
                    if name in bodies and (name, device) not in found:
                        found[name, device] = None
                        waiting.append((bodies[name], device))
        _kernels_of[function] = [
            (_kernels[name], device) for name, device in found if name in _kernels
        ]
    return _kernels_of[function]


def _local_device(name: str) -> str:
    """Returns the short name of a device of this process, such as `/CPU:0`."""
    device = tf.DeviceSpec.from_string(name)
    return f"/{device.device_type or 'CPU'}:{device.device_index or 0}"


def _functions_of(node: tf.compat.v1.NodeDef) -> Iterator[str]:
    """Yields the names of the functions that an operation calls."""
    for value in node.attr.values():
        for function in (value.func, *value.list.func):
            yield function.name


def _name(function: tf.types.experimental.ConcreteFunction) -> str:
    return tf.compat.as_str(function.name)


@dataclasses.dataclass(frozen=True)
class _Kind:
    """A kind of input, for which `compile_ahead` passes the same zeros.

    Attributes:
        spec: their shape and dtype.
        variable: number of a variable among those of a kernel; None for tensors. The variables
            of a kernel must differ.
    """

    spec: tf.TensorSpec
    variable: int | None = None

    def zeros(self) -> tf.Tensor | tf.Variable:
        """Returns a tensor, or a new variable, of the spec."""
        value = tf.zeros(self.spec.shape, self.spec.dtype)
        return value if self.variable is None else tf.Variable(value, trainable=False)


def _kinds(kernel: tf.types.experimental.ConcreteFunction, length: int | None) -> tuple:
    """Returns the kinds of the inputs of a kernel, in their structure, with all sizes known."""
    num_variables = collections.Counter()

    def kind(given: tf.TypeSpec) -> _Kind:
        shape = [length if size is None else size for size in given.shape]
        spec = tf.TensorSpec(shape, given.dtype)
        if isinstance(given, tf.TensorSpec):
            return _Kind(spec)
        num_variables[spec] += 1
        return _Kind(spec, num_variables[spec])

    return tf.nest.map_structure(kind, _input_specs(kernel))


def _input_specs(kernel: tf.types.experimental.ConcreteFunction) -> tuple:
    return kernel.structured_input_signature[0]


def _free(variable: tf.Variable) -> None:
    """Frees a variable's memory, which a traced function keeps until it is collected itself."""
    tf.raw_ops.AssignVariableOp(resource=variable.handle, value=tf.zeros([0], variable.dtype))


def _has_known_shapes(kernel: tf.types.experimental.ConcreteFunction) -> bool:
    return all(spec.shape.is_fully_defined() for spec in tf.nest.flatten(_input_specs(kernel)))
