"""Let a policy move the arm until the operator ends it."""

import argparse
import sys
from contextlib import ExitStack
from functools import partial
from typing import IO

from act_policy.control.commands.check import check
from act_policy.control.commands.deployment import Deployment, open_device, open_log
from act_policy.control.commands.recover import print_recovered
from act_policy.control.events import Event, EventLog
from act_policy.control.loop import ControlLoop, run
from act_policy.control.recording.recording import EpisodeRecorder
from act_policy.control.robots.contract import Contract
from act_policy.control.robots.robot import load_hook
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.errors import UserError

KEYS = "enter: go, space or any other key: stop, t: take over, q: end"


def run_command(deployment: Deployment, options: argparse.Namespace) -> int:
    """Check, run, record and print a summary; return 1 if the run ended while holding.

    Raises:
        UserError: the check found a problem, or an option cannot be used.
    """
    if problems := check(deployment, 1.0):
        raise UserError(f"not started: {problems[0]}")
    with ExitStack() as stack:
        log = stack.enter_context(open_log(options.log)) if options.log else None
        events = EventLog(partial(_report, log))
        recorder = _open_recorder(deployment.contract, options) if options.record else None
        release = load_hook(options.release, "release") if options.release else None
        operator = OperatorInput(load_hook(options.stop, "stop") if options.stop else None)
        loop = ControlLoop(
            deployment.robot,
            deployment.contract,
            deployment.executor(),
            events,
            recorder,
            stack.enter_context(open_device(options.operator)),
            partial(release, deployment.robot) if release else None,
        )
        with operator.listening():
            print(f"ready; {KEYS}", flush=True)
            punctuality = run(loop, operator, options.seconds)
        episodes = [] if recorder is None else recorder.write()  # a terminal may be gone by now
        print(f"ended by {operator.ended or 'the time limit'}; {punctuality}")
        for kind, count in sorted(events.counts.items()):
            print(f"  {kind}: {count}")
        for path in episodes:
            print(f"recorded {path}")
        if (reason := loop.supervisor.reason) in ("", "the run ended"):
            return 0
        print(f"ended while holding: {reason}", file=sys.stderr)
        return 1


def _report(log: IO[str] | None, event: Event) -> None:
    if log is not None:
        log.write(event.to_json() + "\n")
    print(f"{event.kind}: {event.detail}", flush=True)


def _open_recorder(contract: Contract, options: argparse.Namespace) -> EpisodeRecorder:
    schema = contract.schema
    if contract.rate < schema.rate:
        raise UserError(
            f"record: timing.motor_rate={contract.rate} is below the policy's {schema.rate}, so "
            "the run lacks steps of a demonstration; leave record or motor_rate out"
        )
    about = {"policy": options.policy, "robot": options.robot}
    recorder = EpisodeRecorder(options.record, schema, about)
    print_recovered(recorder.recovered)
    return recorder
