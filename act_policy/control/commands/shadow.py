"""Predict beside an operator who moves the arm, and log both.

The operator moves an arm that was let go, or one that follows their device by itself; nothing is
sent then. Or their device drives the arm through the loop, within the limits (`LedExecutor`).
"""

import argparse
import json
import time
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from act_policy.control.chunks.asynchronous import Proposal
from act_policy.control.chunks.policy import PolicyError
from act_policy.control.commands.check import START_CHECK_TIME, check
from act_policy.control.commands.deployment import Deployment, open_device
from act_policy.control.commands.lines import Console, LogFile
from act_policy.control.commands.run import KEYS, tell
from act_policy.control.events import EventLog
from act_policy.control.loop import ControlLoop, OperatorDevice, run
from act_policy.control.pacing import Pacer, RateWatch
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import call_owner
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.errors import UserError
from act_policy.types import Observation


class ShadowReport(NamedTuple):
    """How far the policy would have been from the operator.

    steps: number of steps that were compared.
    difference: mean distance (a,), NaN where there was nothing to compare.
    faults: what would have been faults, kind -> in how many steps, and the first one in words.
    """

    steps: int
    difference: np.ndarray
    faults: dict[str, tuple[int, str]]


class Comparison:
    """Collects, step by step, what the policy proposed and what the operator did."""

    def __init__(self, contract: Contract, log: LogFile):
        self._contract, self._log = contract, log
        size = contract.schema.action_size
        self._total, self._compared, self._steps = np.zeros(size), np.zeros(size), 0
        self._faults: dict[str, tuple[int, str]] = {}

    def fault(self, kind: str, reason: str) -> None:
        """Count what would have been a fault."""
        steps, first = self._faults.get(kind, (0, reason))
        self._faults[kind] = steps + 1, first

    def add(self, proposed: np.ndarray | None, done: np.ndarray) -> None:
        """Compare a proposal with what the operator did, both (a,)."""
        if proposed is None:
            return
        away = np.abs(self._contract.space.difference(proposed, done))
        self._total += np.nan_to_num(away)
        self._compared += np.isfinite(away)
        self._steps += 1

    def write(
        self,
        now: float,
        state: np.ndarray,
        proposal: Proposal | None,
        operator: np.ndarray | None,
        fault: str | None,
    ) -> None:
        """Log a step as a line of JSON."""
        contract = self._contract
        line: dict[str, Any] = {
            "time": now,
            "state": dict(zip(contract.schema.state_names, state.tolist(), strict=True)),
            "proposed": None if proposal is None else contract.command(proposal.action),
            "age": None if proposal is None else proposal.age,
            "operator": None if operator is None else contract.command(operator),
            "fault": fault,
        }
        self._log.add(json.dumps(line))

    def report(self) -> ShadowReport:
        """Summarise the steps so far."""
        with np.errstate(invalid="ignore"):
            return ShadowReport(self._steps, self._total / self._compared, self._faults)


class LedExecutor:
    """Proposes what the operator's device says, and asks the policy beside it.

    An `Executor` of the loop, which lets the device's commands pass as it would the policy's:
    after a soft start, within the limits, and held at any fault.
    """

    def __init__(self, deployment: Deployment, device: OperatorDevice, comparison: Comparison):
        self._contract, self._device, self._comparison = deployment.contract, device, comparison
        self._policy = deployment.executor()
        self.max_age = self._policy.max_age
        self._state = np.full(deployment.contract.schema.state_size, np.nan)

    def reset(self) -> None:
        """Forget all chunks of the policy."""
        self._policy.reset()

    def observe(self, observation: Observation[np.ndarray], captured: float, now: float) -> None:
        """Show the policy what the robot sees."""
        self._state = observation.state
        self._policy.observe(observation, captured, now)

    def action(self, now: float) -> Proposal:
        """The device's command for now; raises PolicyError where it fails."""
        proposal, reason = None, None
        try:
            proposal = self._policy.action(now)
        except PolicyError as error:  # it does not move the arm
            reason = str(error)
            self._comparison.fault("policy", reason)
            self._policy.reset()
        try:
            done = _read_device(self._device, self._contract)
        except UserError as error:
            raise PolicyError(str(error)) from error
        self._comparison.add(None if proposal is None else proposal.action, done)
        self._comparison.write(now, self._state, proposal, done, reason)
        return Proposal(done, 0.0)


def shadow_command(deployment: Deployment, options: argparse.Namespace, console: Console) -> int:
    """Shadow the operator and print the mean distances; return 1 if a driven arm ended in a hold.

    Raises:
        UserError: options contradict each other, a hook fails, or a driven arm is not ready.
    """
    if options.drive and (options.operator is None or options.release is not None):
        raise UserError("drive: the operator's device drives the arm; give operator, not release")
    if options.drive and (problems := check(deployment, START_CHECK_TIME)):
        raise UserError(f"not started: {problems[0]}")
    release = deployment.load_release(options.release)
    operator, path, say = OperatorInput(), options.log or "shadow.jsonl", deployment.say
    with (
        LogFile(path, console.complain) as log,
        open_device(options.operator, deployment.signals) as device,
        operator.listening(),
    ):
        comparison = Comparison(deployment.contract, log)
        if release is not None:
            call_owner("the release hook", release)
            say("the arm was let go; support it")
        if options.drive:
            say(f"ready; the operator's device drives the arm; {KEYS}")
            held = _drive(deployment, operator, comparison, options.seconds, device)
        else:
            for known in deployment.contract.doubts:
                say(f"problem   {known.sentence}")
            deployment.describe(lambda: ("shadow: nothing is sent", ""))
            say("shadow: nothing is sent; q ends")
            held = ""
            shadow(deployment, operator, comparison, options.seconds, device)
    against = "the operator's device" if options.operator else "where the arm was a step later"
    report = comparison.report()
    say(f"{report.steps} steps compared with {against}, logged in {path}; mean distance:")
    space = deployment.contract.space
    for i, name in enumerate(space.names):
        say(f"  {name}: {report.difference[i]:.4g} {space.units[i]}")
    for steps, first in report.faults.values():
        say(f"would have been a fault in {steps} steps: {first}")
    if held:
        console.complain(f"ended while holding: {held}")
    return 1 if held else 0


def shadow(
    deployment: Deployment,
    operator: OperatorInput,
    comparison: Comparison,
    seconds: float | None,
    device: OperatorDevice | None,
) -> None:
    """Watch until the operator ends it; nothing is sent.

    The operator's action is that of their device, or else where the arm was one step later.
    """
    contract, space = deployment.contract, deployment.contract.space
    schema, executor, watch = contract.schema, deployment.executor(), deployment.watch()
    before: np.ndarray | None = None  # proposed at the step before
    reader = deployment.reader()
    pacer = Pacer(1 / schema.rate)
    turns = RateWatch(schema.rate, contract.config.safety.slowest_rate)
    while not operator.ended and (seconds is None or time.monotonic() - pacer.begun < seconds):
        began = time.monotonic()
        slow = turns.turn(began)
        reading = reader.read()
        now = time.monotonic()
        if reading is None:
            comparison.fault("failed read", reader.reason)
            before = None
            pacer.wait()
            continue
        observation = contract.observation(reading)
        proposal, reason = None, None
        doubt = deployment.doubt_captured(reading, began, now)
        faults = {fault.name: fault.sentence for fault in watch.faults(observation.images, now)}
        faults |= {"slow loop": slow} if slow else {}
        faults |= {"observation": doubt} if doubt else {}
        for kind, sentence in faults.items():
            reason = reason or sentence
            comparison.fault(kind, sentence)
        try:
            if not doubt:
                executor.observe(observation, reading.captured, now)
            proposal = executor.action(now)
        except PolicyError as error:
            reason = str(error)
            comparison.fault("policy", reason)
            executor.reset()
        proposed = None if proposal is None else proposal.action
        if device is None:
            done = None
            comparison.add(before, space.measure(observation.state))
        else:
            done = _read_device(device, contract)
            comparison.add(proposed, done)
        before = proposed
        comparison.write(now, observation.state, proposal, done, reason)
        pacer.wait()


def _drive(
    deployment: Deployment,
    operator: OperatorInput,
    comparison: Comparison,
    seconds: float | None,
    device: OperatorDevice,
) -> str:
    """Let the device drive the arm; return why it is held at the end, if a fault or a stop is."""
    executor = LedExecutor(deployment, device, comparison)
    events = EventLog(partial(tell, deployment, None))
    loop = ControlLoop(deployment.robot, deployment.contract, executor, events)
    loop.supervisor.by_policy = False  # a person may lead where the policy may not
    deployment.describe(lambda: (loop.supervisor.mode.value, loop.supervisor.reason))
    run(loop, operator, seconds)
    reason = loop.supervisor.reason
    return "" if reason == "the run ended" else reason


def _read_device(device: OperatorDevice, contract: Contract) -> np.ndarray:
    """The command of the operator's device (a,); UserError where it fails."""
    return contract.action(call_owner("the operator's device", device.get_action))
