"""Record demonstrations of a simulated task by a scripted expert, or by a function of yours.

act-policy record task=metaworld/button-press-topdown episodes=50 out=data/button
"""

from typing import Any

from omegaconf import DictConfig

from act_policy.cli.entry import make_settings, plain


def main(config: DictConfig) -> None:
    """Record into `out`, or continue what was interrupted there."""
    from act_policy.sim.record import RecordingConfig, record_demonstrations

    task = plain(config.task)
    settings = make_settings(
        RecordingConfig,
        config,
        environment=task["env"],
        max_steps=task["max_steps"],
        cameras=task["cameras"] if config.cameras is None else plain(config.cameras),
        simulator=find_simulator(task),
    )
    record_demonstrations(settings, config.episodes, config.out, config.workers)


def find_simulator(task: Any) -> Any:
    """Read how a task's file describes an environment that is not one of this package's, or None.

    Raises:
        UserError: the description is not complete.
    """
    from act_policy.sim.described import SimulatorConfig

    described = task.get("simulator")
    return None if described is None else SimulatorConfig.from_config(task["env"], described)
