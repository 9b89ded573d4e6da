"""Commands on a robot, `python -m act_policy.control`, without torch and Hydra."""

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from act_policy.control.chunks.asynchronous import max_action_age
from act_policy.control.commands.check import check
from act_policy.control.commands.deployment import Deployment, deployed, operator_device
from act_policy.control.commands.shadow import shadow
from act_policy.control.events import Event, EventLog
from act_policy.control.loop import ControlLoop, run
from act_policy.control.recording.recording import EpisodeRecorder, Recorded, recover
from act_policy.control.robots.robot import load_hook
from act_policy.control.safety.operator_input import OperatorInput
from act_policy.control.safety.supervisor import Supervisor
from act_policy.errors import UserError

KEYS = "enter: go, space or any other key: stop, t: take over, q: end"


def main(
    arguments: Sequence[str] | None = None, program: str = "python -m act_policy.control"
) -> int:
    """Run one command; return 0, 1 if a run ended while holding, 2 for what the user can mend."""
    options = _parser(program).parse_args(arguments)
    try:
        if options.command is _recover:
            recovered: int = _recover(options)
            return recovered
        with deployed(options.policy, options.robot, options.config) as deployment:
            code: int = options.command(deployment, options)
            return code
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _check(deployment: Deployment, options: argparse.Namespace) -> int:
    return 2 if _checked(deployment, options.seconds or 2.0) else 0


def _checked(deployment: Deployment, seconds: float) -> list[str]:
    """Check, print, and return the problems."""
    checked = check(deployment, seconds)
    print("\n".join(checked.lines))
    for problem in checked.problems:
        print(f"problem   {problem}")
    print("nothing was sent; " + ("not ready" if checked.problems else "ready"), flush=True)
    return checked.problems


def _shadow(deployment: Deployment, options: argparse.Namespace) -> int:
    operator = OperatorInput()
    path = Path(options.log or "shadow.jsonl")
    try:
        log = path.open("w", encoding="utf-8")
    except OSError as error:
        raise UserError(f"log {path}: cannot be written ({error.strerror})") from None
    with log, operator_device(options.operator) as device, operator.listening():
        print("shadow: nothing is sent; q ends", flush=True)
        report = shadow(deployment, operator, log, options.seconds, device)
    against = "the operator's device" if options.operator else "where the arm was a step later"
    print(f"{report.steps} steps compared with {against}, logged in {path}; mean distance:")
    for i, name in enumerate(deployment.space.names):
        print(f"  {name}: {report.difference[i]:.4g} {deployment.space.units[i]}")
    for fault in report.faults.values():
        print(f"would have been a fault in {fault.steps} steps: {fault.first}")
    return 0


def _run(deployment: Deployment, options: argparse.Namespace) -> int:
    config, schema = deployment.config, deployment.contract.schema
    rate = config.timing.motor_rate or schema.rate
    if problems := _checked(deployment, 1.0):
        raise UserError(f"not started: {problems[0]}")
    with ExitStack() as stack:
        log = None
        if options.log:
            try:
                file = Path(options.log).open("w", encoding="utf-8", buffering=1)  # noqa: SIM115
                log = stack.enter_context(file)
            except OSError as error:
                raise UserError(f"log {options.log}: {error.strerror}") from None

        def tell(event: Event) -> None:
            if log is not None:
                log.write(event.to_json() + "\n")
            print(f"{event.kind}: {event.detail}", flush=True)

        events = EventLog(tell)
        release, robot = None, deployment.robot
        if options.release:
            hook = load_hook(options.release, "release")
            release = lambda: hook(robot)  # noqa: E731
        recorder = None
        if options.record:
            if rate < schema.rate:
                raise UserError(
                    f"record: timing.motor_rate={rate} is below the policy's {schema.rate}, so the "
                    "run has not the steps of a demonstration; leave record or motor_rate out"
                )
            recorder = EpisodeRecorder(
                options.record, schema, {"policy": options.policy, "robot": options.robot}
            )
            _tell_recovered(recorder.recovered)
        supervisor = Supervisor(
            deployment.space,
            config.safety,
            events,
            1 / rate,
            max_action_age(deployment.inference, config),
            release,
        )
        operator = OperatorInput(load_hook(options.stop, "stop") if options.stop else None)
        device = stack.enter_context(operator_device(options.operator))
        loop = ControlLoop(
            robot,
            deployment.contract,
            deployment.executor(),
            supervisor,
            deployment.watch(),
            deployment.shown,
            config,
            events,
            recorder,
            device,
        )
        with operator.listening():
            print(f"ready; {KEYS}", flush=True)
            run(loop, operator, options.seconds)
        episodes = [] if recorder is None else recorder.write()  # a terminal may be gone by now
        print(f"ended by {operator.ended or 'the time limit'}; {loop.deadlines.punctuality()}")
        for kind, count in sorted(events.counts.items()):
            print(f"  {kind}: {count}")
        for path in episodes:
            print(f"recorded {path}")
        ended_well = supervisor.reason in ("", "the run ended")
        if not ended_well:
            print(f"ended while holding: {supervisor.reason}", file=sys.stderr)
        return 0 if ended_well else 1


def _recover(options: argparse.Namespace) -> int:
    recovered = recover(options.folder)
    _tell_recovered(recovered)
    if not recovered:
        print(f"{options.folder}: nothing to recover")
    return 0


def _tell_recovered(recovered: Sequence[Recorded]) -> None:
    for path, steps in recovered:
        print(f"recovered {path}: {steps} steps of a run that was killed", flush=True)


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Run a policy on a robot: docs/robot.md."
    )
    commands = parser.add_subparsers(required=True, metavar="check | shadow | run | recover")
    for name, command, sentence in (
        ("check", _check, "look at robot and policy together; nothing moves"),
        ("shadow", _shadow, "predict beside an operator and log both; nothing is sent"),
        ("run", _run, f"let the policy move the arm ({KEYS})"),
    ):
        sub = commands.add_parser(name, help=sentence, description=sentence)
        sub.set_defaults(command=command)
        sub.add_argument("--policy", required=True, help="FILE.onnx or ws://HOST:PORT")
        sub.add_argument(
            "--robot",
            required=True,
            help="MODULE:FUNCTION that takes the policy's schema and returns a robot, one of "
            "LeRobot's too; or `simulated`",
        )
        sub.add_argument(
            "--config", "--settings", help="limits, names and timing, a .toml or .json file"
        )
        sub.add_argument("--seconds", type=float, help="end after so many")
        if name != "check":
            sub.add_argument("--operator", help="MODULE:FUNCTION of the device to take over with")
            sub.add_argument("--log", help="file for a line of JSON a step (shadow) or event (run)")
        if name == "run":
            sub.add_argument("--record", help="folder to keep the run in as demonstrations")
            sub.add_argument("--stop", help="MODULE:FUNCTION, asked at every tick; True stops")
            sub.add_argument(
                "--release", help="MODULE:FUNCTION of the robot, called after safety.hold_time"
            )
    sentence = "make episodes of what a killed run recorded (the next run does it too)"
    sub = commands.add_parser("recover", help=sentence, description=sentence)
    sub.set_defaults(command=_recover)
    sub.add_argument("folder", help="of the recordings, which was given to --record")
    return parser


if __name__ == "__main__":
    sys.exit(main())
