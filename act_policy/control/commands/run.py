"""Let a policy move the arm until the operator ends it."""

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial

import numpy as np

from act_policy.control.commands.check import START_CHECK_TIME, check
from act_policy.control.commands.deployment import Deployment, open_device
from act_policy.control.commands.lines import Console, LineWriter, LogFile
from act_policy.control.commands.recover import finish_lerobot, say_recorded
from act_policy.control.events import Event, EventLog
from act_policy.control.loop import ControlLoop, run
from act_policy.control.recording import lerobot
from act_policy.control.recording.recording import EpisodeRecorder
from act_policy.control.robots.robot import load_hook
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
    if problems := check(deployment, START_CHECK_TIME):
        raise UserError(f"not started: {problems[0]}")
    say = deployment.say
    with ExitStack() as stack:
        log = stack.enter_context(LogFile(options.log, console.complain)) if options.log else None
        events = EventLog(partial(tell, deployment, log))
        recorder = _open_recorder(deployment, options, stack) if options.record else None
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


def finish_recording(options: argparse.Namespace, say: Callable[[str], None]) -> None:
    """Write a recorded run as a LeRobotDataset, if it is to be one; nothing moves any more.

    Raises:
        UserError: the disk is full; `recover` goes on.
    """
    if options.record and options.record_format == "lerobot":
        say(
            f"writing {options.record} as a LeRobotDataset; if it is interrupted, "
            f"`python -m act_policy.control recover {options.record}` goes on"
        )
        finish_lerobot(options.record, say)


def tell(deployment: Deployment, log: LineWriter | None, event: Event) -> None:
    """Pass an event on to a person, a log and a page."""
    if log is not None:
        log.add(event.to_json())
    deployment.say(f"{event.kind}: {event.detail}")
    if deployment.board is not None:
        deployment.board.add_event(event.kind, event.detail)


def _open_recorder(
    deployment: Deployment, options: argparse.Namespace, stack: ExitStack
) -> EpisodeRecorder:
    contract, schema = deployment.contract, deployment.contract.schema
    if contract.rate < schema.rate:
        raise UserError(
            f"record: timing.motor_rate={contract.rate} is below the policy's {schema.rate}, so "
            "the run lacks steps of a demonstration; leave record or motor_rate out"
        )
    about = {"policy": options.policy, "robot": options.robot}
    if options.own_size:
        taken = contract.frames(deployment.reader().read_patiently())
        cameras = [Camera(name, *np.shape(image)[:2]) for name, image in taken.items()]
        schema = replace(schema, cameras=tuple(cameras))
    folder = options.record
    if options.record_format == "lerobot":
        folder = stack.enter_context(lerobot.begin(folder))
    elif lerobot.is_unfinished(folder):
        raise UserError(
            f"record {folder}: is to be a LeRobotDataset, and is not finished; run `python -m "
            f"act_policy.control recover {folder}`, and record into another folder"
        )
    instruction = options.task or (schema.tasks[0] if len(schema.tasks) == 1 else "")
    recorder = EpisodeRecorder(folder, schema, about, instruction, options.own_size)
    say_recorded(recorder.recovered, "recovered", deployment.say)
    return recorder
