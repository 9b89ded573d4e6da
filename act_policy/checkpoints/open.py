"""A policy out of any checkpoint: ours, LeRobot's or the original ACT's."""

from pathlib import Path

from act_policy.checkpoints.kinds import Source, is_lerobot, is_original_act, resolve
from act_policy.checkpoints.lerobot.checkpoint import load_lerobot
from act_policy.checkpoints.original_act import load_original_act
from act_policy.errors import UserError
from act_policy.model.policy import ACTPolicy


def load_policy(path: str | Path, source: Source | None = None) -> ACTPolicy:
    """Load a policy of any kind, on the CPU and in evaluation mode; no code in its files is run.

    Ours (bundle, run, .ckpt file), LeRobot's (run, checkpoint, or the pretrained_model
    folder in it) or the original ACT's (folder, or a .ckpt file beside dataset_stats.pkl).

    Raises:
        UserError: there is none, or it cannot be read, or source is given for one that needs none.
    """
    folder = resolve(Path(path))
    source = Source() if source is None else source
    if is_original_act(folder):
        return load_original_act(folder, *source)
    if source._replace(schema=None) != Source():
        raise UserError(
            f"{path} says its cameras and heads itself; leave out source.cameras, "
            "source.image_size and source.heads"
        )
    if is_lerobot(folder):
        return load_lerobot(folder, source.schema)
    if source.schema is not None:
        raise UserError(f"{path} has a schema of its own; leave out source.schema")
    return ACTPolicy.load(folder)
