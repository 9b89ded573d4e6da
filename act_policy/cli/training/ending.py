"""The end of a planned training: how good the policy is, what to try next, how to use it."""

import shlex
from pathlib import Path

from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.errors import UserError
from act_policy.evaluation.open_loop.baselines import Pool
from act_policy.evaluation.open_loop.outcome import Course, advise, tell_error
from act_policy.evaluation.open_loop.score import OpenLoop, score_open_loop
from act_policy.evaluation.results import build_error_table
from act_policy.evaluation.sections.chunk_sections import show_errors
from act_policy.model.policy import ACTPolicy
from act_policy.report.learning_curves import draw_learning_curves, read_metrics
from act_policy.report.page import render_page, write_page
from act_policy.report.pieces import format_count
from act_policy.training.run.run_folder import METRICS_FILE, REPORT_FILE

CHUNKS = 200
"""Predicted to measure the error."""


def conclude(folder: Path, data: DemonstrationDataModule) -> None:
    """Measure the best policy of a run on what it held out; print it and add it to the page."""
    from rich.console import Console

    policy = ACTPolicy.load(folder)
    run = shlex.quote(_shorten(folder))
    rows = read_metrics(folder / METRICS_FILE)
    result = _score(policy, data)
    lines = ["how good: nothing tells, since no demonstration was held out"]
    if result is not None:
        Console().print(build_error_table(result.to_dict()))
        lines = [tell_error(result), advise(result, Course.of(rows), run)]
    lines.append(_how_to_use(policy, run))
    page = render_page(
        "training",
        f"Training of {folder.name}",
        curves=draw_learning_curves(rows, policy.schema),
        outcome=lines,
        open_loop=None if result is None else show_errors(result),
    )
    write_page(folder / REPORT_FILE, page)
    print("\n".join(lines))


def _score(policy: ACTPolicy, data: DemonstrationDataModule) -> OpenLoop | None:
    """Score the policy on the held-out episodes; None where there are none to read."""
    held_out, trained = data.held_out_episodes.tolist(), data.train_episodes.tolist()
    if not held_out:
        return None
    says = f"{format_count(len(held_out), 'demonstration')} held out of training"
    count = format_count(len(trained), "demonstration")
    pool = Pool(data.dataset, trained, f"the {count} that the policy was trained on")
    try:
        return score_open_loop(policy, data.dataset, held_out, pool, CHUNKS, says)
    except UserError as error:  # a frame that is skipped; the training is done
        print(f"the held-out error could not be measured: {error}")
        return None


def _how_to_use(policy: ACTPolicy, run: str) -> str:
    export = f"act-policy export checkpoint={run} out={run}/export"
    if policy.schema.environment:
        return f"to use it: act-policy evaluate checkpoint={run} episodes=100 seed=1000; {export}"
    check = f"act-policy robot check --policy {run}/export/policy.onnx --robot my_robot:make"
    if policy.schema.chooses_task:
        check += f" --task {policy.schema.tasks[0]!r}"
    return f"on the robot: {export} && {check}"


def _shorten(folder: Path) -> str:
    """Name a folder from where the user is, if it is below."""
    here = Path.cwd()
    return f"{folder.relative_to(here) if folder.is_relative_to(here) else folder}"
