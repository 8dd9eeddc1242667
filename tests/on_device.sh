#!/usr/bin/env bash
# Runs the rules of the simulation (tests/runtime/rows.py) on a real CUDA device and prints each row on which the device
# and the simulation differ. Takes under five minutes; where there is no device it says so and ends well.
# PYTHON names an interpreter with torch, pytest and numpy (default python3).
set -uo pipefail
cd "$(dirname "$0")/.."
python="${PYTHON:-python3}"

if ! "$python" -c "import sys, torch; sys.exit(not torch.cuda.is_available())"; then
    echo "no CUDA device that torch can use: nothing was compared"
    exit 0
fi
"$python" -c "import torch; print('torch', torch.__version__, '-', torch.cuda.device_count(), 'x', torch.cuda.get_device_name())"
DEVLINT_REAL_DEVICES=1 PYTHONPATH=. timeout 290 "$python" -m pytest tests/runtime/test_rules.py -q -p no:cacheprovider --tb=line -rfs
