"""Record demonstrations of a simulated task by its scripted expert.

act-policy record task=metaworld/button-press-topdown episodes=50 out=data/button
"""

from omegaconf import DictConfig, OmegaConf

from act_policy.cli.entry import plain


def main(config: DictConfig) -> None:
    """Record into `out`, or continue what was interrupted there."""
    from act_policy.sim.record import RecordingConfig, record_demonstrations

    cameras = config.task.cameras if config.cameras is None else config.cameras
    settings = RecordingConfig(
        environment=config.task.env,
        cameras=plain(cameras) if OmegaConf.is_config(cameras) else cameras,
        max_steps=config.task.max_steps,
        seed=config.seed,
        quality=config.quality,
        noise=config.noise,
        timing_noise=config.timing_noise,
        pose_noise=config.pose_noise,
        tail=config.tail,
    )
    record_demonstrations(settings, config.episodes, config.out, config.workers)
