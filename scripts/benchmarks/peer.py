"""Measure LeRobot or gym-aloha in its own environment, for benchmark.py.

Run by benchmark.py with the peer's Python; does not need act_policy. The request is JSON in the
first argument; the measured row is JSON on the last line of the output.
"""

import json
import os
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from itertools import count
from types import SimpleNamespace
from typing import Any

from clock import loader_speed, time_calls

ALOHA_SAMPLE = 100


def main(request: Any) -> dict[str, Any]:
    """Measure the requested suite."""
    package, suites = "lerobot", {"train": train, "infer": infer, "rollout": rollout, "data": data}
    if request.measure == "rollout" and "/Aloha" in request.environment:
        package, suites = "gym-aloha", {"rollout": aloha_rollout}
    value, more = suites[request.measure](request)
    name = "LeRobot" if package == "lerobot" else package
    return {"who": f"{name} {version(package)}", "value": value, **more}


def train(request: Any) -> tuple[float, dict[str, Any]]:
    """Measure samples per second with LeRobot's training step: uint8 images, AdamW, clipping."""
    import torch

    policy, preprocessor = make_policy(request)
    size, chunk = request.batch_size, request.network["chunk_size"]
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-5, weight_decay=1e-4)
    batches = [raw_batch(request, size, seed) for seed in range(4)]
    for batch in batches:
        batch["action"] = torch.randn(size, chunk, 4)
        batch["action_is_pad"] = torch.zeros(size, chunk, dtype=torch.bool)
    policy.train()
    autocast = torch.autocast("cuda", torch.bfloat16, enabled=torch.cuda.is_available())
    steps = count()

    def step() -> None:
        batch = preprocessor(as_floats(batches[next(steps) % 4]))
        with autocast:
            loss, _ = policy.forward(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    parameters = sum(p.numel() for p in policy.parameters())
    more = {"unit": "samples/s", "batch_size": size, "parameters": parameters}
    return size / time_calls(request, step), more


def infer(request: Any) -> tuple[float, dict[str, Any]]:
    """Measure milliseconds from one raw observation to one chunk in physical units, on the CPU.

    The request names the folder of the checkpoint, which also holds the observation.
    """
    import torch
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors
    from safetensors.torch import load_file

    torch.set_num_threads(request.threads)
    folder = request.checkpoint
    policy = ACTPolicy.from_pretrained(folder, strict=True)
    preprocessor, postprocessor = make_pre_post_processors(policy.config, pretrained_path=folder)
    observation = load_file(os.path.join(folder, "observation.safetensors"))
    policy.eval()

    def predict() -> Any:
        return postprocessor(policy.predict_action_chunk(preprocessor(as_floats(observation))))

    parameters = sum(p.numel() for p in policy.parameters())
    more = {"unit": "ms", "parameters": parameters, "actions": predict().tolist()}
    return 1e3 * time_calls(request, predict), more


def rollout(request: Any) -> tuple[float, dict[str, Any]]:
    """Measure rollouts per minute of LeRobot's Meta-World, which renders 480x480 at each step."""
    import numpy as np
    from lerobot.envs.metaworld import MetaworldEnv

    name = request.environment.split("MetaWorld-")[1].removesuffix("-v0")
    environment = MetaworldEnv(
        f"{name}-v3", camera_name=next(iter(request.cameras)), obs_type="pixels_agent_pos"
    )
    environment.reset(seed=0)
    seconds = time_calls(request, lambda: environment.step(np.full(4, 0.1, np.float32)))
    return 60 / (seconds * request.episode_steps), {"unit": "rollouts/min", "image_every": 1}


def aloha_rollout(request: Any) -> tuple[float, dict[str, Any]]:
    """Measure rollouts (100 steps) per minute of gym-aloha: three 480x640 views at each step."""
    import numpy as np
    from gym_aloha.env import AlohaEnv

    task = {"TransferCube": "transfer_cube", "Insertion": "insertion"}
    name = request.environment.split("/Aloha")[1].removesuffix("-v0")
    environment = AlohaEnv(task[name], obs_type="pixels_agent_pos")
    environment.reset(seed=0)  # renders, so one-time setup is done
    began = time.perf_counter()
    for action in request.actions[:ALOHA_SAMPLE]:
        environment.step(np.array(action))
    seconds = (time.perf_counter() - began) / ALOHA_SAMPLE
    return 60 / (seconds * request.episode_steps), {"unit": "rollouts/min", "image_every": 1}


def data(request: Any) -> tuple[float, dict[str, Any]]:
    """Measure samples per second of LeRobot's dataset in random order, or write that dataset."""
    import torch
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    torch.set_num_threads(request.threads)
    if request.write:
        write_dataset(request)
        return 0.0, {}
    backend = video_backend()
    ahead = [step / request.rate for step in range(request.chunk_length)]
    dataset = LeRobotDataset("bench/mark", request.folder, delta_timestamps={"action": ahead})
    loader = torch.utils.data.DataLoader(dataset, request.batch_size, shuffle=True)
    batch_sizes = (len(batch["index"]) for _ in count() for batch in loader)
    more = {"unit": "samples/s", "video_backend": backend}
    return loader_speed(request, batch_sizes), more


def video_backend() -> str:
    """Name LeRobot's decoder; install a stand-in if this torchvision no longer has it."""
    import torchvision
    from lerobot.datasets.video_utils import get_safe_default_codec

    codec = str(get_safe_default_codec())
    if codec != "pyav" or hasattr(torchvision.io, "VideoReader"):
        return codec
    torchvision.io.VideoReader = VideoReader
    torchvision.set_video_backend = lambda backend: None
    return "pyav, through a stand-in for the VideoReader that torchvision no longer has"


class VideoReader:
    """The part of torchvision.io.VideoReader that LeRobot uses, based on PyAV like the original."""

    def __init__(self, path: str, stream: str) -> None:
        import av

        self.container = av.open(path)

    def seek(self, seconds: float, keyframes_only: bool = False) -> None:
        """Seek to the key frame at or before this time."""
        self.container.seek(int(seconds * 1e6))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        import torch

        for frame in self.container.decode(video=0):
            pixels = torch.from_numpy(frame.to_ndarray(format="rgb24")).permute(2, 0, 1)
            yield {"data": pixels, "pts": frame.time}


def write_dataset(request: Any) -> None:
    """Write episodes of a moving scene with some noise, in LeRobot's default encoding."""
    import numpy as np
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    height, width = request.height, request.width
    joints = [f"joint_{i}" for i in range(14)]
    vector = {"dtype": "float32", "shape": (14,), "names": joints}
    names = ["height", "width", "channels"]
    image = {"dtype": "video", "shape": (height, width, 3), "names": names}
    features = {"observation.state": vector, "action": vector, "observation.images.top": image}
    dataset = LeRobotDataset.create("bench/mark", request.rate, features, request.folder)
    rng = np.random.default_rng(0)
    rows, columns = np.mgrid[0:height, 0:width]
    noise = rng.integers(-6, 7, (height, width, 3))
    for _ in range(request.episodes):
        joint = np.cumsum(rng.normal(0, 0.02, (request.steps, 14)), axis=0).astype(np.float32)
        for step in range(request.steps):
            frame = np.stack([rows // 3, columns // 4, (rows + columns + 2 * step) // 6], axis=2)
            top, left = 100 + step % 200, 50 + 2 * step % 500
            frame[top : top + 80, left : left + 80] = (220, 40, 40)
            pixels = np.clip(frame + np.roll(noise, 7 * step, axis=1), 0, 255).astype(np.uint8)
            dataset.add_frame(
                {
                    "observation.state": joint[step],
                    "action": joint[min(step + 1, request.steps - 1)],
                    "observation.images.top": pixels,
                    "task": "move",
                }
            )
        dataset.save_episode()
    dataset.finalize()


def make_policy(request: Any) -> tuple[Any, Any]:
    """Build LeRobot's ACT with the requested sizes, and its preprocessor."""
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.act.processor_act import make_act_pre_post_processors

    torch.set_num_threads(request.threads)
    inputs = {"observation.state": PolicyFeature(FeatureType.STATE, (4,))}
    for name, size in request.cameras.items():
        inputs[f"observation.images.{name}"] = PolicyFeature(FeatureType.VISUAL, (3, *size))
    config = ACTConfig(
        input_features=inputs,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        device=("cuda" if torch.cuda.is_available() else "cpu"),
        pretrained_backbone_weights=None,
        **request.network,
    )
    zero_and_one = {"mean": torch.zeros(4), "std": torch.ones(4)}
    statistics = {"observation.state": zero_and_one, "action": zero_and_one}
    for name in request.cameras:
        statistics[f"observation.images.{name}"] = {
            "mean": torch.full((3, 1, 1), 0.5),
            "std": torch.full((3, 1, 1), 0.25),
        }
    preprocessor, _ = make_act_pre_post_processors(config, statistics)
    return ACTPolicy(config).to(config.device), preprocessor


def raw_batch(request: Any, size: int, seed: int) -> dict[str, Any]:
    """Return random uint8 images (b, h, w, 3) and states (b, 4)."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    batch = {"observation.state": torch.randn(size, 4, generator=generator)}
    for name, (height, width) in request.cameras.items():
        batch[f"observation.images.{name}"] = torch.randint(
            0, 256, (size, height, width, 3), dtype=torch.uint8, generator=generator
        )
    return batch


def as_floats(batch: dict[str, Any]) -> dict[str, Any]:
    """Convert images to LeRobot's form: float (b, 3, h, w) in [0, 1]."""
    return {
        key: value.permute(0, 3, 1, 2).float() / 255 if "images" in key else value
        for key, value in batch.items()
    }


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(json.dumps(main(SimpleNamespace(**json.loads(sys.argv[1])))))
