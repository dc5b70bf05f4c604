#!/usr/bin/env bash
# Pre-trains on two hosts; run it on both, with the number of the host first.
#
# Command:  host1$ HOSTS=host1:2222,host2:2222 recipes/launch/two_hosts.sh 0 \
#             --data-dir /shared/data --model-name electra_base --flagfile recipes/base.flags
#           host2$ HOSTS=host1:2222,host2:2222 recipes/launch/two_hosts.sh 1  (the same flags)
# Hardware: two hosts with the same number of GPUs each, whose ports are open to each other,
#           and a folder that both see under the same path: DATA_DIR has to be in it.
#           DEVICE=cpu tries it without GPUs.
# Stopping: SIGTERM to either saves and ends both with 42. Where one dies, the other says so
#           and exits with 43. The same commands go on from the newest checkpoint.
set -euo pipefail
if [[ $# -lt 1 || ! $1 =~ ^[0-9]+$ || -z ${HOSTS:-} ]]; then
  echo "usage: HOSTS=host1:port,host2:port $0 NUMBER_OF_THIS_HOST [flag …]" >&2
  exit 2
fi
cd "$(dirname "$0")/../.."
index=$1
shift

exec "${PYTHON:-python}" "${PROGRAM:-run_pretraining.py}" --strategy=multi_worker \
  --device="${DEVICE:-gpu}" --workers="$HOSTS" --task_index="$index" "$@"
