"""Fine-tuning: training that starts from an existing policy.

The network and its normalisation stay, because weights mean something only with the statistics
that they were trained on: before the first step the new policy predicts bit for bit what the old
one did. Names and rate are those of the new demonstrations; ranges cover both. New tasks are added
behind those that the policy knows.
"""

import logging
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from act_policy.checkpoints.lerobot.checkpoint import ASSUMED_RATE, numbered_schema
from act_policy.errors import UserError
from act_policy.model.config import SCHEMA_FIELDS
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import Statistics
from act_policy.types import Schema

FAR = 10.0
"""Standard deviations beyond which a value of the new demonstrations causes a warning."""


def network_config(policy: ACTPolicy) -> dict[str, Any]:
    """Write the policy's network as the `model` settings of a run."""
    fields = policy.config.to_dict()
    for name in SCHEMA_FIELDS:
        del fields[name]
    return fields


def start_from(policy: ACTPolicy, schema: Schema, statistics: Statistics) -> ACTPolicy:
    """Make the policy to train on demonstrations of this schema, with the weights of another.

    schema: of the demonstrations, with the other policy's tasks before their own. The tokens of new
        tasks are random; a policy that knew one task alone had none, and all are.

    Raises:
        UserError: cameras, joints or actions are not those of the policy, by name and order.
    """
    check_names(policy, schema)
    if set(policy.statistics.relative_actions) != set(statistics.relative_actions):
        raise UserError(
            f"init: the checkpoint predicts {_relative(policy.statistics)}, data.select.relative "
            f"asks for {_relative(statistics)}; set data.select.relative as it was"
        )
    config = replace(policy.config, task_count=len(schema.tasks) if schema.chooses_task else 0)
    started = ACTPolicy(config, schema, keep_normalisation(policy.statistics, statistics))
    weights = {**started.state_dict(), **policy.state_dict()}
    if config.task_count:
        known = policy.config.task_count
        added = started.act.task_tokens.weight.detach()[known:]
        tokens = [policy.act.task_tokens.weight.detach()] if known else []
        weights["act.task_tokens.weight"] = torch.cat([*tokens, added])
    started.load_state_dict(weights)
    started.demonstration_seeds = policy.demonstration_seeds
    warn_of_far_values(policy.statistics, statistics, schema)
    return started


def _relative(statistics: Statistics) -> str:
    names = ", ".join(statistics.relative_actions)
    return f"actions relative to the state ({names})" if names else "absolute actions"


def check_names(policy: ACTPolicy, schema: Schema) -> None:
    """Raise UserError unless the policy's cameras, joints and actions are those of the schema.

    A checkpoint without names of joints takes those of the demonstrations.
    """
    known = policy.schema
    if known == numbered_schema(policy.config, ASSUMED_RATE):
        logging.getLogger(__name__).warning(
            "init: the checkpoint does not name its joints; they are taken to be "
            f"{', '.join(schema.state_names)} -> {', '.join(schema.action_names)}, as in the "
            "demonstrations"
        )
        policy.config.check_schema(schema)
        return
    before, now = known.to_dict(), schema.to_dict()
    problems = [
        f"{field}: {before[field]} in the checkpoint, {now[field]} in the demonstrations"
        for field in before
        if field not in ("rate", "environment", "tasks") and before[field] != now[field]
    ]
    if problems:
        raise UserError(
            f"init: the demonstrations are of another robot: {'; '.join(problems)}. Choose cameras "
            "with data.cameras=[...]; name the joints with data.schema=, or with source.schema= "
            "those of a checkpoint of other software"
        )
    if known.rate != schema.rate:
        logging.getLogger(__name__).warning(
            f"init: the checkpoint acts at {known.rate:g} steps per second, the demonstrations at "
            f"{schema.rate:g}"
        )


def keep_normalisation(before: Statistics, now: Statistics) -> Statistics:
    """Combine the old mean, deviation and floor, the range of both, new step count and kinds."""
    kept: dict[str, Any] = {"step_count": now.step_count, "action_kinds": now.action_kinds}
    for name in ("state", "action", "environment_state"):
        old, new = getattr(before, name), getattr(now, name)
        if old is not None and new is not None:
            # An imported policy's range may be unknown, NaN.
            low, high = np.fmin(old.min, new.min), np.fmax(old.max, new.max)
            kept[name] = old._replace(min=low, max=high)
    return before._replace(**kept)


def warn_of_far_values(before: Statistics, now: Statistics, schema: Schema) -> None:
    """Warn of joints and actions that become very large under the old normalisation."""
    for kind, old, new, names in (
        ("state", before.state, now.state, schema.state_names),
        ("action", before.action, now.action, schema.action_names),
    ):
        farthest = np.maximum(abs(new.min - old.mean), abs(new.max - old.mean)) / before.scale(old)
        for name, distance in zip(names, farthest, strict=True):
            if distance > FAR:
                logging.getLogger(__name__).warning(
                    f"init: {kind} {name} of the demonstrations is up to {distance:.0f} standard "
                    "deviations from what the checkpoint was trained on"
                )
