"""Builds the units of a corpus in processes of this machine."""

import dataclasses

from electra_tf.util.console import ProgressBar
from electra_tf.util.errors import UserError
from pretrain_data.build.config import CorpusBuildConfig
from pretrain_data.build.drivers.plan import BuildPlan
from pretrain_data.build.drivers.worker import run_job
from pretrain_data.build.jobs import BuildJob, BuildResult
from pretrain_data.build.selection import (
    DocumentHashes,
    ScanJob,
    scan_documents,
    select_documents,
    unit_fates,
)
from pretrain_data.build.units import divide_units
from pretrain_data.parallel.processes import run_jobs


class LocalRun:
    """Builds in `CorpusBuildConfig.num_processes` processes; see `plan.Driver`."""

    def check(self, config: CorpusBuildConfig) -> None:
        """Raises UserError if there are fewer shards than processes."""
        if config.pipeline_options:
            raise UserError("--pipeline_options needs --runner")
        if config.num_out_files is not None and config.num_out_files < config.num_processes:
            raise UserError(
                f"--num-out-files ({config.num_out_files}) must be at least --num-processes "
                f"({config.num_processes}): every process writes its own shards"
            )

    def run(self, plan: BuildPlan) -> tuple[list[BuildResult], float]:
        """See `plan.Driver.run`; the start of the processes is not part of the seconds."""
        jobs = _jobs(plan)
        plan.print_fn(
            f"Building with {len(jobs)} process{'es' if len(jobs) > 1 else ''}, writing "
            f"{plan.num_shards} shards."
        )
        if plan.config.selects_documents:
            jobs = _selected(plan, jobs)
        progress = ProgressBar(plan.num_disk_bytes)
        try:
            results = run_jobs(run_job, jobs, progress)
        finally:
            seconds = progress.close()
        return results, seconds


def _jobs(plan: BuildPlan) -> list[BuildJob]:
    shares = divide_units(plan.units, plan.config.num_processes)
    return [
        BuildJob(
            index=index,
            units=share,
            config=plan.config,
            vocabulary=plan.vocabulary,
            temporary_dir=plan.temporary_dir,
            shard_indices=list(range(index, plan.num_shards, len(shares))),
            num_shards=plan.num_shards,
            num_processes=len(shares),
            held_out_dir=plan.held_out_dir,
        )
        for index, share in enumerate(shares)
    ]


def _selected(plan: BuildPlan, jobs: list[BuildJob]) -> list[BuildJob]:
    """Returns the jobs with the fates of their documents."""
    config = plan.config
    plan.print_fn("Hashing the documents, to choose those to hold out or leave out.")
    scans = [ScanJob(job.index, job.units, config) for job in jobs]
    progress = ProgressBar(plan.num_disk_bytes, unit="documents")
    try:
        of_jobs: list[list[DocumentHashes]] = run_jobs(scan_documents, scans, progress)
    finally:
        progress.close()
    hashes = [of_unit for of_job in of_jobs for of_unit in of_job]
    fates = select_documents(
        hashes, config.eval_fraction, config.deduplicate, config.near_duplicate_threshold
    )
    by_unit = {
        index: unit_fates(*each) for index, each in enumerate(zip(hashes, fates, strict=True))
    }
    return [
        dataclasses.replace(job, fates={unit.index: by_unit[unit.index] for unit in job.units})
        for job in jobs
    ]
