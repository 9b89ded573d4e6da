"""Try a policy in simulation on initial states that no demonstration used, or on demonstrations.

    act-policy evaluate checkpoint=runs/button episodes=100 seed=1000
    act-policy evaluate checkpoint=runs/mine data.path=FOLDER mode=replay
    act-policy evaluate checkpoint=runs/button suite=robustness

Writes report.html (open it in a browser), evaluation.json (success rate, 95% interval, every
episode, baselines) and videos/ to the run, or to out=FOLDER. mode=replay needs no simulator: it
compares what the policy predicts with what was demonstrated, beside holding still and the nearest
demonstration, and writes to the run's replay/. suite=NAME tries the policy in every row of a suite
(configs/suite) from the same initial states, and writes suite.json and report.html to the run's
suites/NAME/; the same command continues an interrupted suite. simulator=NAME names one that is not
ours (configs/task/NAME.yaml, or a file), unless the demonstrations were recorded in it.
"""

from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from act_policy.cli.entry import CONFIGS, load_yaml, make_settings, plain, run_config
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
    suite = config.suite if "suite" in config else None
    if suite is not None and config.mode != "rollout":
        raise UserError(f"suite={suite.name} is rolled out; leave mode={config.mode} out")
    folder = f"suites/{suite.name}" if suite is not None else "."
    own = None if run is None else run / ("replay" if config.mode == "replay" else folder)
    if (out := config.out or own) is None:
        raise UserError(
            f"out: checkpoint={checkpoint} belongs to no run; say where with out=FOLDER"
        )
    refuse_settings_of_other_mode(config, [*asdict(settings), "baselines", "videos", "workers"])
    if suite is not None:
        refuse_settings_without_use(
            config, ["baselines", "videos"], "a suite has neither baselines nor videos"
        )
    load = partial(open_policy, source=Source.from_config(config.source))
    if config.mode == "replay":
        written = evaluate_replay(config, checkpoint, run, Path(out), load)
    elif suite is not None:
        written = evaluate_suite(config, settings, checkpoint, run, Path(out), load)
    else:
        written = evaluate_rollouts(config, settings, checkpoint, run, Path(out), load)
    print(f"written: {Path(out) / written} and report.html beside it")


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


def refuse_settings_without_use(config: Any, names: list[str], says: str) -> None:
    """Raise UserError for settings without effect that are not at their defaults."""
    defaults = load_yaml(CONFIGS / "evaluate.yaml")
    if vain := [name for name in names if config[name] != defaults[name]]:
        raise UserError(f"{', '.join(vain)}: {says}")


def evaluate_rollouts(
    config: Any, settings: Any, checkpoint: Path, run: Path | None, out: Path, load: Any
) -> str:
    """Evaluate in simulation and print the table; return the name of the file with the results."""
    from rich.console import Console

    from act_policy.evaluation.evaluate import evaluate
    from act_policy.evaluation.open_loop.run_data import score_held_out
    from act_policy.evaluation.results import build_success_table, list_warnings
    from act_policy.evaluation.rollouts.demonstrations import find_demonstrations
    from act_policy.evaluation.rollouts.run import build_environment
    from act_policy.evaluation.rollouts.seams import Motion, describe_motion
    from act_policy.evaluation.sections.rollout_report import Background

    trained_with = run_config(run)
    demonstrations = find_demonstrations(trained_with, config.demonstrations, config.instruction)
    simulator = prepare_simulator(config, demonstrations)
    report = evaluate(
        checkpoint,
        out,
        settings,
        demonstrations,
        baselines=config.baselines,
        videos=config.videos,
        workers=None if config.workers == "auto" else config.workers,
        background=Background(
            None if run is None else run / "metrics.csv",
            lambda policy: score_held_out(policy, trained_with, config.demonstrations),
        ),
        load=load,
        build=partial(build_environment, simulator=simulator),
        environment="" if simulator is None else simulator.environment,
    )
    used = report["settings"]
    title = f"{report['environment']}, " + f"{used['instruction']!r}, " * bool(used["instruction"])
    title += (
        f"seeds from {used['seed']}, at most {used['max_steps']} steps, {used['quality']} images"
    )
    if used["delay"]:
        title += f", answers late by {used['delay']} steps"
    Console().print(build_success_table(title, {"policy": report, **report["baselines"]}))
    print_execution(report)
    if motion := describe_motion(Motion(**report["motion"]), report["rate"]):
        print(motion)
    for warning in list_warnings(report):
        print(warning)
    return "evaluation.json"


def prepare_simulator(config: Any, demonstrations: Any) -> Any:
    """Find the description of a simulator that is not one of ours; else get ours ready to draw.

    It is given by simulator=, or kept with the demonstrations.
    """
    from act_policy.sim.described import SimulatorConfig
    from act_policy.sim.rendering import choose_gl_backend

    recorded = None if demonstrations is None else demonstrations.config.get("simulator")
    if config.simulator is not None:
        return read_simulator(str(config.simulator))
    if recorded is not None:
        return SimulatorConfig(**recorded)
    choose_gl_backend()  # once, here: the worker processes inherit it
    return None


def read_simulator(name: str) -> Any:
    """Read the description of a simulator from configs/task, or from any file."""
    from act_policy.cli.record import find_simulator

    file = Path(name) if name.endswith((".yaml", ".yml")) else CONFIGS / "task" / f"{name}.yaml"
    if not file.is_file():
        raise UserError(f"simulator={name}: there is no {file}")
    task = plain(load_yaml(file))
    if (simulator := find_simulator(task)) is None:
        raise UserError(
            f"simulator={name}: {task['env']} is one of our environments, which the policy itself "
            "names; leave simulator= out"
        )
    return simulator


def print_execution(report: dict[str, Any]) -> None:
    """Print how the chunks were executed, and why if the policy says so."""
    from act_policy.execution import Execution

    execution = Execution.from_dict(report["execution"])
    print(f"executed: {execution}" + f" ({execution.reason})" * bool(execution.reason))


def evaluate_suite(
    config: Any, settings: Any, checkpoint: Path, run: Path | None, out: Path, load: Any
) -> str:
    """Try the policy in every row of a suite and print the table; return the results' file."""
    from rich.console import Console
    from rich.table import Table

    from act_policy.evaluation.results import SUCCESS_COLUMNS, list_reruns
    from act_policy.evaluation.rollouts.demonstrations import find_demonstrations
    from act_policy.evaluation.rollouts.run import build_environment
    from act_policy.evaluation.rollouts.suite_rows import Suite
    from act_policy.evaluation.sections.suite_report import (
        DIFFERENCE,
        make_cells,
        tabulate_means,
    )
    from act_policy.evaluation.suite import RESULT_FILE, run_suite

    suite = Suite.from_config(plain(config.suite))
    demonstrations = find_demonstrations(run_config(run), config.demonstrations)
    simulator = prepare_simulator(config, demonstrations)
    report = run_suite(
        checkpoint,
        out,
        suite,
        settings,
        demonstrations,
        workers=None if config.workers == "auto" else config.workers,
        load=load,
        build=partial(build_environment, simulator=simulator),
    )
    columns = [*SUCCESS_COLUMNS, DIFFERENCE, ""]
    shown = [0, 1, 2] if suite.control is None else [0, 4, 5]  # as wide as a terminal
    table = Table("", *[columns[i] for i in shown], title=report["environment"])
    for row in report["rows"]:
        cells = make_cells(row)
        table.add_row(row["name"], *[cells[i] for i in shown])
    means = tabulate_means(report)
    averages = Table(*means.head)
    for cells in means.rows:
        averages.add_row(*cells)
    Console().print(table)
    Console().print(averages)
    print_execution(report)
    for rerun in list_reruns({row["name"]: row for row in report["rows"]}):
        print(rerun)
    return RESULT_FILE


def evaluate_replay(config: Any, checkpoint: Path, run: Path | None, out: Path, load: Any) -> str:
    """Evaluate open loop on demonstrations and print the table; return the results' file."""
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
    return "evaluation.json"
