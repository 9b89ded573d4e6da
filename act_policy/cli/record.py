"""Record demonstrations of simulated tasks by a scripted expert, or by a function of yours.

act-policy record task=metaworld/button-press-topdown episodes=50 out=data/button
act-policy record suite=metaworld_mt50 episodes=50 out=data/mt50
"""

from pathlib import Path
from typing import Any

from omegaconf import DictConfig

from act_policy.cli.entry import list_options, make_settings, plain
from act_policy.errors import UserError


def main(config: DictConfig) -> None:
    """Record into `out`, or continue what was interrupted there."""
    from act_policy.sim.record import record_demonstrations

    for settings, out in list_recordings(config):
        if "suite" in config:
            print(f"{out}: {settings.environment}")
        record_demonstrations(settings, config.episodes, out, config.workers)


def list_recordings(config: DictConfig) -> list[tuple[Any, Path]]:
    """List what is to be recorded, a RecordingConfig each, and into which folder.

    Raises:
        UserError: neither a task nor a suite is given, or both are.
    """
    from act_policy.evaluation.rollouts.suite_rows import Suite
    from act_policy.sim.record import RecordingConfig

    given = plain(config)
    if ("task" in given) == ("suite" in given):
        raise UserError(
            f"missing: give either task=..., one of {', '.join(list_options('task'))}, "
            "or suite=metaworld_mt50"
        )
    out = Path(config.out)
    if "task" in given:
        task = given["task"]
        settings = make_settings(
            RecordingConfig,
            config,
            environment=task["env"],
            max_steps=task["max_steps"],
            cameras=given["cameras"] or task["cameras"],
            simulator=find_simulator(task),
            instruction=config.instruction or "",
        )
        return [(settings, out)]
    suite = Suite.from_config(given["suite"])
    if unknown := [row.name for row in suite.rows if row.environment is None]:
        raise UserError(
            f"suite={suite.name}: {', '.join(unknown)} is in the policy's own environment; only "
            "a suite whose rows name environments can be recorded"
        )
    if not (cameras := given["cameras"] or given["suite"].get("cameras")):
        raise UserError(f"suite={suite.name}: give cameras={{NAME: [HEIGHT, WIDTH]}}")
    return [
        (
            make_settings(
                RecordingConfig,
                config,
                environment=row.environment,
                max_steps=row.max_steps or given["max_steps"],
                cameras=cameras,
                instruction=config.instruction or row.task or "",
            ),
            out / row.name,
        )
        for row in suite.rows
    ]


def find_simulator(task: Any) -> Any:
    """Read how a task's file describes an environment that is not one of this package's, or None.

    Raises:
        UserError: the description is not complete.
    """
    from act_policy.sim.described import SimulatorConfig

    described = task.get("simulator")
    return None if described is None else SimulatorConfig.from_config(task["env"], described)
