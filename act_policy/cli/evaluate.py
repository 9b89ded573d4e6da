"""Try a policy in simulation on initial states that no demonstration used, or on demonstrations.

    act-policy evaluate checkpoint=runs/button episodes=100 seed=1000
    act-policy evaluate checkpoint=runs/mine data.path=FOLDER mode=replay

Writes report.html (open it in a browser), evaluation.json (success rate, 95% interval, every
episode, baselines) and videos/ to the run, or to out=FOLDER. mode=replay needs no simulator: it
compares what the policy predicts with what was demonstrated, beside holding still and the nearest
demonstration, and writes to the run's replay/.
"""

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from act_policy.cli.entry import CONFIGS, load_yaml, make_settings, run_config
from act_policy.errors import UserError, check_choice


def main(config: Any) -> None:
    """Check the settings, evaluate, print the table."""
    from act_policy.checkpoints.locate import find_run
    from act_policy.checkpoints.open import open_policy
    from act_policy.checkpoints.source import Source
    from act_policy.evaluation.evaluate import EvaluationConfig

    settings = make_settings(EvaluationConfig, config)
    checkpoint = Path(config.checkpoint)
    run = find_run(checkpoint)
    check_choice("mode", config.mode, ("rollout", "replay"))
    own = None if run is None else run / "replay" if config.mode == "replay" else run
    if (out := config.out or own) is None:
        raise UserError(
            f"out: checkpoint={checkpoint} belongs to no run; say where with out=FOLDER"
        )
    refuse_settings_of_other_mode(config, [*asdict(settings), "baselines", "videos", "workers"])
    load = partial(open_policy, source=Source.from_config(config.source))
    if config.mode == "replay":
        evaluate_replay(config, checkpoint, run, Path(out), load)
    else:
        evaluate_rollouts(config, settings, checkpoint, run, Path(out), load)
    print(f"written: {Path(out) / 'evaluation.json'} and report.html beside it")


def refuse_settings_of_other_mode(config: Any, rollout_alone: list[str]) -> None:
    """Raise UserError for a setting that only the other mode reads, unless it has its default."""
    defaults = load_yaml(CONFIGS / "evaluate.yaml")
    if config.mode == "rollout":
        vain = [f"data.{name}" for name, value in config.data.items() if value is not None]
        says = "for mode=replay; demonstrations= is for mode=rollout"
    else:
        vain = [name for name in rollout_alone if config[name] != defaults[name]]
        says = "for mode=rollout; mode=replay executes nothing"
        if "episodes" in vain:
            says += ", and data.episodes chooses its episodes"
    if vain:
        raise UserError(f"{', '.join(vain)}: {says}")


def evaluate_rollouts(
    config: Any, settings: Any, checkpoint: Path, run: Path | None, out: Path, load: Any
) -> None:
    """Evaluate in simulation and print the table."""
    from rich.console import Console

    from act_policy.evaluation.evaluate import evaluate
    from act_policy.evaluation.open_loop.run_data import score_held_out
    from act_policy.evaluation.results import build_success_table, list_warnings
    from act_policy.evaluation.rollouts.demonstrations import find_demonstrations
    from act_policy.evaluation.rollouts.seams import Motion, describe_motion
    from act_policy.evaluation.sections.rollout_report import Background
    from act_policy.execution import Execution
    from act_policy.sim.rendering import choose_gl_backend

    choose_gl_backend()  # once, here: the worker processes inherit it
    trained_with = run_config(run)
    report = evaluate(
        checkpoint,
        out,
        settings,
        find_demonstrations(trained_with, config.demonstrations),
        baselines=config.baselines,
        videos=config.videos,
        workers=None if config.workers == "auto" else config.workers,
        background=Background(
            None if run is None else run / "metrics.csv",
            lambda policy: score_held_out(policy, trained_with, config.demonstrations),
        ),
        load=load,
    )
    used = report["settings"]
    title = (
        f"{report['environment']}, seeds from {used['seed']}, at most {used['max_steps']} steps, "
        f"{used['quality']} images"
    )
    if used["delay"]:
        title += f", answers late by {used['delay']} steps"
    Console().print(build_success_table(title, {"policy": report, **report["baselines"]}))
    execution = Execution.from_dict(report["execution"])
    print(f"executed: {execution}" + f" ({execution.reason})" * bool(execution.reason))
    if motion := describe_motion(Motion(**report["motion"]), report["rate"]):
        print(motion)
    for warning in list_warnings(report):
        print(warning)


def evaluate_replay(config: Any, checkpoint: Path, run: Path | None, out: Path, load: Any) -> None:
    """Evaluate open loop on demonstrations and print the table."""
    from rich.console import Console

    from act_policy.data.inspection.tables import unused_lines
    from act_policy.data.selection.demonstrations import RunReading
    from act_policy.evaluation.open_loop.run_data import Scored, open_run_data, scored_data
    from act_policy.evaluation.replay import replay
    from act_policy.evaluation.results import build_error_table

    if run is None and config.demonstrations is not None:
        raise UserError(
            f"demonstrations=: checkpoint={checkpoint} belongs to no run whose data they "
            "could be; give data.path= for those to score"
        )
    trained_with = run_config(run)
    own = open_run_data(trained_with, config.demonstrations)
    # another folder is read, cropped and selected from as the run's own, unless said otherwise
    trained = RunReading.from_config(trained_with)
    said = {
        k: config.data[k]
        for k in ("schema", "features", "jpeg_order")
        if config.data[k] is not None
    }
    reading = replace(trained, reader=replace(trained.reader, **said))

    def find(policy: Any) -> Scored:
        path, episodes = config.data.path, config.data.episodes
        scored = scored_data(policy.schema, path, episodes, reading, own)
        for line in unused_lines(scored.dataset):
            print(line)
        return scored

    report = replay(
        checkpoint,
        out,
        find,
        chunks=config.data.chunks,
        metrics=None if run is None else run / "metrics.csv",
        load=load,
    )
    Console().print(build_error_table(report))
