"""Predict beside an operator who moves the arm, and log both; nothing is ever sent."""

import argparse
import json
import time
from typing import IO, NamedTuple

import numpy as np

from act_policy.control.chunks.policy import PolicyError
from act_policy.control.commands.deployment import Deployment, open_device, open_log
from act_policy.control.loop import OperatorDevice
from act_policy.control.pacing import Pacer
from act_policy.control.robots.robot import read_robot
from act_policy.control.safety.operator_input import OperatorInput


class ShadowReport(NamedTuple):
    """How far the policy would have been from the operator.

    steps: number of steps that were compared.
    difference: mean distance (a,), NaN where there was nothing to compare.
    faults: what would have been faults, kind -> in how many steps, and the first one in words.
    """

    steps: int
    difference: np.ndarray
    faults: dict[str, tuple[int, str]]


def shadow_command(deployment: Deployment, options: argparse.Namespace) -> int:
    """Shadow the operator, print the mean distances and return 0."""
    operator = OperatorInput()
    path = options.log or "shadow.jsonl"
    with open_log(path) as log, open_device(options.operator) as device, operator.listening():
        print("shadow: nothing is sent; q ends", flush=True)
        report = shadow(deployment, operator, log, options.seconds, device)
    against = "the operator's device" if options.operator else "where the arm was a step later"
    print(f"{report.steps} steps compared with {against}, logged in {path}; mean distance:")
    space = deployment.contract.space
    for i, name in enumerate(space.names):
        print(f"  {name}: {report.difference[i]:.4g} {space.units[i]}")
    for steps, first in report.faults.values():
        print(f"would have been a fault in {steps} steps: {first}")
    return 0


def shadow(
    deployment: Deployment,
    operator: OperatorInput,
    log: IO[str],
    seconds: float | None,
    device: OperatorDevice | None,
) -> ShadowReport:
    """Run until the operator ends it; write a line of JSON per step.

    The operator's action is that of their device, or else where the arm was one step later.
    """
    contract, space = deployment.contract, deployment.contract.space
    schema, executor, watch = contract.schema, deployment.executor(), deployment.watch()
    total, compared = np.zeros(schema.action_size), np.zeros(schema.action_size)
    faults: dict[str, tuple[int, str]] = {}
    before: np.ndarray | None = None  # proposed at the step before
    steps = 0
    pacer = Pacer(1 / schema.rate)
    while not operator.ended and (seconds is None or time.monotonic() - pacer.begun < seconds):
        reading = read_robot(deployment.robot)
        now = time.monotonic()
        observation = contract.observation(reading)
        position = space.measure(observation.state)
        proposed, age = None, None
        fault = watch.fault(observation.images, now)
        kind, reason = (fault.name, fault.sentence) if fault else (None, None)
        try:
            executor.observe(observation, reading.captured, now)
            if (proposal := executor.action(now)) is not None:
                proposed, age = proposal.action, proposal.age
        except PolicyError as error:
            kind, reason = "policy", str(error)
            executor.reset()
        if kind and reason:
            steps_before, first = faults.get(kind, (0, reason))
            faults[kind] = steps_before + 1, first
        done = position if device is None else contract.action(device.get_action())
        judged = before if device is None else proposed
        if judged is not None:
            away = np.abs(space.difference(judged, done))
            total += np.nan_to_num(away)
            compared += np.isfinite(away)
            steps += 1
        before = proposed
        line = {
            "time": now,
            "state": dict(zip(schema.state_names, observation.state.tolist(), strict=True)),
            "proposed": None if proposed is None else contract.command(proposed),
            "age": age,
            "operator": None if device is None else contract.command(done),
            "fault": reason,
        }
        log.write(json.dumps(line) + "\n")
        pacer.wait()
    with np.errstate(invalid="ignore"):
        return ShadowReport(steps, total / compared, faults)
