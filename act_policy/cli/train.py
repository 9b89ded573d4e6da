"""Train a policy on a folder of demonstrations.

    act-policy train experiment=NAME data.path=FOLDER out=RUN
    act-policy train init=CHECKPOINT data.path=FOLDER out=RUN    (fine-tuning)
    act-policy train resume=RUN          (or a checkpoint in it, or resume=last out=RUN)
    act-policy train --multirun seed=0,1,2 data.path=FOLDER out=SWEEP

RUN holds config.yaml, versions.json, metrics.csv, report.html (its curves, while it trains) and
checkpoints/{last,best}.ckpt. Ctrl-C stops after the current step with a checkpoint; resume= goes on
exactly there. init= starts from the weights of a run, a bundle, or a checkpoint of LeRobot or of
the original ACT, whose network and normalisation stay. --multirun (-m) trains SWEEP/0, SWEEP/1, ...
with Hydra's sweepers and launchers (hydra/sweeper=optuna, hydra/launcher=joblib, where they are
installed); what they minimise is the least held-out loss.
"""

import os
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from act_policy.cli.entry import load_yaml, make_settings, plain


def main(config: DictConfig) -> float | None:
    """Build what the configuration says and train it; return the least held-out loss."""
    from act_policy.errors import UserError
    from act_policy.training import run_folder

    if config.resume is None and config.out is None:
        raise UserError("missing: give out=FOLDER for a new run, or resume=RUN")
    first_process = run_folder.is_first_process()
    if config.resume is not None:
        folder, checkpoint = run_folder.find_run(str(config.resume))
    else:
        folder, checkpoint = Path(str(config.out)).absolute(), None
        if first_process:
            run_folder.check_free(folder)
    config.out, config.resume = str(folder), None
    keep_paths(config.data)
    os.environ.setdefault("WANDB_SILENT", "true")

    from hydra.utils import instantiate  # from here on what takes seconds to load
    from lightning.pytorch.callbacks import LambdaCallback

    from act_policy.checkpoints.open import open_network
    from act_policy.checkpoints.source import Source
    from act_policy.data.inspection.evidence import InspectionConfig
    from act_policy.data.loading.datamodule import DemonstrationDataModule
    from act_policy.report.learning_curves import read_metrics
    from act_policy.training.augmentation import AugmentationConfig
    from act_policy.training.build import build_training, train
    from act_policy.training.check_demonstrations import check_demonstrations
    from act_policy.training.fine_tuning import network_config
    from act_policy.training.losses import ORIGINAL_KL_WEIGHT
    from act_policy.training.metrics_file import MetricsFile
    from act_policy.training.resume import finished
    from act_policy.training.trainer import quiet_lightning

    quiet_lightning()
    if checkpoint and (said := finished(checkpoint, config.max_steps, config.max_minutes)):
        print(said)
        return None
    initial = None
    if checkpoint is None and config.init is not None:
        config.init = str(Path(str(config.init)).absolute())
        initial = open_network(config.init, Source.from_config(config.source))
        if first_process:
            print(f"starting from {config.init}: its network and its normalisation stay")
        config.model = network_config(initial)  # in place of the model settings
        if not initial.config.latent_size:
            config.loss.kl_weight = None
    if config.loss.kl_weight is None and config.model.latent_size:
        config.loss.kl_weight = ORIGINAL_KL_WEIGHT
    data = DemonstrationDataModule.from_config(
        plain(config.data), config.model.chunk_length, config.seed
    )
    if checkpoint is None and first_process:
        inspection = InspectionConfig(
            config.model.chunk_length, config.data.std_floor, config.data.undecodable
        )
        check_demonstrations(data.dataset, inspection)
    training = build_training(
        plain(config.model),
        instantiate(config.optim),
        data,
        config.max_steps,
        config.max_minutes,
        config.seed,
        checkpoint,
        initial,
        fine_tuned=config.get("init") is not None,
        kl_weight=config.loss.kl_weight,
        backbone_weights=config.backbone_weights,
        augmentation=make_settings(AugmentationConfig, config.augmentation),
    )

    def begin(trainer: object, module: object) -> None:
        """Write down what is about to be trained: nothing refused it."""
        if first_process:
            run_folder.write_start(folder, OmegaConf.to_yaml(config, resolve=True))

    trainer = instantiate(
        config.trainer,
        folder=folder,
        max_steps=config.max_steps,
        validate_every=config.validate_every,
        log_every=config.log_every,
        callbacks=[
            LambdaCallback(on_train_start=begin),
            *instantiate(config.callbacks, _convert_="all").values(),
        ],
        loggers=[
            MetricsFile(folder / run_folder.METRICS_FILE),
            *(instantiate(logger, save_dir=str(folder)) for logger in config.logger.values()),
        ],
    )
    if first_process:
        print(training.policy.act.describe())
        if skipped := data.train_samples.skipped + data.held_out_samples.skipped:
            print(f"data.undecodable=skip: frames that are left out: {skipped}")
    train(training, data, trainer, checkpoint)
    if first_process:
        print(f"trained {trainer.global_step} steps in {training.minutes:.1f} minutes: {folder}")
    rows = read_metrics(folder / run_folder.METRICS_FILE)
    return min((row["held_out_l1"] for row in rows if "held_out_l1" in row), default=None)


def keep_paths(data: DictConfig) -> None:
    """Make every path absolute, since the run may be resumed from another folder."""
    for part in (data, *(data.get("mix") or [])):
        for name in ("path", "schema", "cache") if isinstance(part, DictConfig) else ():
            value = part.get(name)
            # what does not exist may be a hub id, which stays as it is
            is_path = isinstance(value, str) and (Path(value).exists() or name == "cache")
            if is_path and value != "auto":
                part[name] = str(Path(value).absolute())


def saved_config(config: DictConfig, given: set[str]) -> DictConfig | None:
    """Load the configuration of the run to resume; None for a new run."""
    from act_policy.errors import UserError

    network = sorted(key for key in given if key.split(".")[0] in ("model", "backbone_weights"))
    if config.init is not None and network:
        raise UserError(
            f"{', '.join(network)}: with init= the network is the checkpoint's; leave it out"
        )
    if config.resume is None:
        return None
    from act_policy.training.run_folder import CONFIG_FILE, find_run

    if config.init is not None:
        raise UserError("give init= for a new run or resume= for one that goes on, not both")
    if str(config.resume) == "last":
        if config.out is None:
            raise UserError("resume=last: give out=RUN too, the run whose last checkpoint is meant")
        config.resume = config.out
    elif config.out is not None:
        raise UserError("give out= for a new run or resume= for one that goes on, not both")
    folder, _ = find_run(str(config.resume))
    return migrate_config(load_yaml(folder / CONFIG_FILE), config)


def migrate_config(saved: DictConfig, config: DictConfig) -> DictConfig:
    """Give the settings and classes in the configuration of an older run their names of today."""
    if "loss" not in saved:
        saved.loss = {"kl_weight": saved.model.pop("kl_weight")}
        saved.backbone_weights = saved.model.pop("backbone_weights")
    if "augmentation" not in saved:
        saved.augmentation = config.augmentation
    if saved.callbacks.keys() != config.callbacks.keys():
        saved.callbacks = config.callbacks
    for group in ("optim", "trainer", *(f"callbacks.{name}" for name in config.callbacks)):
        key = f"{group}._target_"
        OmegaConf.update(saved, key, OmegaConf.select(config, key))
    return saved
