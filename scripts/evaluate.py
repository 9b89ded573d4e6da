"""Try a policy in simulation on initial states that no demonstration used.

    python scripts/evaluate.py checkpoint=runs/button episodes=100 seed=1000

Writes evaluation.json (success rate, 95% interval, every episode, baselines) and videos/ to the
run, or to out=FOLDER.
"""

from functools import partial
from pathlib import Path
from typing import Any

from act_policy.errors import UserError

LOADING = {
    *("_target_", "path", "batch_size", "workers", "std_floor", "undecodable", "cache"),
    *("held_out_fraction", "train_episodes", "held_out_episodes"),
}
"""Settings of a run's data that say how it was trained on; all others say what it was."""


def main(config: Any) -> None:
    """Check what was asked, evaluate, print the table."""
    from rich.console import Console

    from act_policy.evaluation.evaluate import Settings, evaluate
    from act_policy.evaluation.policies import load_policy, run_folder
    from act_policy.evaluation.report import table, warnings
    from act_policy.export.kinds import Source
    from act_policy.sim.rendering import choose_gl_backend

    settings = Settings(
        episodes=config.episodes,
        seed=config.seed,
        execute_steps=config.execute_steps,
        ensemble_coefficient=config.ensemble_coefficient,
        max_steps=config.max_steps,
        quality=config.quality,
    )
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
        settings,
        demonstrations,
        baselines=config.baselines,
        videos=config.videos,
        workers=None if config.workers == "auto" else config.workers,
        load=partial(load_policy, source=Source.from_settings(config.source)),
    )
    used = report["settings"]
    title = (
        f"{report['task']}, seeds from {used['seed']}, at most {used['max_steps']} steps, "
        f"{used['quality']} images"
    )
    Console().print(table(title, {"policy": report, **report["baselines"]}))
    for warning in warnings(report):
        print(warning)
    print(f"written: {Path(out) / 'evaluation.json'}")


def find_demonstrations(config: Any, run: Path | None) -> Any:
    """Read what the policy was trained on: to replay it, to refuse its seeds, to do alike.

    What the run selected, and how it read the files, holds for a folder that is named here, too.
    """
    from omegaconf import OmegaConf

    from act_policy.evaluation.evaluate import Demonstrations

    folder, options = config.demonstrations, {}
    if run is not None and (run / "config.yaml").is_file():
        data = OmegaConf.to_container(OmegaConf.load(run / "config.yaml")).get("data") or {}
        options = {key: value for key, value in data.items() if key not in LOADING}
        if folder is None:
            every = [str(part.get("path")) for part in (data, *(data.get("mix") or []))]
            gone = ", ".join(path for path in every if not Path(path).is_dir())
            if gone:
                print(
                    f"the demonstrations of the run are no longer at {gone}: demonstrations=FOLDER"
                )
            folder = None if gone else every[0]
    if folder is None:
        print(
            "no demonstrations at hand, so none is replayed; name them with demonstrations=FOLDER"
        )
        return None
    from act_policy.data.aloha_episode import recorded_settings
    from act_policy.data.demonstrations import open_demonstrations

    if config.demonstrations is not None:
        options.pop("mix", None)
    dataset = open_demonstrations(folder, **options)
    actions = [dataset.action(episode) for episode in range(dataset.episode_count)]
    seeds = frozenset(seed for seed in dataset.seeds if seed is not None)
    return Demonstrations(actions, seeds, recorded_settings(dataset.episode_paths[0]))


if __name__ == "__main__":
    from entry import run

    run("evaluate", main)
