"""The other side of benchmark.py: LeRobot or gym-aloha in an environment of its own.

Run by benchmark.py with the peer's Python; needs nothing of act_policy. The request comes as JSON
in the first argument, the measured row leaves as JSON on the last line of the output.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from statistics import median
from typing import Any

ALOHA_SAMPLE = 100


def main(request: dict[str, Any]) -> dict[str, Any]:
    """Measure the suite that was asked for."""
    package, suites = "lerobot", {"train": train, "infer": infer, "rollout": rollout}
    if request["suite"] == "rollout" and "/Aloha" in request["environment"]:
        package, suites = "gym-aloha", {"rollout": aloha_rollout}
    value, more = suites[request["suite"]](request)
    name = "LeRobot" if package == "lerobot" else package
    return {"who": f"{name} {version(package)}", "value": value, **more}


def train(request: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Samples a second as LeRobot's train script makes a step: uint8 images, AdamW, clipping."""
    import torch

    policy, preprocessor, _ = make_policy(request)
    size, model = request["batch_size"], request["model"]
    optimizer = torch.optim.AdamW(policy.get_optim_params(), lr=1e-5, weight_decay=1e-4)
    batches = [raw_batch(request, size, seed) for seed in range(4)]
    for batch in batches:
        batch["action"] = torch.randn(size, model["chunk_length"], 4)
        batch["action_is_pad"] = torch.zeros(size, model["chunk_length"], dtype=torch.bool)
    policy.train()
    autocast = torch.autocast("cuda", torch.bfloat16, enabled=torch.cuda.is_available())
    state = {"step": 0}

    def step() -> None:
        batch = preprocessor(as_floats(batches[state["step"] % 4]))
        with autocast:
            loss, _ = policy.forward(batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        state["step"] += 1

    parameters = sum(p.numel() for p in policy.parameters())
    more = {"unit": "samples/s", "batch_size": size, "parameters": parameters}
    return size / time_calls(request, step), more


def infer(request: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Milliseconds from one raw observation to one chunk in physical units, on the CPU.

    The policy is the checkpoint that the request names; the observation lies in it.
    """
    import torch
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.factory import make_pre_post_processors
    from safetensors.torch import load_file

    torch.set_num_threads(request["threads"])
    folder = request["checkpoint"]
    policy = ACTPolicy.from_pretrained(folder, strict=True)
    preprocessor, postprocessor = make_pre_post_processors(policy.config, pretrained_path=folder)
    observation = load_file(os.path.join(folder, "observation.safetensors"))
    policy.eval()

    def predict() -> Any:
        return postprocessor(policy.predict_action_chunk(preprocessor(as_floats(observation))))

    parameters = sum(p.numel() for p in policy.parameters())
    more = {"unit": "ms", "parameters": parameters, "actions": predict().tolist()}
    return 1e3 * time_calls(request, predict), more


def rollout(request: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Rollouts a minute of LeRobot's Meta-World environment, which draws 480x480 at each step."""
    import numpy as np
    from lerobot.envs.metaworld import MetaworldEnv

    name = request["environment"].split("MetaWorld-")[1].removesuffix("-v0")
    environment = MetaworldEnv(
        f"{name}-v3", camera_name=next(iter(request["cameras"])), obs_type="pixels_agent_pos"
    )
    environment.reset(seed=0)
    seconds = time_calls(request, lambda: environment.step(np.full(4, 0.1, np.float32)))
    return 60 / (seconds * request["episode_steps"]), {"unit": "rollouts/min", "image_every": 1}


def aloha_rollout(request: dict[str, Any]) -> tuple[float, dict[str, Any]]:
    """Rollouts a minute of gym-aloha, which draws three 480x640 views at each step; 100 steps."""
    import numpy as np
    from gym_aloha.env import AlohaEnv

    task = {"TransferCube": "transfer_cube", "Insertion": "insertion"}
    name = request["environment"].split("/Aloha")[1].removesuffix("-v0")
    environment = AlohaEnv(task[name], obs_type="pixels_agent_pos")
    environment.reset(seed=0)  # draws, so what is set up once is set up
    began = time.perf_counter()
    for action in request["actions"][:ALOHA_SAMPLE]:
        environment.step(np.array(action))
    seconds = (time.perf_counter() - began) / ALOHA_SAMPLE
    return 60 / (seconds * request["episode_steps"]), {"unit": "rollouts/min", "image_every": 1}


def make_policy(request: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Build LeRobot's ACT with the requested sizes, and its processors."""
    import torch
    from lerobot.configs.types import FeatureType, PolicyFeature
    from lerobot.policies.act.configuration_act import ACTConfig
    from lerobot.policies.act.modeling_act import ACTPolicy
    from lerobot.policies.act.processor_act import make_act_pre_post_processors

    torch.set_num_threads(request["threads"])
    model = request["model"]
    inputs = {"observation.state": PolicyFeature(FeatureType.STATE, (4,))}
    for name, size in request["cameras"].items():
        inputs[f"observation.images.{name}"] = PolicyFeature(FeatureType.VISUAL, (3, *size))
    sizes = {
        "chunk_size": "chunk_length",
        "n_action_steps": "chunk_length",
        "dim_model": "width",
        "n_heads": "heads",
        "dim_feedforward": "feedforward_width",
        "n_encoder_layers": "encoder_layers",
        "n_decoder_layers": "decoder_layers",
        "pre_norm": "pre_norm",
        "feedforward_activation": "activation",
        "dropout": "dropout",
        "vision_backbone": "backbone",
    }
    config = ACTConfig(
        input_features=inputs,
        output_features={"action": PolicyFeature(FeatureType.ACTION, (4,))},
        device=("cuda" if torch.cuda.is_available() else "cpu"),
        pretrained_backbone_weights=None,
        use_vae=model["latent_size"] > 0,
        latent_dim=model["latent_size"] or 32,
        n_vae_encoder_layers=model["latent_layers"] or 4,
        **{theirs: model[ours] for theirs, ours in sizes.items()},
    )
    zero_and_one = {"mean": torch.zeros(4), "std": torch.ones(4)}
    statistics = {"observation.state": zero_and_one, "action": zero_and_one}
    for name in request["cameras"]:
        statistics[f"observation.images.{name}"] = {
            "mean": torch.full((3, 1, 1), 0.5),
            "std": torch.full((3, 1, 1), 0.25),
        }
    preprocessor, postprocessor = make_act_pre_post_processors(config, statistics)
    return ACTPolicy(config).to(config.device), preprocessor, postprocessor


def raw_batch(request: dict[str, Any], size: int, seed: int) -> dict[str, Any]:
    """Random uint8 images (b, h, w, 3) and states (b, 4)."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    batch = {"observation.state": torch.randn(size, 4, generator=generator)}
    for name, (height, width) in request["cameras"].items():
        batch[f"observation.images.{name}"] = torch.randint(
            0, 256, (size, height, width, 3), dtype=torch.uint8, generator=generator
        )
    return batch


def as_floats(batch: dict[str, Any]) -> dict[str, Any]:
    """Images as LeRobot takes them: float (b, 3, h, w) in [0, 1]."""
    return {
        key: value.permute(0, 3, 1, 2).float() / 255 if "images" in key else value
        for key, value in batch.items()
    }


def time_calls(request: dict[str, Any], call: Callable[[], Any]) -> float:
    """Seconds a call, the median of the repeats; measured as benchmark.py does."""
    for _ in range(3):
        call()
    means = []
    for _ in range(request["repeats"]):
        began, calls = time.perf_counter(), 0
        while calls == 0 or time.perf_counter() - began < request["seconds"]:
            call()
            calls += 1
        means.append((time.perf_counter() - began) / calls)
    return median(means)


if __name__ == "__main__":
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    print(json.dumps(main(json.loads(sys.argv[1]))))
