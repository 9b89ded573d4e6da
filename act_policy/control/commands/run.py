"""Let a policy move the arm until the operator ends it."""

import argparse
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from act_policy.control.commands.check import check
from act_policy.control.commands.deployment import Deployment, open_device
from act_policy.control.commands.lines import Console, LineWriter, LogFile
from act_policy.control.commands.recover import say_recorded
from act_policy.control.events import Event, EventLog
from act_policy.control.loop import ControlLoop, run
from act_policy.control.recording.recording import EpisodeRecorder
from act_policy.control.robots.robot import load_hook, read_robot
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.errors import UserError
from act_policy.types import Camera

KEYS = "enter: go, space or any other key: stop, p: park, t: take over, q: end"


def run_command(deployment: Deployment, options: argparse.Namespace, console: Console) -> int:
    """Check, run, record and print a summary; return 1 if the run ended while holding.

    Raises:
        UserError: the check found a problem, or an option cannot be used.
    """
    if options.release and deployment.contract.config.safety.hold_time is None:
        raise UserError(
            f"--release {options.release} is called after safety.hold_time, which the config does "
            "not give; add it, or leave --release out"
        )
    if problems := check(deployment, 1.0):
        raise UserError(f"not started: {problems[0]}")
    say = deployment.say
    with ExitStack() as stack:
        log = stack.enter_context(LogFile(options.log, console.complain)) if options.log else None
        events = EventLog(partial(tell, deployment, log))
        recorder = _open_recorder(deployment, options) if options.record else None
        operator = OperatorInput(load_hook(options.stop, "stop") if options.stop else None)
        loop = ControlLoop(
            deployment.robot,
            deployment.contract,
            deployment.executor(),
            events,
            recorder,
            stack.enter_context(open_device(options.operator, deployment.signals)),
            deployment.load_release(options.release),
        )
        deployment.describe(lambda: (loop.supervisor.mode.value, loop.supervisor.reason))
        with operator.listening():
            say(f"ready; {KEYS}")
            punctuality = run(loop, operator, options.seconds)
        episodes, failed = [], None
        try:
            with deployment.signals.finishing():
                episodes = [] if recorder is None else recorder.write()
        except UserError as error:  # a full disk: what was recorded stays in its journal
            failed = error
        say(f"ended by {operator.ended or 'the time limit'}; {punctuality}")
        for kind, count in sorted(events.counts.items()):
            say(f"  {kind}: {count}")
        say_recorded(episodes, "recorded", say)
        if failed is not None:
            raise failed
        if (reason := loop.supervisor.reason) in ("", "the run ended"):
            return 0
        console.complain(f"ended while holding: {reason}")
        return 1


def tell(deployment: Deployment, log: LineWriter | None, event: Event) -> None:
    """Pass an event on to a person, a log and a page."""
    if log is not None:
        log.add(event.to_json())
    deployment.say(f"{event.kind}: {event.detail}")
    if deployment.board is not None:
        deployment.board.add_event(event.kind, event.detail)


def _open_recorder(deployment: Deployment, options: argparse.Namespace) -> EpisodeRecorder:
    contract, schema = deployment.contract, deployment.contract.schema
    if contract.rate < schema.rate:
        raise UserError(
            f"record: timing.motor_rate={contract.rate} is below the policy's {schema.rate}, so "
            "the run lacks steps of a demonstration; leave record or motor_rate out"
        )
    about = {"policy": options.policy, "robot": options.robot}
    if options.own_size:
        taken = contract.frames(read_robot(deployment.robot))
        cameras = [Camera(name, *np.shape(image)[:2]) for name, image in taken.items()]
        schema = replace(schema, cameras=tuple(cameras))
    recorder = EpisodeRecorder(options.record, schema, about, options.task, options.own_size)
    say_recorded(recorder.recovered, "recovered", deployment.say)
    return recorder
