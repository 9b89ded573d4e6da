"""Measure how long a training step takes, on random images, before the schedule is fixed."""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch

from act_policy.data.loading.batches import Batch
from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.training.callbacks.disk_room import size_of_checkpoint
from act_policy.training.optimizer import OptimizerConfig, build_optimizer
from act_policy.training.plan.facts import Workload
from act_policy.training.policy_training import PolicyTraining
from act_policy.types import Observation, Schema

SECONDS, MOST_SECONDS = 1.0, 8.0
OTHER_WORK = 1.1
"""Times a step alone: reading the batch, averaging, logging."""


class Trial(NamedTuple):
    """What a few steps of training showed.

    step_seconds: of one step, by the clock.
    processor_seconds: of one step, on all cores together. Other programs hardly change them.
    checkpoint_bytes: what a checkpoint takes.
    """

    step_seconds: float
    processor_seconds: float
    checkpoint_bytes: int


def measure_step(
    workload: Workload,
    model: Mapping[str, Any],
    schema: Schema,
    optimizer: OptimizerConfig,
    gpu: bool,
    bfloat16: bool,
) -> Trial:
    """Train on one random batch for about a second.

    Args:
        workload: sizes of images, chunk and batch.
        model: fields of ACTConfig that the schema does not give.
        schema: of the demonstrations; its cameras may have other sizes.
        optimizer: its settings.
        gpu: whether on the GPU or on the CPU.
        bfloat16: whether in mixed precision or in float32.

    Raises:
        UserError: the network is impossible.
    """
    cameras = tuple(
        replace(camera, height=height, width=width)
        for camera, (height, width) in zip(schema.cameras, workload.sizes, strict=True)
    )
    schema = replace(schema, cameras=cameras)
    config = ACTConfig.for_schema(schema, **model)
    policy = ACTPolicy(config, schema, _unit_statistics(schema))
    kl_weight = 1.0 if config.latent_size else None
    training = PolicyTraining(policy, optimizer, 1, kl_weight=kl_weight)
    device = torch.device("cuda" if gpu else "cpu")
    training.to(device)
    batch = _random_batch(workload, schema, device)
    adamw = build_optimizer(policy, optimizer)
    taken: list[float] = []
    computed: list[float] = []
    # the first step prepares memory and kernels; steps of many seconds need no mean
    while sum(taken) < MOST_SECONDS and (len(taken) < 4 or sum(taken[1:]) < SECONDS):
        begin, begin_computing = time.perf_counter(), time.process_time()
        with torch.autocast(device.type, torch.bfloat16, enabled=bfloat16):
            l1, kl = training.losses(policy, batch, "auto")
        torch.autograd.backward(l1 if kl is None else l1 + kl)
        adamw.step()
        adamw.zero_grad()
        if gpu:
            torch.cuda.synchronize()
        taken.append(time.perf_counter() - begin)
        computed.append(time.process_time() - begin_computing)
    seconds = min(taken[1:] or taken)  # other programs may have been busy for a moment
    return Trial(OTHER_WORK * seconds, min(computed[1:] or computed), size_of_checkpoint(training))


def _random_batch(workload: Workload, schema: Schema, device: torch.device) -> Batch:
    size, chunk = workload.batch_size, workload.chunk_length
    images = {
        camera.name: torch.randint(
            0, 256, (size, camera.height, camera.width, 3), dtype=torch.uint8, device=device
        )
        for camera in schema.cameras
    }
    numbers = torch.zeros(size, dtype=torch.int64, device=device)
    state = torch.randn(size, schema.state_size, device=device)
    return Batch(
        Observation(images, state, task=numbers if schema.chooses_task else None),
        torch.randn(size, chunk, schema.action_size, device=device),
        torch.zeros(size, chunk, dtype=torch.bool, device=device),
        numbers,
        numbers,
    )


def _unit_statistics(schema: Schema) -> Statistics:
    def unit(size: int) -> FieldStatistics:
        zeros, ones = np.zeros(size), np.ones(size)
        return FieldStatistics(zeros, ones, -ones, ones)

    return Statistics(unit(schema.state_size), unit(schema.action_size), 1)
