"""Try a policy in episodes that a person judges, and keep the success rate and the films.

Several policies are compared: from the same initial states, blindly, until it is decided.
"""

import argparse
import hashlib
from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.control.commands.check import START_CHECK_TIME, check
from act_policy.control.commands.deployment import Deployment
from act_policy.control.commands.lines import Console, LogFile
from act_policy.control.commands.run import tell
from act_policy.control.events import EventLog
from act_policy.control.loop import ControlLoop, run
from act_policy.control.robots.observed import ObservedRobot
from act_policy.control.robots.robot import Reading, load_hook
from act_policy.control.trials.film import FilmMaker
from act_policy.control.trials.report import FILMS, REPORT, write_report
from act_policy.control.trials.results import RESULTS, TrialResults, read_or_begin
from act_policy.control.trials.session import (
    KEYS,
    STATE_KEY,
    TrialExecutor,
    TrialInput,
    TrialSession,
)
from act_policy.control.trials.turns import BlindTurns, Turns
from act_policy.errors import UserError, check_whole_number, writing
from act_policy.intervals import wilson_interval
from act_policy.judging.verdict import check_judging
from act_policy.report.pieces import format_count
from act_policy.report.verdicts import say_verdict

UNDECIDED = 3
"""Exit code of a comparison that cannot tell."""


def trials_command(deployment: Deployment, options: argparse.Namespace, console: Console) -> int:
    """Run the episodes that are missing, and return 0; 3 if a comparison ended undecided.

    The files are written after each episode, so that an interrupted series goes on by the same
    command.

    Raises:
        UserError: the check found a problem, or the folder holds other trials.
    """
    check_whole_number("episodes", options.episodes, 1)
    if not 0 < options.seconds < float("inf"):
        raise UserError(f"seconds={options.seconds}: expected a positive number")
    check_judging(options.margin, options.confidence)
    folder = Path(options.out)
    results = read_or_begin(folder, _describe_subject(options))
    turns = _make_turns(options, results)
    if turns.finished:
        return _finish(folder, results, turns, deployment)
    with writing(f"out {folder}"):
        (folder / FILMS).mkdir(parents=True, exist_ok=True)
        for left in (folder / FILMS).glob(".*"):  # by a killed command
            left.unlink()
    for each in deployment.each():
        if problems := check(each, START_CHECK_TIME):
            raise UserError(f"not started: {problems[0]}")
    start = _find_start(deployment, results)
    code = 0
    try:
        _run_episodes(deployment, options, console, results, turns, folder, start)
    finally:
        with deployment.signals.finishing():
            code = _finish(folder, results, turns, deployment)
    return code


def _make_turns(options: argparse.Namespace, results: TrialResults) -> Turns:
    if len(options.policy) == 1:
        return Turns(results, options.episodes)
    return BlindTurns(
        results, _name(options.policy), options.episodes, options.margin, options.confidence
    )


def _name(policies: Sequence[str]) -> list[str]:
    """Name policies by their files, or in full where those are alike."""
    stems = [Path(policy).stem if Path(policy).is_file() else policy for policy in policies]
    names = stems if len(set(stems)) == len(stems) else list(policies)
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UserError(f"policy: {', '.join(twice)} is there twice; compare different ones")
    return names


def _words_of(policies: Sequence[str]) -> list[str]:
    """List the words by which an error would name a policy, the longest first."""
    words = set()
    for policy in policies:
        words |= {policy, policy.partition("?")[0], Path(policy).name}
        words |= {policy.partition("://")[2].partition("/")[0]} - {""}
    return sorted(words, key=len, reverse=True)


def _run_episodes(
    deployment: Deployment,
    options: argparse.Namespace,
    console: Console,
    results: TrialResults,
    turns: Turns,
    folder: Path,
    start: np.ndarray,
) -> None:
    contract, say = deployment.contract, deployment.say
    several = isinstance(turns, BlindTurns)
    with ExitStack() as stack:
        film = stack.enter_context(closing(FilmMaker(folder / FILMS)))
        log = stack.enter_context(LogFile(options.log, console.complain)) if options.log else None

        def on_reading(reading: Reading) -> None:
            film.look(contract.frames(reading), reading.captured)

        hidden = _words_of(options.policy) if several else []
        executor = TrialExecutor([each.executor() for each in deployment.each()], hidden)
        stop = load_hook(options.stop, "stop") if options.stop else None
        operator = TrialInput(stop, compares=several)
        loop = ControlLoop(
            ObservedRobot(deployment.robot, on_reading),
            contract,
            executor,
            EventLog(partial(tell, deployment, log)),
        )
        keys = f"{KEYS}, {STATE_KEY}" if several else KEYS
        say(f"ready; enter: go, space or any other key: stop, {keys}, q: end")
        session = TrialSession(
            loop, executor, operator, results, film, turns, options.seconds, folder, start, say,
        )  # fmt: skip
        deployment.describe(session.describe)
        with operator.listening():
            punctuality = run(loop, operator, after_tick=session.after_tick)
        say(f"ended by {operator.ended}; {punctuality}")


def _finish(folder: Path, results: TrialResults, turns: Turns, deployment: Deployment) -> int:
    """Write the report, and say what came out; return the command's exit code."""
    if not (n := len(results.episodes)):
        deployment.say("no episode was judged")
        return 0
    if isinstance(turns, BlindTurns):
        return _finish_comparison(folder, results, turns, deployment)
    write_report(folder, results)
    low, high = wilson_interval(results.successes, n)
    deployment.say(
        f"{results.successes} of {n} successful: {results.successes / n:.1%} (95% interval "
        f"{low:.1%} to {high:.1%}), {results.discarded} discarded; see {folder / REPORT} and "
        f"{folder / RESULTS}"
    )
    return 0


def _finish_comparison(
    folder: Path, results: TrialResults, turns: BlindTurns, deployment: Deployment
) -> int:
    """Say which policy is better once the trials are over, and until then nothing."""
    say, where = deployment.say, f"see {folder / REPORT} and {folder / RESULTS}"
    if not turns.finished:
        write_report(folder, results)
        say(
            f"{format_count(len(results.episodes), 'episode')} judged; the same command goes on, "
            f"and says at the end which policy ran in which; {where}"
        )
        return 0
    comparison = turns.compare()
    results.write(folder, comparison)
    write_report(folder, results, turns)
    for policy in comparison["policies"]:
        low, high = policy["interval"]
        say(
            f"{policy['name']}: {policy['successes']} of {policy['episodes']} successful: "
            f"{policy['success_rate']:.1%} (95% interval {low:.1%} to {high:.1%})"
        )
    for verdict in comparison["verdicts"]:
        say(say_verdict(verdict, turns.margin))
    say(f"{results.discarded} discarded; {where}")
    return 0 if comparison["decided"] else UNDECIDED


def _find_start(deployment: Deployment, results: TrialResults) -> np.ndarray:
    """The start pose of the series (a,): where the arm is as it begins."""
    space, names = deployment.contract.space, deployment.contract.schema.state_names
    if not results.start_pose:
        reading = deployment.reader().read_patiently()
        observation = deployment.contract.observation(reading, look=False)
        results.start_pose = dict(zip(names, map(float, observation.state), strict=True))
    try:
        state = np.array([results.start_pose[name] for name in names])
    except KeyError as error:
        raise UserError(f"{RESULTS}: its start_pose has no {error}; choose another out") from None
    return np.where(space.positions, space.measure(state), 0.0)


def _describe_subject(options: argparse.Namespace) -> dict[str, Any]:
    """What is tried, and how; trials of anything else are not continued."""
    policies = [_identify(policy) for policy in options.policy]
    several = {
        "policy": policies,
        "margin": options.margin,
        "confidence": options.confidence,
    }
    return {
        **({"policy": policies[0]} if len(policies) == 1 else several),
        "robot": options.robot,
        "config": _identify(options.config),
        "seconds": options.seconds,
        **({} if options.task is None else {"task": options.task}),
    }


def _identify(path: str | None) -> dict[str, str] | None:
    """A file with its sha256; the address of a policy server has none."""
    if path is None or not Path(path).is_file():
        return None if path is None else {"path": path}
    with Path(path).open("rb") as file:
        return {"path": path, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
