"""Samples per second through whole training steps."""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.common import (
    Row,
    as_lerobot,
    ask_peer,
    make_policy,
    random_observation,
    training_config,
)


def measure(config: Any) -> list[Row]:
    """Measure samples per second through whole training steps, on random uint8 images."""
    settings = training_config(config)
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

    from act_policy.training.engine.trainer import build_trainer
    from act_policy.training.policy_training import PolicyTraining

    class Clock(lightning.Callback):
        """Records the end of every step; stops training after enough steps."""

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
    policy = make_policy(config, settings)
    kl_weight = 10.0 if settings.model.latent_size else None
    training = PolicyTraining(policy, instantiate(settings.optim), steps, kl_weight=kl_weight)
    clock = Clock()
    batches = [random_batch(policy, size, seed) for seed in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        trainer = build_trainer(Path(folder), steps, steps, steps, callbacks=[clock])
        trainer.limit_val_batches = 0
        repeated = [batches[step % 4] for step in range(20_000)]
        trainer.fit(training, train_dataloaders=DataLoader(repeated, batch_size=None))  # type: ignore[arg-type]
    return {
        "who": who,
        "value": size / median(seconds_per_step(clock.marks[3:], config.repeats)),
        "unit": "samples/s",
        "batch_size": size,
        "parameters": sum(p.numel() for p in policy.parameters()),
    }


def random_batch(policy: Any, size: int, seed: int) -> Any:
    """Return a random batch like those of the data module."""
    import torch

    from act_policy.data.loading.batches import Batch

    observation = random_observation(policy.schema, seed, (size,)).map(torch.from_numpy)
    shape = (size, policy.chunk_length)
    actions = torch.randn(
        *shape, policy.schema.action_size, generator=torch.Generator().manual_seed(seed)
    )
    zeros = torch.zeros(size, dtype=torch.long)
    return Batch(observation, actions, torch.zeros(shape, dtype=torch.bool), zeros, zeros)


def seconds_per_step(marks: list[float], repeats: int) -> list[float]:
    """Return seconds per step in each of the parts that the marks are divided into."""
    length = (len(marks) - 1) // repeats
    return [(marks[(i + 1) * length] - marks[i * length]) / length for i in range(repeats)]
