"""The old runtime's side of record.py, run with the Python that has it; it has no torch.

The argument names a folder with <case>/*.onnx and <case>/input.npz (a raw observation: camera
names to images, and `state`). The answer is JSON on the last line.
"""

import json
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from act_policy import Observation
from act_policy.control.policies.onnx_policy import OnnxPolicy


def main(folder: Path) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "onnxruntime": onnxruntime.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }
    for inputs in sorted(folder.glob("*/input.npz")):
        images = dict(np.load(inputs))
        observation = Observation(images, images.pop("state"))
        answer[inputs.parent.name] = {
            file.name: {
                "actions": [
                    [float(f"{x:.8g}") for x in row]
                    for row in OnnxPolicy(file, threads=1).predict_chunk(observation).tolist()
                ]
            }
            for file in sorted(inputs.parent.glob("*.onnx"))
        }
    return answer


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
