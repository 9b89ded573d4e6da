"""Look at a robot and a policy together without moving anything, and report what does not fit."""

import argparse
import time
from collections.abc import Iterable, Mapping

import numpy as np

from act_policy.action_kinds import contradicts
from act_policy.control.action_space import LimitSources
from act_policy.control.chunks.policy import PolicyError, check_chunk
from act_policy.control.commands.deployment import Deployment
from act_policy.control.commands.watch import watch_joints
from act_policy.control.doubts import near_zero
from act_policy.control.pacing import Pacer
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import Reading
from act_policy.control.safety.blind_spots import find_blind_spots
from act_policy.control.safety.camera_watch import WARMTH_MARGIN, ImageFault
from act_policy.errors import UserError
from act_policy.images.levels import frame_levels
from act_policy.types import Observation

PREDICTIONS = 5
START_CHECK_TIME = 1.2
"""Seconds before a run: enough for the looks that tell how often a camera sends a new image."""


def check_command(deployment: Deployment, options: argparse.Namespace) -> int:
    """Check, and show the joints as they move if that is wanted; return 2 for a problem."""
    release = deployment.load_release(options.release)
    goes_on = options.watch or deployment.board is not None
    if release is not None and not goes_on:
        raise UserError("release: nothing moves in a check; give watch too, or leave release out")
    deployment.describe(lambda: ("check: nothing is sent", ""))
    problems = check(deployment, 2.0 if goes_on else options.seconds or 2.0)
    if goes_on:
        found = "; ".join(problems)
        deployment.describe(lambda: ("check: nothing is sent", found))
        watch_joints(deployment, options.seconds, release, options.watch)
    return 2 if problems else 0


def check(deployment: Deployment, seconds: float) -> list[str]:
    """Watch the robot for a while, and ask the policy a few times. Sends no command.

    The findings are printed line by line; the problems, which forbid a run, are returned as well.

    Raises:
        UserError: the robot lacks something that the policy needs; nothing else can be checked.
    """
    contract, schema = deployment.contract, deployment.contract.schema
    watch, looks = deployment.watch(seconds), ImageLooks()
    looked: list[float] = []
    first: float | None = None  # when the robot had answered for the first time
    doubt = ""  # the first, of when images were taken
    reader = deployment.reader()
    pacer = Pacer(1 / schema.rate)
    while first is None or len(looked) < 3 or looked[-1] - first < seconds:
        looked.append(time.monotonic())
        if (seen := reader.read()) is None:
            pacer.wait()
            continue
        reading, observation, now = seen, contract.observation(seen), time.monotonic()
        first = now if first is None else first
        doubt = doubt or deployment.doubt_captured(reading, looked[-1], now)
        looks.add(watch.faults(observation.images, now), watch.odd)
        pacer.wait()
    lines = _describe(contract, reading, observation)
    image_problems, image_warnings = looks.report()
    warnings = [*image_warnings, *_find_odd_colours(contract, observation)]
    warnings += find_blind_spots(
        schema.camera_names, contract.ranges.images, contract.config.safety
    )
    if reader.failures:
        warnings.append(f"{reader.failures} of {len(looked)} times {reader.reason}")
    if seconds < START_CHECK_TIME:
        warnings.append(f"{seconds:g} s are too short to notice every image that is old or frozen")
    if schema.chooses_task:
        lines.append(f"task      {contract.task!r}, one of {len(schema.tasks)}")
    lines += [f"warning   {warning}" for warning in warnings]
    problems = [doubt.sentence for doubt in contract.doubts]
    problems += [*image_problems, *([doubt] if doubt else [])]
    problems += contract.pose_outside(observation.state)
    try:
        rate = contract.check_rate(looked)
        lines.append(f"rate      {rate:.1f} observations per second; trained on {schema.rate:g}")
    except UserError as error:
        problems.append(str(error))
    try:
        lines.append(_describe_execution(deployment))
    except UserError as error:
        problems.append(str(error))
    problems += _ask(deployment, observation, lines)
    problems = list(dict.fromkeys(problems))
    verdict = "nothing was sent; " + ("not ready" if problems else "ready")
    deployment.say("\n".join([*lines, *(f"problem   {each}" for each in problems), verdict]))
    return problems


class ImageLooks:
    """Collects, look by look, what is wrong with the images of a robot that does not move."""

    def __init__(self) -> None:
        self._looks = 0
        self._faults: dict[str, ImageFault] = {}  # the first of each kind and camera
        self._odd: dict[str, list[ImageFault]] = {}  # camera -> what was unlike in each look

    def add(self, faults: Iterable[ImageFault], odd: Mapping[str, ImageFault]) -> None:
        """Note what would stop a moving arm, and what was unlike the demonstrations (by camera)."""
        self._looks += 1
        for fault in faults:
            self._faults.setdefault(fault.name, fault)
        for camera, fault in odd.items():
            self._odd.setdefault(camera, []).append(fault)

    def report(self) -> tuple[list[str], list[str]]:
        """The problems, and what was too rare to be one.

        Light, colours and exchanged cameras are a problem in half of the looks or more, whatever
        the time after which they stop a moving arm: here it can wait.
        """
        faults, warnings = dict(self._faults), []
        for _, odd in sorted(self._odd.items()):
            if any(fault.name in faults for fault in odd):
                continue
            if 2 * len(odd) >= self._looks:
                faults[odd[-1].name] = odd[-1]
            else:
                warnings.append(f"{odd[-1].sentence}; in {len(odd)} of {self._looks} looks")
        return [fault.sentence for _, fault in sorted(faults.items())], warnings


def _find_odd_colours(contract: Contract, observation: Observation[np.ndarray]) -> list[str]:
    """Describe cameras whose colours are not the demonstrated ones, and not exchanged either."""
    found = []
    for name, levels in contract.ranges.images.items():
        (low, high), warmth = levels.warmth, frame_levels(observation.images[name]).warmth
        if warmth < low - WARMTH_MARGIN or warmth > high + WARMTH_MARGIN:  # never where unknown
            found.append(
                f"camera {name}: red minus blue is {warmth:.2f}, demonstrated was {low:.2f} to "
                f"{high:.2f}; another lamp, or another camera?"
            )
    return found


def _describe(
    contract: Contract, reading: Reading, observation: Observation[np.ndarray]
) -> list[str]:
    schema, ranges, names = contract.schema, contract.ranges, contract.config.cameras
    lines = []
    for camera in schema.cameras:
        taken = reading.images[names.get(camera.name, camera.name)].shape
        mean, deviation, _ = frame_levels(observation.images[camera.name])
        levels = ranges.images.get(camera.name)
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
        low, high = ranges.state_low[i], ranges.state_high[i]
        known = f"demonstrated {low:.4g} to {high:.4g}"
        if not np.isfinite([low, high]).all():
            known = "the policy does not say what was demonstrated"
            unknown.append(name)
        lines.append(
            f"joint     {name}: {observation.state[i]:.4g} {_unit(schema.state_units[i])}; {known}"
        )
    if unknown:
        lines.append(
            f"warning   where {', '.join(unknown)} may be is not known: a start far from the "
            "demonstrations is not refused"
        )
    if near_zero(observation.state, ranges.state_low, ranges.state_high):
        lines.append(
            "warning   near 0, degrees, radians and -100 to 100 look alike: move the joints by "
            "hand and look whether they count as the demonstrations do"
        )
    return lines + _describe_limits(contract)


def _describe_limits(contract: Contract) -> list[str]:
    """Describe each dimension of the action, and warn where a limit is not the owner's."""
    lines, space = [], contract.space
    for i, name in enumerate(space.names):
        line = f"action    {name} ({space.kinds[i]}): {space.low[i]:.4g} to {space.high[i]:.4g} "
        line += _unit(space.units[i])
        if np.isfinite(space.max_speed[i]):
            line += f", at most {space.max_speed[i]:.4g} per second"
        if np.isfinite(space.max_step[i]):
            line += f", at most {space.max_step[i]:.4g} from the measured position"
        lines.append(f"{line}; limits from the {_describe_sources(space.sources[i])}")
    for name, kind, shown in zip(
        space.names, space.kinds, contract.ranges.action_kinds, strict=False
    ):
        if contradicts(kind, shown) and name in contract.config.joints:
            lines.append(
                f"warning   {name} is a {kind} by the file, its demonstrations show a {shown}"
            )
    sources = zip(space.names, space.sources, strict=True)
    if weak := [name for name, source in sources if source.demonstrated]:
        lines.append(
            f"warning   limits of {', '.join(weak)} are only what the demonstrations did; set "
            "real ones in a config file (docs/robot.md)"
        )
    return lines


def _describe_execution(deployment: Deployment) -> str:
    """Say how often the policy is asked; raises UserError where the config does not fit it."""
    executor, timing = deployment.executor(), deployment.contract.config.timing
    ensemble = executor.ensemble_coefficient
    line = f"timing    execute_steps {executor.execute_steps}"
    line += "" if ensemble is None else f", ensemble_coefficient {ensemble:g}"
    if timing.execute_steps is not None or timing.ensemble_coefficient is not None:
        return f"{line}; by the file"
    reason = deployment.inference.execution.reason
    return f"{line}; by the policy: {reason}" if reason else line


def _unit(unit: str) -> str:
    return unit or "(unit unknown)"


def _describe_sources(sources: LimitSources) -> str:
    parts = [f"file ({', '.join(sources.given)})"] if sources.given else []
    if sources.demonstrated:
        states = "' states, since the action is relative to them" if sources.relative else ""
        parts.append(f"demonstrations{states} ({', '.join(sources.demonstrated)})")
    return " and ".join(parts) or "file"


def _ask(
    deployment: Deployment, observation: Observation[np.ndarray], lines: list[str]
) -> list[str]:
    """Measure how long the policy takes: at most max_answer_time and half a chunk, or a problem."""
    inference, safety = deployment.inference, deployment.contract.config.safety
    took = []
    for _ in range(PREDICTIONS):
        asked = time.monotonic()
        inference.submit(observation, asked)
        try:
            answer = inference.wait(60.0)
            if answer is None:
                return ["the policy did not answer within 60 s"]
            if answer.chunk is None:
                return [answer.error]
            check_chunk(answer.chunk, inference)
        except PolicyError as error:
            return [str(error)]
        took.append(time.monotonic() - asked)
    horizon = inference.chunk_length / inference.schema.rate
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
