#!/usr/bin/env bash
# Pre-trains on two hosts; run it on both, with the index of the host as first argument.
#
# Command:  host1$ HOSTS=host1:2222,host2:2222 recipes/launch/two_hosts.sh 0 \
#             --data-dir /shared/data --model-name electra_base --flagfile recipes/base.flags
#           host2$ HOSTS=host1:2222,host2:2222 recipes/launch/two_hosts.sh 1  (the same flags)
# Hardware: two hosts with the same number of GPUs, open ports to each other, and a shared
#           folder under the same path, which must contain DATA_DIR.
#           DEVICE=cpu runs it without GPUs.
# Stopping: SIGTERM to either saves, and both exit with 42. If one fails, the other exits with
#           43. The same commands resume from the latest checkpoint.
set -euo pipefail
if [[ $# -lt 1 || ! $1 =~ ^[0-9]+$ || -z ${HOSTS:-} ]]; then
  echo "usage: HOSTS=host1:port,host2:port $0 NUMBER_OF_THIS_HOST [flag …]" >&2
  exit 2
fi
checkout=$(dirname "$0")/../..
index=$1
shift

exec "${PYTHON:-python}" "$checkout/${PROGRAM:-run_pretraining.py}" --strategy=multi_worker \
  --device="${DEVICE:-gpu}" --workers="$HOSTS" --task_index="$index" "$@"
