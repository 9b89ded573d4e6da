"""A policy package: ONNX and manifest.json, as the runtime `physicalai` 0.3 loads them.

    act.onnx        the ONNX file with the runtime's names for its inputs
    manifest.json   format, runner, robot and cameras by name

The runtime hands over raw images (b, h, w, 3) and joints, and needs no processors: normalisation
is in the file. Its names: `state`, and `images.<camera>`, or `images` where there is one camera.

Sources: physicalai 0.3.0, inference/{model,manifest}.py and runtime/action_sources/policy.py.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from act_policy.control.policies.onnx_policy import batched_inputs, input_names
from act_policy.errors import UserError
from act_policy.model.policy import ACTPolicy
from act_policy.types import (
    ACTION_KEY,
    ENVIRONMENT_STATE_KEY,
    IMAGE_PREFIX,
    PREFIX_KEY,
    STATE_KEY,
    Observation,
    Schema,
)

MODEL_FILE, MANIFEST_FILE = "act.onnx", "manifest.json"


def package_names(schema: Schema) -> dict[str, str]:
    """Map our names of the inputs to the runtime's."""
    names = {STATE_KEY: "state", ENVIRONMENT_STATE_KEY: "environment_state"}
    for camera in schema.camera_names:
        one = len(schema.cameras) == 1
        names[f"{IMAGE_PREFIX}{camera}"] = "images" if one else f"images.{camera}"
    return {name: names[name] for name in input_names(schema)}


def write_package(policy: ACTPolicy, onnx_file: Path, folder: Path) -> None:
    """Write the folder from an exported policy.onnx; manifest.json is written last.

    Raises:
        UserError: the policy knows several tasks, which the runtime cannot tell apart.
    """
    if policy.schema.chooses_task:
        raise UserError(
            f"format policy_package: the policy is told one of {len(policy.schema.tasks)} tasks, "
            "and the runtime hands over images and joints alone; leave the format out"
        )
    folder.mkdir(parents=True, exist_ok=True)
    model = onnx.load(onnx_file)
    names = package_names(policy.schema)
    for value in model.graph.input:
        value.name = names.get(value.name, value.name)
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    onnx.save(model, folder / MODEL_FILE)
    manifest = describe(policy.schema, policy.chunk_length)
    # our own entry, which the runtime keeps
    manifest["act_policy"] = {
        "schema": policy.schema.to_dict(),
        "execution": policy.execution.to_dict(),
        "prefix_length": policy.prefix_length,
    }
    text = json.dumps(manifest, indent=2) + "\n"
    (folder / MANIFEST_FILE).write_text(text, encoding="utf-8")


def describe(schema: Schema, chunk_length: int) -> dict[str, Any]:
    """Make the runtime's own part of manifest.json."""
    robot: dict[str, Any] = {"name": "main", "type": ""}
    for field, names in (("state", schema.state_names), ("action", schema.action_names)):
        robot[field] = {"shape": [len(names)], "dtype": "float32", "order": list(names)}
    cameras = [
        {"name": camera.name, "shape": [3, camera.height, camera.width], "dtype": "uint8"}
        for camera in schema.cameras
    ]
    return {
        "format": "policy_package",
        "version": "1.0",
        "policy": {"name": Path(MODEL_FILE).stem, "source": {"repo_id": "", "class_path": ""}},
        "model": {
            "n_obs_steps": 1,
            # The runner takes no arguments; the runtime reads the chunk's length from here.
            "runner": {"type": "single_pass", "init_args": {"chunk_size": chunk_length}},
            "artifacts": {"onnx": MODEL_FILE},
            "preprocessors": [],
            "postprocessors": [],
        },
        "hardware": {"robots": [robot], "cameras": cameras},
        "metadata": {
            "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
            "created_by": "act_policy",
        },
    }


class PackagePolicy:
    """Run a package as the runtime does: manifest, artifact, inputs by the runtime's names."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime

        manifest = json.loads((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
        self.schema = Schema.from_dict(manifest["act_policy"]["schema"])
        self.chunk_length = int(manifest["model"]["runner"]["init_args"]["chunk_size"])
        self.prefix_length = int(manifest["act_policy"].get("prefix_length", 0))
        self._names = list(package_names(self.schema).values())
        self._session = onnxruntime.InferenceSession(
            folder / manifest["model"]["artifacts"]["onnx"], providers=["CPUExecutionProvider"]
        )

    def predict_chunk(self, observation: Observation[np.ndarray] | Mapping[str, Any]) -> np.ndarray:
        """Predict (k, a), or (b, k, a) for a batch, in physical units."""
        inputs, single = batched_inputs(self.schema, observation, self.prefix_length)
        values = dict(zip([*self._names, PREFIX_KEY], inputs, strict=False))
        actions: np.ndarray = self._session.run([ACTION_KEY], values)[0]
        return actions[0] if single else actions
