#!/usr/bin/env bash
# Pre-trains on a Cloud TPU, from the TPU VM.
#
# Command:  recipes/launch/cloud_tpu.sh --data-dir data --model-name electra_small \
#             --flagfile recipes/small.flags --vocab_file recipes/vocab/bert_uncased_vocab.txt
# Hardware: a single-host TPU VM with libtpu and tensorflow-tpu 2.21.
#           For a remote TPU: --tpu_name NAME --tpu_zone ZONE --gcp_project PROJECT.
# Stopping: SIGTERM saves and exits with 42; the same command resumes.
#
# Untested on a TPU: none was available. The step compiles with XLA, with static shapes and in
# bfloat16.
set -euo pipefail
checkout=$(dirname "$0")/../..

exec "${PYTHON:-python}" "$checkout/${PROGRAM:-run_pretraining.py}" --strategy=tpu "$@"
