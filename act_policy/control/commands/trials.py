"""Try a policy in episodes that a person judges, and keep the success rate and the films."""

import argparse
import hashlib
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.control.commands.check import check
from act_policy.control.commands.deployment import Deployment
from act_policy.control.commands.lines import Console, LogFile
from act_policy.control.commands.run import tell
from act_policy.control.events import EventLog
from act_policy.control.loop import ControlLoop, run
from act_policy.control.robots.observed import ObservedRobot
from act_policy.control.robots.robot import Reading, load_hook, read_robot
from act_policy.control.trials.film import FilmMaker
from act_policy.control.trials.report import FILMS, REPORT, write_report
from act_policy.control.trials.results import RESULTS, TrialResults, read_or_begin
from act_policy.control.trials.session import KEYS, TrialExecutor, TrialInput, TrialSession
from act_policy.errors import UserError, check_whole_number, writing
from act_policy.intervals import wilson_interval


def trials_command(deployment: Deployment, options: argparse.Namespace, console: Console) -> int:
    """Run the episodes that are missing, and return 0.

    The files are written after each episode, so that an interrupted series goes on by the same
    command.

    Raises:
        UserError: the check found a problem, or the folder holds other trials.
    """
    check_whole_number("episodes", options.episodes, 1)
    if not 0 < options.seconds < float("inf"):
        raise UserError(f"seconds={options.seconds}: expected a positive number")
    folder = Path(options.out)
    results = read_or_begin(folder, _describe_subject(options))
    if len(results.episodes) >= options.episodes:
        _finish(folder, results, deployment)
        return 0
    with writing(f"out {folder}"):
        (folder / FILMS).mkdir(parents=True, exist_ok=True)
        for left in (folder / FILMS).glob(".*"):  # by a killed command
            left.unlink()
    if problems := check(deployment, 1.0):
        raise UserError(f"not started: {problems[0]}")
    start = _find_start(deployment, results)
    try:
        _run_episodes(deployment, options, console, results, folder, start)
    finally:
        with deployment.signals.finishing():
            _finish(folder, results, deployment)
    return 0


def _run_episodes(
    deployment: Deployment,
    options: argparse.Namespace,
    console: Console,
    results: TrialResults,
    folder: Path,
    start: np.ndarray,
) -> None:
    contract, say = deployment.contract, deployment.say
    with ExitStack() as stack:
        film = stack.enter_context(closing(FilmMaker(folder / FILMS)))
        log = stack.enter_context(LogFile(options.log, console.complain)) if options.log else None

        def on_reading(reading: Reading) -> None:
            film.look(contract.frames(reading), reading.captured)

        executor = TrialExecutor(deployment.executor())
        operator = TrialInput(load_hook(options.stop, "stop") if options.stop else None)
        loop = ControlLoop(
            ObservedRobot(deployment.robot, on_reading),
            contract,
            executor,
            EventLog(partial(tell, deployment, log)),
        )
        say(f"ready; enter: go, space or any other key: stop, {KEYS}, q: end")
        session = TrialSession(
            loop, executor, operator, results, film, options.episodes, options.seconds, folder,
            start, say,
        )  # fmt: skip
        deployment.describe(session.describe)
        with operator.listening():
            punctuality = run(loop, operator, after_tick=session.after_tick)
        say(f"ended by {operator.ended}; {punctuality}")


def _finish(folder: Path, results: TrialResults, deployment: Deployment) -> None:
    """Write the report, and say what came out."""
    if not (n := len(results.episodes)):
        deployment.say("no episode was judged")
        return
    write_report(folder, results)
    low, high = wilson_interval(results.successes, n)
    deployment.say(
        f"{results.successes} of {n} successful: {results.successes / n:.1%} (95% interval "
        f"{low:.1%} to {high:.1%}), {results.discarded} discarded; see {folder / REPORT} and "
        f"{folder / RESULTS}"
    )


def _find_start(deployment: Deployment, results: TrialResults) -> np.ndarray:
    """The start pose of the series (a,): where the arm is as it begins."""
    space, names = deployment.contract.space, deployment.contract.schema.state_names
    if not results.start_pose:
        observation = deployment.contract.observation(read_robot(deployment.robot), look=False)
        results.start_pose = dict(zip(names, map(float, observation.state), strict=True))
    try:
        state = np.array([results.start_pose[name] for name in names])
    except KeyError as error:
        raise UserError(f"{RESULTS}: its start_pose has no {error}; choose another out") from None
    return np.where(space.positions, space.measure(state), 0.0)


def _describe_subject(options: argparse.Namespace) -> dict[str, Any]:
    """What is tried, and how; trials of anything else are not continued."""
    return {
        "policy": _identify(options.policy),
        "robot": options.robot,
        "config": _identify(options.config),
        "seconds": options.seconds,
    }


def _identify(path: str | None) -> dict[str, str] | None:
    """A file with its sha256; the address of a policy server has none."""
    if path is None or not Path(path).is_file():
        return None if path is None else {"path": path}
    with Path(path).open("rb") as file:
        return {"path": path, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
