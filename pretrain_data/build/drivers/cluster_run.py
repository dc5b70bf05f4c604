"""Builds the units of a corpus as an Apache Beam pipeline."""

import contextlib
import functools
import io
import logging
import os
import pathlib
import pickle
import re
import time
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from electra_tf.util.errors import UserError
from electra_tf.util.extras import import_extra
from electra_tf.util.tensorflow_import import import_tensorflow
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.drivers.cluster_work import (
    DIGESTS,
    RESULTS,
    BuildUnits,
    HashDocuments,
    ShardKey,
    WriteShard,
    later_of_equal,
    write_units,
)
from pretrain_data.build.drivers.plan import BuildPlan
from pretrain_data.build.jobs import BuildResult, merge_results
from pretrain_data.parallel.counts import WorkerError

RUNNER_FLAG = "--runner"
OPTIONS_FLAG = "--pipeline_options"
RUNNERS = ("DirectRunner", "FlinkRunner", "SparkRunner", "DataflowRunner")
_DIRECT = RUNNERS[0]
# Part of Beam's message if it cannot download the job server of Flink or Spark.
_JOB_SERVER = "job server jar"
# Beam's message on options that are missing or contradict each other.
_INVALID_OPTIONS = re.compile(r"Pipeline has validations? errors:(.*)", re.DOTALL)
_UNITS_FILE, _RESULT_FILE = "units", "result"
# The last line of the traceback of a worker, with what Beam adds to it.
_USER_ERROR = re.compile(
    r"^(?:\w+\.)*(?:UserError|UnreadableError): (.*?)(?: \[while running [^\]]*\])?\s*$", re.M
)


class ClusterRun:
    """Builds with `CorpusBuildConfig.runner`; see `plan.Driver`."""

    def __init__(self, runner: Any = None):
        """Initializes the driver.

        Args:
            runner: a runner of Beam, instead of that of the configuration.
        """
        self._runner = runner

    def check(self, config: CorpusBuildConfig) -> None:
        """Raises UserError for settings of a single machine, or without Beam."""
        if config.runner not in RUNNERS:
            raise UserError(
                f"{RUNNER_FLAG} must be one of {', '.join(RUNNERS)}, not {config.runner}"
            )
        refused = f"{RUNNER_FLAG}={config.runner} does not support"
        if config.is_openwebtext:
            raise UserError(f"{refused} the archives of OpenWebText")
        if config.deduplicate == "near":
            raise UserError(
                f"{refused} --deduplicate=near, whose index is in the memory of one process: "
                "pass --deduplicate=exact, or build without --runner"
            )
        if config.num_processes > 1 and config.runner != _DIRECT:
            raise UserError(
                f"{refused} --num-processes: set the cluster's workers by --pipeline_options"
            )
        import_extra("apache_beam", "beam", RUNNER_FLAG)

    def run(self, plan: BuildPlan) -> tuple[list[BuildResult], float]:
        """See `plan.Driver.run`; the seconds include the start of the workers."""
        import_tensorflow()
        start = time.monotonic()
        plan.print_fn(
            f"Building with {plan.config.runner}: {len(plan.units)} units, {plan.num_shards} "
            "shards."
        )
        try:
            with _modules_for_workers():
                self._run_pipeline(plan)
        except Exception as error:
            found = _USER_ERROR.search(f"{type(error).__name__}: {error}")
            if found:
                raise UserError(found[1]) from error
            invalid = _INVALID_OPTIONS.search(str(error))
            if invalid:
                raise UserError(f"{OPTIONS_FLAG}: {' '.join(invalid[1].split())}") from error
            if _JOB_SERVER in str(error):
                raise UserError(_job_server_message(plan.config.runner, error)) from error
            lines = str(error).strip().splitlines() or [repr(error)]
            raise WorkerError(f"The pipeline failed: {lines[-1]}") from error
        result: BuildResult = pickle.loads((plan.temporary_dir / _RESULT_FILE).read_bytes())
        _check(result)
        return [result], time.monotonic() - start

    def _run_pipeline(self, plan: BuildPlan) -> None:
        beam = import_extra("apache_beam", "beam", RUNNER_FLAG)
        shards = shard_keys(plan)
        units_file = str(plan.temporary_dir / _UNITS_FILE)
        places = write_units(units_file, plan.units)
        num_held_out = len(shards) - plan.num_shards
        build = BuildUnits(
            plan.config, plan.vocabulary, units_file, plan.num_shards, num_held_out
        )
        merge = functools.partial(functools.reduce, merge_results)
        options = _options(plan)
        with beam.Pipeline(
            runner=self._make_runner(plan.config, options), options=options
        ) as p:
            units = p | "Units" >> beam.Create(places) | "Spread" >> beam.Reshuffle()
            if plan.config.deduplicate == "exact":
                hash_documents = HashDocuments(plan.config, units_file)
                hashed = units | "Hash" >> beam.FlatMap(hash_documents).with_outputs(
                    DIGESTS, main="hashes"
                )
                duplicates = (
                    hashed[DIGESTS]
                    | "Equal" >> beam.GroupByKey()
                    | "Later" >> beam.FlatMap(later_of_equal)
                )
                grouped = {"place": units, "hashes": hashed.hashes, "duplicates": duplicates}
                units = grouped | "Join" >> beam.CoGroupByKey()
            built = units | "Build" >> beam.FlatMap(build).with_outputs(RESULTS, main="records")
            # Shards without records are written, too.
            every = p | "Shards" >> beam.Create([(i, None) for i in range(len(shards))])
            written = (
                (built.records, every)
                | "All" >> beam.Flatten()
                | "Shuffle" >> beam.GroupByKey()
                | "Write" >> beam.Map(WriteShard(shards))
            )
            _ = (
                (built[RESULTS], written)
                | "Results" >> beam.Flatten()
                | "Merge" >> beam.CombineGlobally(_Merge(merge))
                | "Result" >> beam.Map(_WriteResult(str(plan.temporary_dir / _RESULT_FILE)))
            )

    def _make_runner(self, config: CorpusBuildConfig, options: Any) -> Any:
        if self._runner is not None or config.runner != _DIRECT:
            return self._runner or config.runner
        # Given a name, Beam would look for one of several implementations on the network.
        portability = "apache_beam.runners.portability"
        runners = import_extra(f"{portability}.fn_api_runner.fn_runner", "beam", RUNNER_FLAG)
        service = import_extra(f"{portability}.portable_runner", "beam", RUNNER_FLAG)
        messages = import_extra("apache_beam.portability.api", "beam", RUNNER_FLAG)
        encoded = service.JobServiceHandle.encode_pipeline_options(options.get_all_options())
        # Passes the options on to the worker processes.
        given = runners.ExtendedProvisionInfo(
            messages.beam_provision_api_pb2.ProvisionInfo(pipeline_options=encoded)
        )
        return runners.FnApiRunner(provision_info=given)


def shard_keys(plan: BuildPlan) -> list[ShardKey]:
    """Returns the shards to train on, followed by the held-out ones."""
    keys = [
        ShardKey(str(plan.temporary_dir), i, plan.num_shards, held_out=False)
        for i in range(plan.num_shards)
    ]
    if plan.held_out_dir is not None:
        count = max(1, round(plan.num_shards * plan.config.eval_fraction))
        keys += [
            ShardKey(str(plan.held_out_dir), i, count, held_out=True) for i in range(count)
        ]
    return keys


class _Merge:
    """Merges results: a function for `beam.CombineGlobally`."""

    def __init__(self, merge: Any):
        self._merge = merge

    def __call__(self, results: Iterable[BuildResult]) -> BuildResult:
        return self._merge(results, BuildResult())


class _WriteResult:
    """Writes the result of all units to a file."""

    def __init__(self, path: str):
        self._path = path

    def __call__(self, result: BuildResult) -> None:
        import tensorflow as tf

        # Process numbers of different workers can be the same.
        temporary = f"{self._path}.{uuid.uuid4().hex}.tmp"
        with tf.io.gfile.GFile(temporary, "wb") as file:
            file.write(pickle.dumps(result))
        tf.io.gfile.rename(temporary, self._path, overwrite=True)


def _options(plan: BuildPlan) -> Any:
    options = [f"--runner={plan.config.runner}"]
    num_processes = plan.config.num_processes
    if plan.config.runner == _DIRECT and num_processes > 1:
        options += [f"--direct_num_workers={num_processes}"]
        options += ["--direct_running_mode=multi_processing"]
        options += ["--default_sdk_harness_log_level=WARNING"]
    module = import_extra("apache_beam.options.pipeline_options", "beam", RUNNER_FLAG)
    captured = io.StringIO()
    try:
        with contextlib.redirect_stderr(captured):  # all of Beam's options, before the error
            parsed = module.PipelineOptions([*options, *plan.config.pipeline_options])
            known = parsed.get_all_options()
            given = parsed.get_all_options(retain_unknown_options=True)
    except SystemExit as error:
        problem = captured.getvalue().strip().splitlines()[-1].partition("error: ")[2]
        raise UserError(f"{OPTIONS_FLAG}: {problem}") from error
    unknown = [name for name in given if name not in known]
    if unknown and plan.config.runner == _DIRECT:  # other runners have options of their own
        raise UserError(f"{OPTIONS_FLAG}: Beam does not know {', '.join(unknown)}")
    return parsed


@contextlib.contextmanager
def _modules_for_workers() -> Iterator[None]:
    """Makes our modules importable in worker processes on this machine."""
    root = str(pathlib.Path(__file__).resolve().parents[3])
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([root, *([before] if before else [])])
    logger = logging.getLogger("apache_beam")
    level = logger.level
    # The error is printed, in one line.
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before


def _job_server_message(runner: str, error: Exception) -> str:
    """Returns the message that the job server of a runner cannot be downloaded."""
    address = re.search(r"https?://\S+\.jar", str(error))
    option = {"FlinkRunner": "flink", "SparkRunner": "spark"}.get(runner, "RUNNER")
    return (
        f"{RUNNER_FLAG}={runner} needs Beam's job server, which cannot be downloaded"
        f"{f' from {address[0]}' if address else ''}: download the file elsewhere, and pass "
        f"--pipeline_options=--{option}_job_server_jar=FILE."
    )


def _check(result: BuildResult) -> None:
    """Raises WorkerError unless the shards have the examples that were built."""
    for each in (result, result.held_out):
        if each is not None and sum(each.shards.values()) != each.totals.examples:
            raise WorkerError(
                f"{each.totals.examples:,} examples were built, but the shards have "
                f"{sum(each.shards.values()):,} records."
            )
