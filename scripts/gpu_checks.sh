#!/bin/sh
# Every check that needs a GPU, in one go: the marked tests.
# Usage: scripts/gpu_checks.sh [PYTHON]     (default .venv/bin/python)
set -eu
cd "$(dirname "$0")/.."
python=${1:-.venv/bin/python}
"$python" -c 'import torch; assert torch.cuda.is_available(), "torch finds no CUDA device"'
"$python" -m pytest -m gpu -rs
