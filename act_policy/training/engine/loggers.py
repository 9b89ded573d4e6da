"""The loggers of other projects, with messages where they are missing or out of reach."""

import sys

from lightning.pytorch.loggers import TensorBoardLogger, WandbLogger
from lightning.pytorch.loggers.logger import Logger

from act_policy.errors import UserError
from act_policy.training.engine.launch import is_first_process


def build_tensorboard(save_dir: str) -> Logger:
    """Make TensorBoard's logger, which writes RUN/tensorboard.

    Raises:
        UserError: TensorBoard is not installed.
    """
    try:
        return TensorBoardLogger(save_dir, name="", version="tensorboard")
    except ModuleNotFoundError as error:
        raise UserError(
            f"logger=tensorboard: {error.name or error} is not installed: pip install tensorboard"
        ) from None


def build_wandb(save_dir: str, project: str, offline: bool) -> Logger:
    """Make the logger of Weights & Biases, offline where its server cannot be reached."""
    if not offline and is_first_process():
        import wandb

        settings = wandb.Settings(init_timeout=30)
        logger = WandbLogger(save_dir=save_dir, project=project, settings=settings)
        try:
            _ = logger.experiment
            return logger
        except wandb.errors.Error as error:
            print(
                f"warning: logger.wandb.offline=false: {error}; this run is kept in "
                f"{save_dir}/wandb, and `wandb sync` uploads it later",
                file=sys.stderr,
                flush=True,
            )
    return WandbLogger(save_dir=save_dir, project=project, offline=True)
