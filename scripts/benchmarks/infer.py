"""Latency of one chunk from one raw observation.

Two sizes are of interest: cameras={top: [480,640]}, where the image dominates the time, and
cameras={top: [120,160]}, where reading the weights does.
"""

import tempfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks.clock import time_calls
from benchmarks.common import (
    Row,
    as_lerobot,
    ask_peer,
    make_policy,
    random_observation,
    training_config,
)

from act_policy.errors import UserError


def measure(config: Any) -> list[Row]:
    """Measure eager torch and every exported form; a peer gets the same weights and input."""
    import torch

    torch.set_num_threads(config.threads)
    settings = training_config(config)
    alike = as_lerobot(settings)
    rows = []
    if config.peer is None or alike.model != settings.model:
        rows = inference_rows(config, make_policy(config, settings), "the recipe's network")
    if config.peer is None:
        return rows
    policy = make_policy(config, alike)
    spread_norms(policy)
    ours = inference_rows(config, policy, "LeRobot's network")
    peer = peer_row(config, alike, policy)
    return rows + [{**row, "compare_with": peer["who"]} for row in ours] + [peer]


def inference_rows(config: Any, policy: Any, network: str) -> list[Row]:
    """Time `predict_chunk` of the torch policy and of its exported forms."""
    import numpy as np

    from act_policy.control.policies.onnx_policy import OnnxPolicy
    from act_policy.export.onnx import export_onnx
    from act_policy.export.precision import to_int8
    from act_policy.export.pt2 import Pt2Policy, export_pt2

    policy.eval()
    observation = random_observation(policy.schema)
    expected = policy.predict_chunk(observation)
    runs: dict[str, Any] = {"eager": policy}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        export_pt2(policy, folder / "policy.pt2")
        runs["torch.export"] = Pt2Policy(folder / "policy.pt2")
        export_onnx(policy, folder / "policy.onnx")
        runs["ONNX"] = OnnxPolicy(folder / "policy.onnx", threads=config.threads)
        if find_spec("openvino"):
            runs["ONNX in OpenVINO"] = OnnxPolicy(
                folder / "policy.onnx", threads=config.threads, runtime="openvino"
            )
        to_int8(folder / "policy.onnx", folder / "int8.onnx", policy.schema, [observation])
        runs["ONNX int8"] = OnnxPolicy(folder / "int8.onnx", threads=config.threads)
        return [
            {
                "who": f"act_policy {name}, {network}",
                "value": 1e3 * time_calls(config, lambda p=runner: p.predict_chunk(observation)),
                "unit": "ms",
                "parameters": sum(p.numel() for p in policy.parameters()),
                "largest_difference_from_eager": float(
                    np.abs(runner.predict_chunk(observation) - expected).max()
                ),
            }
            for name, runner in runs.items()
        ]


def peer_row(config: Any, settings: Any, policy: Any) -> Row:
    """Let LeRobot load our weights and time its eager policy; its actions must equal ours."""
    import numpy as np
    import torch
    from safetensors.torch import save_file

    from act_policy.checkpoints.lerobot.checkpoint import save_lerobot

    observation = random_observation(policy.schema)
    with tempfile.TemporaryDirectory() as folder:
        save_lerobot(policy, Path(folder))
        tensors = {"observation.state": torch.tensor(observation.state)[None]}
        for name, image in observation.images.items():
            tensors[f"observation.images.{name}"] = torch.tensor(image)[None]
        save_file(tensors, Path(folder) / "observation.safetensors")
        row = ask_peer(config, settings, checkpoint=folder)
    found, expected = np.array(row.pop("actions")), policy.predict_chunk(observation)
    difference = float(np.abs(found - expected).max())
    if not difference < 1e-3:
        raise UserError(
            f"peer={config.peer}: with the same weights its actions differ by {difference}"
        )
    return {**row, "largest_difference_from_eager": difference}


def spread_norms(policy: Any) -> None:
    """Give frozen norms statistics other than zero and one, so that they change the result."""
    import torch

    torch.manual_seed(0)
    for name, buffer in policy.act.image_encoder.backbone.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.1)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
