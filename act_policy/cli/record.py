"""Record demonstrations of a simulated task by its scripted expert.

act-policy record task=metaworld/button-press-topdown episodes=50 out=data/button
"""

from omegaconf import DictConfig

from act_policy.cli.entry import make_settings, plain


def main(config: DictConfig) -> None:
    """Record into `out`, or continue what was interrupted there."""
    from act_policy.sim.record import RecordingConfig, record_demonstrations

    settings = make_settings(
        RecordingConfig,
        config,
        environment=config.task.env,
        max_steps=config.task.max_steps,
        cameras=plain(config.task.cameras if config.cameras is None else config.cameras),
    )
    record_demonstrations(settings, config.episodes, config.out, config.workers)
