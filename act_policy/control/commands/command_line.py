"""The command line of a robot, without torch and Hydra."""

import argparse
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

from act_policy.control.commands.check import check_command
from act_policy.control.commands.deployment import asking_for_packages, deploy
from act_policy.control.commands.ending import Ended, EndingSignals
from act_policy.control.commands.lines import Console
from act_policy.control.commands.recover import recover_command
from act_policy.control.commands.run import KEYS, finish_recording, run_command
from act_policy.control.commands.serve import add_options, serve_command
from act_policy.control.commands.shadow import shadow_command
from act_policy.errors import UserError
from act_policy.system.home import in_home


def main(
    arguments: Sequence[str] | None = None, program: str = "python -m act_policy.control"
) -> int:
    """Run one command.

    Returns:
        0; 1 if a run ended while holding; 2 if something was refused or failed; 128 and the
        signal's number if one ended it.
    """
    options = build_parser(program).parse_args(arguments)
    console, signals = Console(sys.stdout, sys.stderr), EndingSignals()
    with signals.raised():
        try:
            return _run(options, console, signals)
        except UserError as error:
            for each in _user_errors(error):
                console.complain(f"error: {each}")
            return 2
        except KeyboardInterrupt as ended:  # `Ended`, or a second signal during a loop
            return 128 + (ended.number if isinstance(ended, Ended) else signal.SIGINT)
        finally:
            with suppress(KeyboardInterrupt), signals.finishing():
                console.close()


def _run(options: argparse.Namespace, console: Console, signals: EndingSignals) -> int:
    if options.command == "recover":
        return recover_command(options.folder, options.lerobot, console.say)
    if options.command == "serve":
        return serve_command(options, console.say)
    policies = options.policy
    if options.command != "trials":
        if len(policies) > 1:
            raise UserError(f"policy: {options.command} takes one; trials compares several")
        options.policy = policies[0]
    with deploy(
        *(policies, options.robot, options.config, console.say, signals, options.page),
        task=options.task,
    ) as deployment:
        if options.command == "check":
            return check_command(deployment, options)
        if options.command == "shadow":
            return shadow_command(deployment, options, console)
        if options.command == "trials":
            with asking_for_packages():
                from act_policy.control.commands.trials import trials_command
            return trials_command(deployment, options, console)
        code = run_command(deployment, options, console)
    finish_recording(options, console.say)  # for minutes perhaps: the robot is let go before
    return code


def _user_errors(error: BaseException | None) -> list[UserError]:
    """The error, and before it those that it came on top of, as when disconnecting fails too."""
    found: list[UserError] = []
    while error is not None:
        if isinstance(error, UserError):
            found.insert(0, error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return found


def build_parser(program: str) -> argparse.ArgumentParser:
    """Describe every command and its options."""
    parser = argparse.ArgumentParser(
        prog=program, description="Run a policy on a robot: docs/robot.md."
    )
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="check | shadow | run | trials | recover | serve"
    )
    for name, sentence in (
        ("check", "look at robot and policy together; nothing moves"),
        ("shadow", "predict beside an operator who moves the arm, and log both"),
        ("run", f"let the policy move the arm ({KEYS})"),
        ("trials", "run episodes that a person judges, and count the successes"),
    ):
        sub = commands.add_parser(name, help=sentence, description=sentence)
        several = "; again for another one to compare with it blindly" * (name == "trials")
        sub.add_argument(
            "--policy",
            required=True,
            type=in_home,
            action="append",
            help=f"FILE.onnx or ws://HOST:PORT{several}",
        )
        sub.add_argument(
            "--robot",
            required=True,
            help="MODULE:FUNCTION that takes the policy's schema and returns a robot, one of "
            "LeRobot's too; or `simulated`",
        )
        sub.add_argument(
            "--config",
            "--settings",
            type=in_home,
            help="limits, names and timing, a .toml or .json file",
        )
        kept = "; kept with recorded episodes" * (name == "run")
        sub.add_argument(
            "--task", help=f"what to do, in words, for a policy that knows several tasks{kept}"
        )
        if name == "trials":
            sub.add_argument(
                "--episodes", type=int, default=20, help="to judge; of several policies, of each"
            )
            sub.add_argument(
                "--margin",
                type=float,
                default=0.05,
                help="a difference of success rates that does not matter; of several policies",
            )
            sub.add_argument(
                "--confidence",
                type=float,
                default=0.95,
                help="that all verdicts are right; of several policies",
            )
            sub.add_argument("--seconds", type=float, default=30.0, help="of an episode")
            sub.add_argument(
                "--out", required=True, type=in_home, help="folder of the results, to go on in too"
            )
        else:
            sub.add_argument("--seconds", type=float, help="end after this many seconds")
        sub.add_argument(
            "--page", type=int, metavar="PORT", help="show the robot to browsers of this machine"
        )
        if name != "trials":  # whose arm rests for as long as a person resets the scene
            sub.add_argument(
                "--release",
                help="MODULE:FUNCTION that lets the robot go limp, so that a person can move it"
                + ("; called after safety.hold_time" if name == "run" else ""),
            )
        if name == "check":
            sub.add_argument(
                "--watch", action="store_true", help="go on to print the joints as they move"
            )
        else:
            sub.add_argument(
                "--log", type=in_home, help="file of JSON, a line per event; per step for shadow"
            )
        if name in ("shadow", "run"):
            sub.add_argument("--operator", help="MODULE:FUNCTION of the device to take over with")
        if name == "shadow":
            sub.add_argument(
                "--drive",
                action="store_true",
                help="let the operator's device drive the arm, within the limits",
            )
        if name == "run":
            sub.add_argument(
                "--record", type=in_home, help="folder to keep the run in as demonstrations"
            )
            sub.add_argument(
                "--record-format",
                choices=("hdf5", "lerobot"),
                default="hdf5",
                help="a file per episode, or a LeRobotDataset v3.0 in a new folder",
            )
            sub.add_argument(
                "--own-size", action="store_true", help="keep images as the cameras took them"
            )
        if name in ("run", "trials"):
            sub.add_argument("--stop", help="MODULE:FUNCTION, asked at every tick; True stops")
    sentence = "serve a policy to robots on other machines"
    add_options(commands.add_parser("serve", help=sentence, description=sentence))
    sentence = "make episodes of what a killed run recorded"
    sub = commands.add_parser("recover", help=sentence, description=sentence)
    sub.add_argument(
        "folder", type=in_home, help="the folder of recordings that was given to --record"
    )
    sub.add_argument(
        "--lerobot",
        type=in_home,
        help="new folder for all its episodes as a LeRobotDataset v3.0",
    )
    return parser
