"""The command line of a robot, without torch and Hydra."""

import argparse
import sys
from collections.abc import Sequence

from act_policy.control.commands.check import check
from act_policy.control.commands.deployment import deploy
from act_policy.control.commands.recover import recover_command
from act_policy.control.commands.run import KEYS, run_command
from act_policy.control.commands.shadow import shadow_command
from act_policy.errors import UserError


def main(
    arguments: Sequence[str] | None = None, program: str = "python -m act_policy.control"
) -> int:
    """Run one command; return 0, 1 if a run ended while holding, 2 for an error of the user's."""
    options = _parser(program).parse_args(arguments)
    try:
        if options.command == "recover":
            return recover_command(options.folder)
        with deploy(options.policy, options.robot, options.config) as deployment:
            if options.command == "check":
                return 2 if check(deployment, options.seconds or 2.0) else 0
            if options.command == "shadow":
                return shadow_command(deployment, options)
            return run_command(deployment, options)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _parser(program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program, description="Run a policy on a robot: docs/robot.md."
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="check | shadow | run | recover"
    )
    for name, sentence in (
        ("check", "look at robot and policy together; nothing moves"),
        ("shadow", "predict beside an operator and log both; nothing is sent"),
        ("run", f"let the policy move the arm ({KEYS})"),
    ):
        sub = commands.add_parser(name, help=sentence, description=sentence)
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
        sub.add_argument("--seconds", type=float, help="end after this many seconds")
        if name != "check":
            sub.add_argument("--operator", help="MODULE:FUNCTION of the device to take over with")
            sub.add_argument(
                "--log", help="file for a line of JSON per step (shadow) or event (run)"
            )
        if name == "run":
            sub.add_argument("--record", help="folder to keep the run in as demonstrations")
            sub.add_argument("--stop", help="MODULE:FUNCTION, asked at every tick; True stops")
            sub.add_argument(
                "--release", help="MODULE:FUNCTION of the robot, called after safety.hold_time"
            )
    sentence = "make episodes of what a killed run recorded (the next run does it too)"
    sub = commands.add_parser("recover", help=sentence, description=sentence)
    sub.add_argument("folder", help="the folder of recordings that was given to --record")
    return parser
