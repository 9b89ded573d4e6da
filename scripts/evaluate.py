"""Try a policy in simulation on starts that no demonstration used.

    python scripts/evaluate.py checkpoint=runs/button episodes=100 seed=1000

Writes evaluation.json (success rate, 95% interval, every episode, baselines) and videos/ to the
run, or to out=FOLDER.
"""

from functools import partial
from pathlib import Path
from typing import Any

from act_policy.errors import UserError


def main(config: Any) -> None:
    """Check what was asked, evaluate, print the table."""
    from rich.console import Console

    from act_policy.evaluation.evaluate import Settings, evaluate
    from act_policy.evaluation.policies import load_policy, run_folder
    from act_policy.evaluation.report import table
    from act_policy.export.kinds import Source
    from act_policy.sim.rendering import choose_gl_backend

    checkpoint = Path(config.checkpoint)
    run = run_folder(checkpoint)
    if (out := config.out or run) is None:
        raise UserError(
            f"out: checkpoint={checkpoint} belongs to no run; say where with out=FOLDER"
        )
    choose_gl_backend()  # once, here: the worker processes inherit it
    demonstrations = find_demonstrations(config, run)
    report = evaluate(
        checkpoint,
        Path(out),
        Settings(
            episodes=whole_number("episodes", config.episodes),
            seed=whole_number("seed", config.seed),
            execute_steps=optional_whole_number("execute_steps", config.execute_steps),
            ensemble_coefficient=optional_number(
                "ensemble_coefficient", config.ensemble_coefficient
            ),
            max_steps=optional_whole_number("max_steps", config.max_steps),
            quality=config.quality,
        ),
        demonstrations,
        baselines=config.baselines,
        videos=whole_number("videos", config.videos),
        workers=None
        if config.workers == "auto"
        else optional_whole_number("workers", config.workers),
        load=partial(load_policy, source=Source.from_settings(config.source)),
    )
    rows = {"policy": report, **report["baselines"]}
    Console().print(table(f"{report['task']}, seeds from {config.seed}", rows))
    print(f"written: {Path(out) / 'evaluation.json'}")


def find_demonstrations(config: Any, run: Path | None) -> Any:
    """Read what the policy was trained on: for the baseline, and to refuse its seeds."""
    from act_policy.evaluation.evaluate import Demonstrations

    folder = config.demonstrations
    if folder is None and run is not None and (run / "config.yaml").is_file():
        from omegaconf import OmegaConf

        folder = OmegaConf.select(OmegaConf.load(run / "config.yaml"), "data.path")
        if folder is not None and not Path(folder).is_dir():
            print(f"the demonstrations of the run are no longer at {folder}: demonstrations=FOLDER")
            folder = None
    if folder is None:
        print(
            "no demonstrations at hand, so none is replayed; name them with demonstrations=FOLDER"
        )
        return None
    from act_policy.data.dataset import open_dataset

    dataset = open_dataset(folder)
    actions = [dataset.action(episode) for episode in range(dataset.episode_count)]
    seeds = frozenset(seed for seed in dataset.seeds if seed is not None)
    return Demonstrations(actions, seeds)


def whole_number(name: str, value: Any) -> int:
    """Return an int; UserError for anything else."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise UserError(f"{name}={value}: expected a whole number")
    return value


def optional_whole_number(name: str, value: Any) -> int | None:
    """Return an int or None."""
    return None if value is None else whole_number(name, value)


def optional_number(name: str, value: Any) -> float | None:
    """Return a float or None."""
    if value is not None and (not isinstance(value, (int, float)) or isinstance(value, bool)):
        raise UserError(f"{name}={value}: expected a number or null")
    return None if value is None else float(value)


if __name__ == "__main__":
    from entry import run

    run("evaluate", main)
