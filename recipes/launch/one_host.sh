#!/usr/bin/env bash
# Pre-trains on all GPUs of this host; --num_gpus takes fewer of them.
#
# Command:  recipes/launch/one_host.sh --data-dir data --model-name electra_small \
#             --flagfile recipes/small.flags
# Hardware: one host with several GPUs. Without any, to try it:
#           DEVICE=cpu recipes/launch/one_host.sh --num_virtual_cpus 2 …
# Stopping: SIGTERM saves and exits with 42; the same command goes on from there.
#
# train_batch_size counts the examples of a step over all GPUs: it trains the same model on
# one GPU as on eight. PROGRAM=run_finetuning.py fine-tunes.
set -euo pipefail
cd "$(dirname "$0")/../.."

exec "${PYTHON:-python}" "${PROGRAM:-run_pretraining.py}" --strategy=mirrored \
  --device="${DEVICE:-gpu}" "$@"
