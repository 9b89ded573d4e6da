"""physicalai's side of record.py, run with the Python that has it; no act_policy in it.

The first argument names a folder with <case>/ (a policy package) and <case>.npz (a raw
observation: camera names to images, and `state`). The answer is JSON on the last line.
"""

import importlib.metadata
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np


def main(folder: Path) -> dict[str, Any]:
    from physicalai.inference import InferenceModel

    answer: dict[str, Any] = {"physicalai": importlib.metadata.version("physicalai")}
    for file in sorted(folder.glob("*.npz")):
        model = InferenceModel(folder / file.stem)
        raw = dict(np.load(file))
        # As its runtime builds the model's input from a robot and its cameras
        # (runtime/action_sources/policy.py, _to_model_input).
        observation = {"state": np.array([raw.pop("state")], np.float32)}
        if len(raw) == 1:
            observation["images"] = next(iter(raw.values()))[None]
        else:
            observation |= {f"images.{name}": image[None] for name, image in raw.items()}
        chunk = model.predict_action_chunk(observation)
        actions = [model.select_action(observation) for _ in chunk]
        assert np.array_equal(actions, chunk)
        robot = model.manifest.hardware.robots[0]
        answer[file.stem] = {
            "actions": [[float(f"{x:.8g}") for x in row] for row in chunk.tolist()],
            "chunk_size": model.chunk_size,
            "inputs": model.adapter.input_names,
            "action_names": robot.action.order,
            "cameras": [camera.name for camera in model.manifest.hardware.cameras],
        }
    return answer


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
