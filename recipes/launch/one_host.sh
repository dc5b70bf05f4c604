#!/usr/bin/env bash
# Pre-trains on all GPUs of this host; --num_gpus limits their number.
#
# Command:  recipes/launch/one_host.sh --data-dir data --model-name electra_small \
#             --flagfile recipes/small.flags
# Hardware: one host with several GPUs. To test without GPUs:
#           DEVICE=cpu recipes/launch/one_host.sh --num_virtual_cpus 2 …
# Stopping: SIGTERM saves and exits with 42; the same command resumes.
#
# train_batch_size is the global batch size, so one GPU and eight train the same model.
# PROGRAM=run_finetuning.py fine-tunes.
set -euo pipefail
checkout=$(dirname "$0")/../..

exec "${PYTHON:-python}" "$checkout/${PROGRAM:-run_pretraining.py}" --strategy=mirrored \
  --device="${DEVICE:-gpu}" "$@"
