"""The Lightning trainer for this machine, without its advertisements."""

import logging
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

import lightning
import torch
from lightning.fabric.plugins.environments.cluster_environment import ClusterEnvironment
from lightning.fabric.plugins.environments.lightning import LightningEnvironment
from lightning.fabric.plugins.environments.slurm import SLURMEnvironment
from lightning.fabric.plugins.environments.torchelastic import TorchElasticEnvironment
from lightning.fabric.utilities.exceptions import MisconfigurationException
from lightning.fabric.utilities.warnings import PossibleUserWarning
from lightning.pytorch.loggers.logger import Logger

from act_policy.errors import UserError, check_choice, check_whole_number
from act_policy.training.callbacks.checkpoints import AtomicCheckpointIO
from act_policy.training.engine.launch import Launch, find_launch
from act_policy.training.engine.time_spent import TimeSpent


def build_trainer(
    folder: Path,
    max_steps: int,
    validate_every: int,
    log_every: int,
    callbacks: Iterable[lightning.Callback] = (),
    loggers: Iterable[Logger] = (),
    accelerator: Literal["auto", "cpu", "gpu"] = "auto",
    devices: int | str = 1,
    strategy: str = "auto",
    precision: str = "auto",
    threads: int | None = None,
    accumulate: int = 1,
) -> lightning.Trainer:
    """Make the trainer of a run.

    Args:
        folder: the run folder.
        max_steps: the last step.
        validate_every: steps between held-out losses.
        log_every: steps between rows of the loggers.
        callbacks: in the order in which they act.
        loggers: metrics file, wandb.
        accelerator: "auto" uses a GPU if there is one.
        devices: how many per machine; "auto" is all GPUs, or two processes on the CPU. Where
            torchrun or srun started several processes, each of them has one.
        strategy: "auto" is "ddp" for several processes.
        precision: "auto" is bf16-mixed on a GPU that supports it and float32 elsewhere.
        threads: CPU threads of torch; None leaves the number to torch.
        accumulate: batches whose gradients make one step; the loss is that of one large batch.

    Raises:
        UserError: a setting is impossible or needs a GPU that does not exist.
    """
    for name, value in (
        ("max_steps", max_steps),
        ("validate_every", validate_every),
        ("log_every", log_every),
        ("trainer.threads", 1 if threads is None else threads),
        ("trainer.devices", 1 if devices == "auto" else devices),
        ("trainer.accumulate", accumulate),
    ):
        check_whole_number(name, value, 1)
    has_gpu = torch.cuda.is_available()
    check_choice("trainer.accelerator", accelerator, ("auto", "cpu", "gpu"))
    if accelerator == "gpu" and not has_gpu:
        raise UserError("trainer.accelerator=gpu: torch finds no CUDA device; use trainer=auto")
    if accelerator == "auto":
        accelerator = "gpu" if has_gpu else "cpu"
    on_gpu = accelerator == "gpu"
    if precision == "auto":
        precision = "bf16-mixed" if on_gpu and torch.cuda.is_bf16_supported() else "32-true"
    launch = find_launch()
    if launch is not None:
        devices = launch.per_node
    if devices == "auto":
        devices = torch.cuda.device_count() if on_gpu else 2
    if on_gpu and int(devices) > torch.cuda.device_count():
        raise UserError(
            f"trainer.devices={devices}: torch finds {torch.cuda.device_count()} CUDA devices"
        )
    nodes = 1 if launch is None else launch.nodes
    if strategy == "auto" and int(devices) * nodes > 1:
        strategy = "ddp"
    if on_gpu:
        torch.set_float32_matmul_precision("high")
    if threads is not None:
        torch.set_num_threads(threads)
    quiet_lightning()
    try:
        return lightning.Trainer(
            default_root_dir=folder,
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            strategy=strategy,
            precision=precision,  # type: ignore[arg-type]  # a string checked by Lightning
            max_steps=max_steps,
            max_epochs=-1,
            val_check_interval=validate_every * accumulate,  # Lightning counts batches
            accumulate_grad_batches=accumulate,
            check_val_every_n_epoch=None,
            num_sanity_val_steps=0,
            log_every_n_steps=log_every,
            callbacks=list(callbacks),
            logger=list(loggers),
            plugins=[AtomicCheckpointIO(), *_environment(launch)],
            enable_checkpointing=False,  # ours are the callback Checkpoints
            enable_progress_bar=False,  # ours is the callback Progress
            enable_model_summary=False,
            profiler=TimeSpent(),
            use_distributed_sampler=False,  # the data module divides every batch itself
            sync_batchnorm=on_gpu and strategy != "auto",
            benchmark=on_gpu,  # of convolutions: image sizes do not change
        )
    except (ValueError, MisconfigurationException) as error:  # a precision or strategy
        raise UserError(f"trainer: {error}") from None


def _environment(launch: Launch | None) -> list[ClusterEnvironment]:
    """Choose what Lightning must not guess: it would wait for tasks that SLURM did not start."""
    if launch is None:
        return [LightningEnvironment()] if SLURMEnvironment.detect() else []
    if launch.starter == "torchrun":
        return [TorchElasticEnvironment()]
    return [SLURMEnvironment(auto_requeue=False)]  # signals are handled by StopOnSignal


def quiet_lightning() -> None:
    """Silence advertisements, and advice on settings that were chosen on purpose."""
    for name in ("lightning", "lightning.pytorch", "lightning.fabric", "lightning_utilities"):
        logging.getLogger(name).setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", category=PossibleUserWarning)
    # Lightning 2.6 calls what torch 2.9 and later renamed
    warnings.filterwarnings("ignore", message=".*LeafSpec.*")
