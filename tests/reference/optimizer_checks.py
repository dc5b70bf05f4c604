"""Repeats the authors' optimizer runs, update by update, and compares schedules."""

import contextlib
import itertools
import json
import pathlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from electra_tf.training.clipping import clip_by_global_norm
from electra_tf.training.learning_rate import WarmupPolynomialDecay, layer_factors
from electra_tf.training.optimizer import ElectraAdam
from tests.reference.compare_outputs import Recorded
from tests.reference.result import CheckResult, Comparison, guarded, skip

# Relative to the largest absolute value of the array.
TOLERANCE = 1e-5
# Rates that the reference infers from differences of float32 variables.
INFERRED_TOLERANCE = 1e-4
CLIP_NORM = 1.0
# Ends the names of cases that were run again, in the order of an ordinary training.
UNFORCED = "_unforced_order"
UNKNOWN_VARIABLE = "layerwise_with_an_unmatched_variable_name"

Arrays = Mapping[str, np.ndarray]


def check_optimizer(reference_dir: pathlib.Path) -> Iterator[CheckResult]:
    """Yields the results for `optimizer.npz` and `optimizer_config.json`."""
    arrays = dict(np.load(reference_dir / "optimizer.npz"))
    config = json.loads((reference_dir / "optimizer_config.json").read_text())
    unread = []
    names = dict.fromkeys([*config, *(key.split("/")[0] for key in arrays)])
    names.pop(UNKNOWN_VARIABLE, None)
    for name in names:
        own = _under(arrays, name)
        check = _check_of(name, config, own, arrays.get(name))
        if check is None:
            unread.append(name)
            continue
        yield from guarded(f"optimizer {name}", check)
        unread += [f"{name}/{key}" for key in own.unread()]
    yield check_unknown_variable()
    if unread:
        yield skip("optimizer not compared", ", ".join(unread))


def _check_of(
    name: str, config: dict[str, Any], own: Recorded, array: np.ndarray | None
) -> Callable[[], Iterable[CheckResult]] | None:
    """Returns the check of one entry of the set; None for what there is no check of."""
    case = config.get(name)
    if isinstance(case, dict) and "n_updates" in case:
        return lambda: check_trajectory(name, case, own)
    if name == "sparse":
        return lambda: [check_sparse(case["create_optimizer_args"], own)]
    if name == "schedules":
        return lambda: itertools.starmap(check_schedule, zip(case, array, strict=True))
    if name.endswith(UNFORCED):
        base = config.get(name.removesuffix(UNFORCED), {})
        return lambda: [check_order_of_the_counter(name, base["create_optimizer_args"], own)]
    return None


def _under(arrays: Arrays, name: str) -> Recorded:
    prefix = f"{name}/"
    return Recorded(
        {
            key.removeprefix(prefix): array
            for key, array in arrays.items()
            if key.startswith(prefix)
        }
    )


def make_schedule(arguments: dict, first_update: int = 0) -> WarmupPolynomialDecay:
    """Returns the schedule of the authors' `create_optimizer` arguments."""
    return WarmupPolynomialDecay(
        learning_rate=arguments["learning_rate"],
        num_train_steps=arguments["num_train_steps"],
        warmup_steps=arguments.get("warmup_steps", 0),
        warmup_proportion=arguments.get("warmup_proportion", 0.0),
        power=arguments.get("lr_decay_power", 1.0),
        first_update=first_update,
    )


def has_warmup(arguments: dict) -> bool:
    """Tells whether the rate rises at first; without, theirs computes 0/0 for step 0."""
    return any(arguments.get(name) for name in ("warmup_steps", "warmup_proportion"))


def make_variable(path: str, value: np.ndarray) -> keras.Variable:
    """Returns a variable whose path, slashes and all, is `path`."""
    *scopes, name = path.split("/")
    with contextlib.ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(keras.name_scope(scope))
        return keras.Variable(value, name=name)


def check_trajectory(name: str, case: dict, arrays: Arrays) -> Iterator[CheckResult]:
    """Feeds the recorded gradients, and compares rates, norms and values of every update."""
    arguments = case["create_optimizer_args"]
    paths = list(case["variables"])
    variables = [make_variable(path, arrays[f"value/{path}"][0]) for path in paths]
    factors = None
    if arguments.get("layerwise_lr_decay_power", -1) > 0:  # their default is -1
        factors = layer_factors(
            paths,
            arguments["layerwise_lr_decay_power"],
            arguments["n_transformer_layers"],
            authors_exponents=True,
        )
    # Without warm-up, theirs has no rate for step 0, and runs begin with that of step 1.
    schedule = make_schedule(arguments, first_update=0 if has_warmup(arguments) else 1)
    optimizer = ElectraAdam(schedule, arguments.get("weight_decay_rate", 0.0), factors)
    optimizer.build(variables)

    values = {path: [arrays[f"value/{path}"][0]] for path in paths}
    norms, rates = [], []
    for update in range(case["n_updates"]):
        # A variable without a gradient is not handed over.
        pairs = [
            (tf.constant(arrays[f"grad/{path}"][update]), variable)
            for path, variable in zip(paths, variables, strict=True)
            if path not in case["variables_without_gradient"]
        ]
        gradients, norm = clip_by_global_norm([g for g, _ in pairs], CLIP_NORM)
        norms.append(norm)
        rates.append(float(optimizer.learning_rate))
        optimizer.apply(gradients, [variable for _, variable in pairs])
        for path, variable in zip(paths, variables, strict=True):
            values[path].append(variable.numpy())

    yield _compare_values(name, values, arrays)
    yield _compare_moments(name, optimizer, paths, case, arrays)
    comparison = Comparison(f"optimizer {name} norms and rates")
    comparison.close("global_norm", norms, arrays["global_norm"], TOLERANCE)
    comparison.equal("global_step", int(optimizer.iterations), arrays["global_step"][-1])
    for key in (key for key in arrays if key == "lr" or key.startswith("lr/")):
        part = key.removeprefix("lr/") if factors is not None else ""
        matching = {factor for path, factor in (factors or {"": 1.0}).items() if part in path}
        comparison.true(key, len(matching) == 1, f"our factors are {sorted(matching)}")
        for factor in matching:
            comparison.close(key, np.multiply(rates, factor), arrays[key], TOLERANCE)
    yield comparison.result()


def _compare_values(name: str, values: dict[str, list], arrays: Arrays) -> CheckResult:
    comparison = Comparison(f"optimizer {name} values")
    for path, trajectory in values.items():
        comparison.close(path, trajectory, arrays[f"value/{path}"], TOLERANCE)
    return comparison.result()


def _compare_moments(
    name: str, optimizer: ElectraAdam, paths: list[str], case: dict, arrays: Arrays
) -> CheckResult:
    comparison = Comparison(f"optimizer {name} moments")
    for slot, moments in (("adam_m", optimizer.adam_m), ("adam_v", optimizer.adam_v)):
        for path, moment in zip(paths, moments, strict=True):
            # Theirs makes no moments for a variable without a gradient.
            if path in case["variables_without_gradient"]:
                expected = np.zeros(moment.shape)
            else:
                expected = arrays[f"{slot}_final/{path}"]
            comparison.close(f"{slot} of {path}", moment, expected, TOLERANCE)
    return comparison.result()


def check_sparse(arguments: dict, arrays: Arrays) -> CheckResult:
    """Trains a table that is only looked up.

    Theirs clips by the norm of the un-summed row gradients, ours by the true one: both
    norms are compared, and theirs is used to follow the recorded values.
    """
    comparison = Comparison("optimizer sparse")
    names = ("word_embeddings", "kernel")
    variables = [make_variable(f"electra/{name}", arrays[name][0]) for name in names]
    optimizer = ElectraAdam(make_schedule(arguments), arguments.get("weight_decay_rate", 0.0))
    optimizer.build(variables)
    values = {name: [arrays[name][0]] for name in names}
    norms, unsummed_norms, rates = [], [], []
    for norm_used in arrays["global_norm_used"]:
        with tf.GradientTape() as tape:
            table, kernel = (tf.convert_to_tensor(variable) for variable in variables)
            rows = tf.gather(table, arrays["ids"])
            tape.watch(rows)
            loss = tf.reduce_sum(tf.einsum("bnd,de->bne", rows, kernel) * arrays["c"])
        table_gradient, kernel_gradient, row_gradients = tape.gradient(
            loss, [variable.value for variable in variables] + [rows]
        )
        gradients = [tf.convert_to_tensor(table_gradient), kernel_gradient]
        norms.append(clip_by_global_norm(gradients, CLIP_NORM)[1])
        unsummed_norms.append(
            clip_by_global_norm([row_gradients, kernel_gradient], CLIP_NORM)[1]
        )
        rates.append(float(optimizer.learning_rate))
        scale = CLIP_NORM / max(CLIP_NORM, float(norm_used))
        optimizer.apply([gradient * scale for gradient in gradients], variables)
        for name, variable in zip(names, variables, strict=True):
            values[name].append(variable.numpy())
    for label, actual in (
        ("lr", rates),
        ("global_norm_of_summed_dense_gradient", norms),
        ("global_norm_used", unsummed_norms),
        *values.items(),
    ):
        comparison.close(label, np.asarray(actual), arrays[label], TOLERANCE)
    return comparison.result()


def check_schedule(row: dict, expected: np.ndarray) -> CheckResult:
    """Compares the learning rate at every step of one schedule."""
    settings = ", ".join(f"{name} {value:g}" for name, value in row.items())
    comparison = Comparison(f"schedule {settings}")
    schedule = make_schedule(row)
    first = 0 if has_warmup(row) else 1
    rates = [float(schedule(step)) for step in range(first, len(expected))]
    comparison.close(f"{len(rates)} steps", rates, expected[first:], TOLERANCE)
    return comparison.result()


def check_order_of_the_counter(name: str, arguments: dict, arrays: Arrays) -> CheckResult:
    """Compares our default with the rates that the authors' program really used.

    Their formula reads the step counter before the update, their program, where nothing
    orders the two, after it.
    """
    comparison = Comparison(f"optimizer {name}")
    for first_update, key in ((0, "schedule_before_update"), (1, "effective_lr")):
        schedule = make_schedule(arguments, first_update)
        rates = [float(schedule(step)) for step in range(len(arrays[key]))]
        comparison.close(key, rates, arrays[key], INFERRED_TOLERANCE)
    return comparison.result()


def check_unknown_variable() -> CheckResult:
    """Checks that layer-wise rates refuse a variable they know nothing of, as theirs do."""
    comparison = Comparison(f"optimizer {UNKNOWN_VARIABLE}")
    try:
        layer_factors(["other/kernel"], 0.8, 3)
    except ValueError:
        refused = True
    else:
        refused = False
    comparison.true("ValueError", refused, "other/kernel was given a learning rate")
    return comparison.result()
