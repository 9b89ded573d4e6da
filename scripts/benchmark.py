"""Measure speed on this machine: training, inference or rollouts, beside LeRobot if there is one.

    python scripts/benchmark.py suite=train peer=/path/to/python

Every figure is a median of repeats. A peer is measured right after, with the same sizes and
threads, on a network of the same shape: LeRobot's cannot be cut or narrowed, so ours is measured
in that shape as well. Writes <suite>.json to out=FOLDER.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from act_policy.errors import UserError

Row = dict[str, Any]
"""Who, what was measured (value and unit), and what belongs to it."""

EPISODE_STEPS = 100


def main(config: Any) -> None:
    """Measure, print a table, write the JSON file."""
    from rich.console import Console
    from rich.table import Table

    from act_policy.evaluation.report import write_json
    from act_policy.sim.processes import usable_cores
    from act_policy.versions import versions

    suites: dict[str, Callable[[Any], list[Row]]] = {
        "train": measure_training,
        "infer": measure_inference,
        "rollout": measure_rollouts,
    }
    if config.suite not in suites:
        raise UserError(f"suite={config.suite}: expected one of {', '.join(suites)}")
    if config.peer is not None and not Path(config.peer).is_file():
        raise UserError(f"peer={config.peer}: no such Python")
    config.threads = config.threads or usable_cores()
    rows = suites[config.suite](config)
    for row in rows:
        if (name := row.pop("compare_with", None)) is not None:
            ratio = row["value"] / next(other["value"] for other in rows if other["who"] == name)
            row["times_the_peers_speed"] = 1 / ratio if row["unit"] == "ms" else ratio

    table = Table("who", "measured", "times the peer's speed", title=f"suite={config.suite}")
    for row in rows:
        ratio = f"{row['times_the_peers_speed']:.2f}" if "times_the_peers_speed" in row else ""
        table.add_row(row["who"], f"{row['value']:.4g} {row['unit']}", ratio)
    Console().print(table)
    path = Path(config.out) / f"{config.suite}.json"
    write_json(path, {"rows": rows, "threads": config.threads, "versions": versions()})
    print(f"written: {path}")


def measure_training(config: Any) -> list[Row]:
    """Samples a second through whole training steps, on random uint8 images."""
    settings = training_settings(config)
    rows = [training_row(config, settings, "act_policy, the recipe's network")]
    if config.peer is not None:
        name = "act_policy, LeRobot's network"
        alike = training_row(config, as_lerobot(settings), name)
        peer = ask_peer(config, settings)
        rows += [{**alike, "compare_with": peer["who"]}, peer]
    return rows


def training_row(config: Any, settings: Any, who: str) -> Row:
    """Train for the given time through the real trainer; random batches."""
    import lightning
    import torch
    from hydra.utils import instantiate
    from torch.utils.data import DataLoader

    from act_policy.training.module import PolicyTraining
    from act_policy.training.trainer import build_trainer

    class Clock(lightning.Callback):
        """Marks the end of every step; stops when enough were seen."""

        def __init__(self) -> None:
            self.marks: list[float] = []

        def on_train_batch_end(self, trainer: lightning.Trainer, *args: Any) -> None:
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            self.marks.append(time.perf_counter())
            enough = config.repeats * config.seconds
            if len(self.marks) > 3 + config.repeats and self.marks[-1] - self.marks[3] > enough:
                trainer.should_stop = True

    torch.set_num_threads(config.threads)
    size, steps = settings.data.batch_size, 100_000
    policy = make_policy(config, settings).to(memory_format=torch.channels_last)
    training = PolicyTraining(
        policy, instantiate(settings.optim), steps, kl_weight=settings.model.kl_weight
    )
    clock = Clock()
    batches = [
        random_batch(policy.schema, settings.model.chunk_length, size, seed) for seed in range(4)
    ]
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(Path(folder), steps, steps, steps, callbacks=[clock])
        trainer.limit_val_batches = 0
        repeated = [batches[step % 4] for step in range(20_000)]
        trainer.fit(training, train_dataloaders=DataLoader(repeated, batch_size=None))  # type: ignore[arg-type]
    return {
        "who": who,
        "value": size / median(seconds_a_step(clock.marks[3:], config.repeats)),
        "unit": "samples/s",
        "batch_size": size,
        "parameters": sum(p.numel() for p in policy.parameters()),
    }


def measure_inference(config: Any) -> list[Row]:
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


def measure_rollouts(config: Any) -> list[Row]:
    """Rollouts a minute of 100 steps in one process: physics and images, no policy."""
    lazy = "act_policy, an image a chunk"
    every = "act_policy, an image a step"
    chunk = training_settings(config).model.chunk_length
    rows = [
        {"who": lazy, "value": our_rollouts(config, chunk), "image_every": chunk},
        {"who": every, "value": our_rollouts(config, 1), "image_every": 1},
        {"who": "Meta-World's own renderer, every step", "value": own_renderer_rollouts(config)},
    ]
    if config.peer is not None:
        peer = ask_peer(config, None)
        rows = [{**row, "compare_with": peer["who"]} for row in rows[:2]] + rows[2:] + [peer]
    return [{**row, "unit": "rollouts/min"} for row in rows]


def our_rollouts(config: Any, every: int) -> float:
    """Step our environment and read its images at every n-th step."""
    import gymnasium
    import numpy as np

    import act_policy.sim  # noqa: F401  registers the tasks

    cameras = {name: tuple(size) for name, size in config.cameras.items()}
    environment = gymnasium.make(config.environment, cameras=cameras)
    state = {"step": 0, "seed": 0}

    def step() -> None:
        if state["step"] % EPISODE_STEPS == 0:
            state["seed"] += 1
            state["pixels"] = environment.reset(seed=state["seed"])[0]["pixels"]
        if state["step"] % EPISODE_STEPS % every == 0:
            dict(state["pixels"].items())  # type: ignore[attr-defined]  # reads, and so draws
        state["pixels"] = environment.step(np.full(4, 0.1, np.float32))[0]["pixels"]
        state["step"] += 1

    per_step = time_calls(config, step, whole=EPISODE_STEPS)
    environment.close()
    return 60 / (per_step * EPISODE_STEPS)


def own_renderer_rollouts(config: Any) -> float:
    """Step Meta-World as it comes, rendering at each step."""
    import gymnasium
    import metaworld  # noqa: F401  registers its environments
    import numpy as np

    height, width = next(iter(config.cameras.values()))
    name = config.environment.split("MetaWorld-")[1].removesuffix("-v0")
    environment = gymnasium.make(
        "Meta-World/MT1",
        env_name=f"{name}-v3",
        render_mode="rgb_array",
        disable_env_checker=True,
        camera_name=next(iter(config.cameras)),
        width=width,
        height=height,
    )
    environment.reset(seed=0)

    def step() -> None:
        environment.step(np.full(4, 0.1, np.float32))
        environment.render()

    per_step = time_calls(config, step)
    environment.close()
    return 60 / (per_step * EPISODE_STEPS)


def training_settings(config: Any) -> Any:
    """Compose what train.py would use for the recipe; no data and no pretrained weights."""
    from entry import compose_settings
    from omegaconf import OmegaConf

    choices = [f"experiment={config.recipe}", "data.path=none"]
    if config.network is not None:
        choices.append(f"model={config.network}")
    if config.batch_size is not None:
        choices.append(f"data.batch_size={config.batch_size}")
    settings = compose_settings("train", choices)
    OmegaConf.set_struct(settings, False)
    settings.model.backbone_weights = None
    return settings


def as_lerobot(settings: Any) -> Any:
    """Give the recipe's network the shape that LeRobot's ACT has: the whole ResNet."""
    alike = settings.copy()
    alike.model.update(
        {
            "backbone_stages": 4,
            "backbone_width": 1.0,
            "backbone_norm": "frozen_batch",
            "camera_embedding": False,
        }
    )
    return alike


def ask_peer(config: Any, settings: Any) -> Row:
    """Run benchmark_peer.py in the peer's Python with the same sizes; return its row."""
    from omegaconf import OmegaConf

    request = OmegaConf.to_container(config)
    if settings is not None:
        request["model"] = OmegaConf.to_container(settings.model)
        request["batch_size"] = settings.data.batch_size
    script = Path(__file__).with_name("benchmark_peer.py")
    done = subprocess.run(
        [config.peer, str(script), json.dumps(request)], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise UserError(f"peer={config.peer} failed:\n{done.stderr[-3000:]}")
    row: Row = json.loads(done.stdout.strip().splitlines()[-1])
    return row


def make_policy(config: Any, settings: Any) -> Any:
    """Make the network with random weights."""
    from act_policy.model.act import ACTConfig
    from act_policy.model.policy import ACTPolicy

    schema = make_schema(config)
    fields = {k: v for k, v in settings.model.items() if k not in ("kl_weight", "backbone_weights")}
    return ACTPolicy(ACTConfig.for_schema(schema, **fields), schema, make_statistics())


def make_schema(config: Any) -> Any:
    """A robot of four dimensions with the cameras that were asked for."""
    from act_policy.types import Camera, Schema

    names = ("x", "y", "z", "gripper")
    return Schema(
        cameras=tuple(Camera(name, *size) for name, size in config.cameras.items()),
        state_names=names,
        state_units=("m",) * 4,
        action_names=names,
        action_units=("m",) * 4,
        rate=80.0,
    )


def make_statistics() -> Any:
    """Mean 0 and standard deviation 1."""
    import numpy as np

    from act_policy.types import FieldStatistics, Statistics

    field = FieldStatistics(np.zeros(4), np.ones(4), -np.ones(4), np.ones(4))
    return Statistics(field, field, 1)


def random_batch(schema: Any, chunk_length: int, size: int, seed: int) -> Any:
    """A batch as the data module makes it."""
    import torch

    from act_policy.data.datamodule import Batch
    from act_policy.types import Observation

    generator = torch.Generator().manual_seed(seed)
    images = {
        camera.name: torch.randint(
            0, 256, (size, camera.height, camera.width, 3), dtype=torch.uint8, generator=generator
        )
        for camera in schema.cameras
    }
    state = torch.randn(size, schema.state_size, generator=generator)
    actions = torch.randn(size, chunk_length, schema.action_size, generator=generator)
    is_pad = torch.zeros(size, chunk_length, dtype=torch.bool)
    zeros = torch.zeros(size, dtype=torch.long)
    return Batch(Observation(images, state), actions, is_pad, zeros, zeros)


def time_calls(config: Any, call: Callable[[], Any], whole: int = 1) -> float:
    """Seconds a call, the median of the repeats; each has a multiple of `whole` calls."""
    for _ in range(3 * whole):
        call()
    means = []
    for _ in range(config.repeats):
        began, calls = time.perf_counter(), 0
        while calls == 0 or calls % whole or time.perf_counter() - began < config.seconds:
            call()
            calls += 1
        means.append((time.perf_counter() - began) / calls)
    return median(means)


def seconds_a_step(marks: list[float], repeats: int) -> list[float]:
    """Seconds a step in each of the parts that the marks are cut into."""
    length = (len(marks) - 1) // repeats
    return [(marks[(i + 1) * length] - marks[i * length]) / length for i in range(repeats)]


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    from entry import run

    run("benchmark", main)
