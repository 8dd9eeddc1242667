#!/usr/bin/env bash
# What a machine with GPUs can say of the simulation and of `devlint verify`: run it there, in under five minutes.
#
#     tests/on_device.sh cuda
#
# `simulated` in place of `cuda` tries the script itself, on a machine without a GPU.
#
# The rules of the simulation hold on the real device, row by row; the pages of the rule book show what they say; a
# program is clean under verify as it is, and with a fault in it the fault is named. Each step is tried, whatever the
# others say; the exit code is 1 if one failed. PYTHON names the interpreter (torch, pytest and devlint[dev] in it).
set -uo pipefail
cd "$(dirname "$0")/.."

device=${1:-cuda}
python=${PYTHON:-python3}
export OMP_NUM_THREADS=1 PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}"
folder=$(mktemp -d "${TMPDIR:-/tmp}/devlint-device.XXXXXX")
trap 'rm -rf "$folder"' EXIT
failed=0

step() { # WANTED_EXIT_CODE SECONDS COMMAND...
    local wanted=$1 seconds=$2 code=0
    shift 2
    printf '\n== %s\n' "$*"
    timeout "$seconds" "$@" || code=$?
    if [ "$code" -ne "$wanted" ]; then
        printf '** exit code %s, wanted %s\n' "$code" "$wanted"
        failed=1
    fi
}

step 0 30 "$python" -m devlint devices
if [ "$device" != simulated ]; then
    step 0 120 env DEVLINT_REAL_DEVICES=1 "$python" -m pytest -q tests/runtime/test_rules.py
fi
step 0 60 "$python" -m devlint verify --device "$device" --rules

cp tests/runtime/programs/cnn.py "$folder/cnn.py"
printf 'import cnn\ncnn.main("%s")\n' "${device/simulated/cuda}" > "$folder/main.py"
step 0 40 "$python" -m devlint verify --device "$device" "$folder/main.py"
sed -i.bak 's/^        x = x.to(device)$/        x.to(device)/' "$folder/cnn.py"
step 1 40 "$python" -m devlint verify --device "$device" "$folder/main.py"
exit "$failed"
