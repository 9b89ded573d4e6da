"""Look at a robot and a policy together without moving anything, and say what does not fit."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from act_policy.control.action_space import LimitSources
from act_policy.control.chunks.asynchronous import PolicyError
from act_policy.control.commands.deployment import Deployment
from act_policy.control.robots.robot import Reading, observed
from act_policy.control.safety.camera_watch import ImageFault
from act_policy.control.safety.supervisor import pose_outside
from act_policy.errors import UserError
from act_policy.images.levels import frame_levels
from act_policy.types import Observation

PREDICTIONS = 5


class Checked(NamedTuple):
    """What was found, line by line, and what stands in the way of running."""

    lines: list[str]
    problems: list[str]


def check(
    deployment: Deployment,
    seconds: float = 2.0,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Checked:
    """Watch the robot for a while, and ask the policy a few times. Sends no command.

    Raises:
        UserError: the robot has not what the policy needs, so that nothing else can be said.
    """
    contract, shown, schema = deployment.contract, deployment.shown, deployment.contract.schema
    watch = deployment.watch()
    captured: list[float] = []
    image_faults: dict[str, ImageFault] = {}  # the first of each kind and camera
    begun = due = clock()
    while len(captured) < 3 or clock() - begun < seconds:
        reading = observed(deployment.robot)
        observation = contract.observation(reading)
        captured.append(reading.captured)
        if fault := watch.fault(observation.images, clock()):
            image_faults.setdefault(fault.name, fault)
        due += 1 / schema.rate
        sleep(max(0.0, due - clock()))
    lines = _describe(deployment, reading, observation)
    problems = [fault.sentence for _, fault in sorted(image_faults.items())]
    problems += pose_outside(
        schema, shown, observation.state, deployment.config.safety.start_outside
    )
    try:
        rate = contract.check_rate(captured)
        lines.append(f"rate      {rate:.1f} observations a second; trained on {schema.rate:g}")
    except UserError as error:
        problems.append(str(error))
    problems += _ask(deployment, observation, lines, clock)
    return Checked(lines, problems)


def _describe(
    deployment: Deployment, reading: Reading, observation: Observation[np.ndarray]
) -> list[str]:
    schema, shown = deployment.contract.schema, deployment.shown
    names = deployment.config.cameras
    lines = []
    for camera in schema.cameras:
        taken = reading.images[names.get(camera.name, camera.name)].shape
        mean, deviation = frame_levels(observation.images[camera.name])
        levels = shown.images.get(camera.name)
        known = (
            f"demonstrated {levels.mean[0]:.2f} to {levels.mean[1]:.2f}"
            if levels
            else "the policy does not say what was demonstrated"
        )
        lines.append(
            f"camera    {camera.name}: {taken[0]}x{taken[1]}, used as {camera.height}x"
            f"{camera.width}; brightness {mean:.2f} ({known}), contrast {deviation:.2f}"
        )
    unknown = []
    for i, name in enumerate(schema.state_names):
        low, high = shown.state_low[i], shown.state_high[i]
        known = f"demonstrated {low:.4g} to {high:.4g}"
        if not np.isfinite([low, high]).all():
            known = "the policy does not say what was demonstrated"
            unknown.append(name)
        lines.append(
            f"joint     {name}: {observation.state[i]:.4g} {schema.state_units[i]}; {known}"
        )
    if unknown:
        lines.append(
            f"warning   where {', '.join(unknown)} may be is not known: a start far from the "
            "demonstrations is not refused"
        )
    return lines + limit_lines(deployment)


def limit_lines(deployment: Deployment) -> list[str]:
    """One line per dimension of the action, and a warning where a limit is not the owner's."""
    space = deployment.space
    lines = []
    for i, name in enumerate(space.names):
        line = f"action    {name} ({space.kinds[i]}): {space.low[i]:.4g} to {space.high[i]:.4g} "
        line += space.units[i]
        if np.isfinite(space.max_speed[i]):
            line += f", at most {space.max_speed[i]:.4g} a second"
        if np.isfinite(space.max_step[i]):
            line += f", at most {space.max_step[i]:.4g} from the measured position"
        lines.append(f"{line}; limits from the {_describe_sources(space.sources[i])}")
    sources = zip(space.names, space.sources, strict=True)
    if weak := [name for name, source in sources if source.demonstrated]:
        lines.append(
            f"warning   limits of {', '.join(weak)} are only what the demonstrations did; set "
            "real ones in a settings file (docs/robot.md)"
        )
    return lines


def _describe_sources(sources: LimitSources) -> str:
    parts = [f"file ({', '.join(sources.given)})"] if sources.given else []
    if sources.demonstrated:
        states = "' states, since the action is relative to them" if sources.relative else ""
        parts.append(f"demonstrations{states} ({', '.join(sources.demonstrated)})")
    return " and ".join(parts) or "file"


def _ask(
    deployment: Deployment,
    observation: Observation[np.ndarray],
    lines: list[str],
    clock: Callable[[], float],
) -> list[str]:
    """Measure how long the policy takes: less than max_answer_time and than half a chunk lasts."""
    inference, safety = deployment.inference, deployment.config.safety
    took = []
    for _ in range(PREDICTIONS):
        asked = clock()
        inference.submit(observation, asked)
        try:
            answer = inference.wait(60.0)
        except PolicyError as error:
            return [str(error)]
        if answer is None:
            return ["the policy did not answer within 60 s"]
        if answer.chunk is None:
            return [answer.error]
        if not np.isfinite(answer.chunk).all():
            return ["the policy predicts what is no finite number"]
        took.append(clock() - asked)
    schema = inference.schema
    horizon = inference.chunk_length / schema.rate
    lines.append(
        f"policy    answers in {np.median(took) * 1000:.0f} ms (worst of {PREDICTIONS} "
        f"{max(took) * 1000:.0f} ms); a chunk lasts {horizon:.2f} s"
    )
    if max(took[1:]) > min(safety.max_answer_time, horizon / 2):
        return [
            f"the policy takes {max(took[1:]):.2f} s to answer; max_answer_time is "
            f"{safety.max_answer_time} s, and half a chunk lasts {horizon / 2:.2f} s"
        ]
    return []
