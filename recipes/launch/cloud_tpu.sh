#!/usr/bin/env bash
# Pre-trains on a Cloud TPU, from the TPU's own virtual machine.
#
# Command:  recipes/launch/cloud_tpu.sh --data-dir data --model-name electra_small \
#             --flagfile recipes/small.flags --vocab_file recipes/vocab/bert_uncased_vocab.txt
# Hardware: the VM of a TPU on one host, with libtpu and the tensorflow-tpu of version 2.21.
#           Another machine's TPU: --tpu_name NAME --tpu_zone ZONE --gcp_project PROJECT.
# Stopping: SIGTERM saves and exits with 42; the same command goes on from there.
#
# Not measured: no TPU was at hand. The step compiles with XLA, its shapes are static and the
# precision is bfloat16; what libtpu makes of it has not been seen.
set -euo pipefail
cd "$(dirname "$0")/../.."

exec "${PYTHON:-python}" "${PROGRAM:-run_pretraining.py}" --strategy=tpu "$@"
