"""Latency of one chunk from one raw observation."""

import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import (
    Row,
    as_lerobot,
    ask_peer,
    make_policy,
    time_calls,
    training_settings,
)


def measure(config: Any) -> list[Row]:
    """Latency of one chunk from one raw observation: eager, and ONNX without torch."""
    settings = training_settings(config)
    rows = inference_rows(config, settings, "the recipe's network")
    if config.peer is not None:
        alike = inference_rows(config, as_lerobot(settings), "LeRobot's network")
        peer = ask_peer(config, settings)
        rows += [{**row, "compare_with": peer["who"]} for row in alike] + [peer]
    return rows


def inference_rows(config: Any, settings: Any, network: str) -> list[Row]:
    """Time `predict_chunk` of the torch policy and of its ONNX file."""
    import numpy as np
    import torch

    from act_policy.control.onnx_policy import OnnxPolicy
    from act_policy.export.onnx import export_onnx
    from act_policy.types import Observation

    torch.set_num_threads(config.threads)
    policy = make_policy(config, settings)
    schema = policy.schema
    rng = np.random.default_rng(0)
    observation = Observation(
        {
            camera.name: rng.integers(0, 256, (camera.height, camera.width, 3), np.uint8)
            for camera in schema.cameras
        },
        rng.normal(size=schema.state_size).astype(np.float32),
    )
    policies: dict[str, Any] = {"eager": policy.eval()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "policy.onnx"
        export_onnx(policy, path)
        policies["ONNX"] = OnnxPolicy(path, threads=config.threads)
        return [
            {
                "who": f"act_policy {name}, {network}",
                "value": 1e3 * time_calls(config, lambda p=runs: p.predict_chunk(observation)),
                "unit": "ms",
                "parameters": sum(p.numel() for p in policy.parameters()),
            }
            for name, runs in policies.items()
        ]
