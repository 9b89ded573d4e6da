"""Train a policy on a folder of demonstrations.

    act-policy train experiment=NAME data.path=FOLDER out=RUN
    act-policy train init=CHECKPOINT data.path=FOLDER out=RUN    (fine-tuning)
    act-policy train resume=RUN          (or a checkpoint in it, or resume=last out=RUN)

RUN holds config.yaml, versions.json, metrics.csv, report.html (its curves, while it trains) and
checkpoints/{last,best}.ckpt. Ctrl-C stops after the current step with a checkpoint; resume= goes on
exactly there. init= starts from the weights of a run, a bundle, or a checkpoint of LeRobot or of
the original ACT, whose network and normalisation stay.
"""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from act_policy.cli.entry import load_yaml, plain

if TYPE_CHECKING:
    from act_policy.data.dataset import DemonstrationDataset

ORIGINAL_KL_WEIGHT = 10.0
"""What ACT and LeRobot train with."""


def main(config: DictConfig) -> None:
    """Build what the configuration says and train it."""
    from act_policy.errors import UserError
    from act_policy.training import run_folder

    if config.resume is None and config.out is None:
        raise UserError("missing: give out=FOLDER for a new run, or resume=RUN")
    resumed = run_folder.find_run(str(config.resume)) if config.resume is not None else None
    checkpoint = resumed.checkpoint if resumed else None
    folder = resumed.folder if resumed else Path(str(config.out)).absolute()
    if not resumed and run_folder.is_first_process():
        run_folder.check_free(folder)
    config.out, config.resume = str(folder), None
    keep_paths(config.data)
    os.environ.setdefault("WANDB_SILENT", "true")

    from hydra.utils import instantiate  # from here on what takes seconds to load
    from lightning.pytorch.callbacks import LambdaCallback

    from act_policy.training.build import build_training, finished, train
    from act_policy.training.metrics_file import MetricsFile
    from act_policy.training.trainer import quiet_lightning

    quiet_lightning()
    if checkpoint and (said := finished(checkpoint, config.max_steps, config.max_minutes)):
        print(said)
        return
    initial = None if resumed or config.get("init") is None else load_initial(config)
    if config.loss.kl_weight is None and config.model.latent_size:
        config.loss.kl_weight = ORIGINAL_KL_WEIGHT
    data = instantiate(
        config.data, chunk_length=config.model.chunk_length, seed=config.seed, _convert_="all"
    )
    if not resumed and run_folder.is_first_process():
        check_demonstrations(data.dataset, config)
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
    )

    def begin(trainer: object, module: object) -> None:
        """Write down what is about to be trained: nothing refused it."""
        if run_folder.is_first_process():
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
    if run_folder.is_first_process():
        print(training.policy.act.describe())
        if skipped := data.train_samples.skipped + data.held_out_samples.skipped:
            print(f"data.undecodable=skip: frames that are left out: {skipped}")
    train(training, data, trainer, checkpoint)
    if run_folder.is_first_process():
        print(f"trained {trainer.global_step} steps in {training.minutes:.1f} minutes: {folder}")


def load_initial(config: DictConfig) -> Any:
    """Load the policy to start from; its network takes the place of the model settings."""
    from act_policy.checkpoints.open import open_network
    from act_policy.checkpoints.source import Source
    from act_policy.errors import UserError
    from act_policy.training.fine_tuning import network_config
    from act_policy.training.run_folder import is_first_process

    given = [argument.split("=")[0] for argument in sys.argv[1:]]
    if refused := [n for n in given if n.split(".")[0] in ("model", "backbone_weights")]:
        raise UserError(
            f"{', '.join(refused)}: with init= the network is the checkpoint's; leave it out"
        )
    config.init = str(Path(str(config.init)).absolute())
    policy = open_network(config.init, Source.from_config(config.source))
    config.model = network_config(policy)
    if not policy.config.latent_size:
        config.loss.kl_weight = None
    if is_first_process():
        print(f"starting from {config.init}: its network and its normalisation stay")
    return policy


def keep_paths(data: DictConfig) -> None:
    """Make every path absolute, since the run may be resumed from another folder."""
    for part in (data, *(data.get("mix") or [])):
        for name in ("path", "schema", "cache") if isinstance(part, DictConfig) else ():
            value = part.get(name)
            # what does not exist may be a hub id, which stays as it is
            is_path = isinstance(value, str) and (Path(value).exists() or name == "cache")
            if is_path and value != "auto":
                part[name] = str(Path(value).absolute())


def check_demonstrations(dataset: "DemonstrationDataset", config: DictConfig) -> None:
    """Print what is unusual about the demonstrations; UserError where they cannot be trained on."""
    from act_policy.data.inspection.evidence import InspectionConfig
    from act_policy.data.inspection.finding import Verdict
    from act_policy.data.inspection.inspect import inspect_before_training
    from act_policy.data.inspection.sentences import advice, sentence
    from act_policy.errors import UserError

    settings = InspectionConfig(
        config.model.chunk_length, config.data.std_floor, config.data.undecodable
    )
    errors = []
    for finding in inspect_before_training(dataset, settings):
        text = f"{sentence(finding, dataset.episode_names)}. {advice(finding)}"
        if finding.verdict is Verdict.ERROR:
            errors.append(text)
        elif finding.verdict is Verdict.WARNING:
            print(f"warning: {text}", file=sys.stderr)
    if errors:
        raise UserError("\n".join(errors))


def saved_config(config: DictConfig) -> DictConfig | None:
    """Load the configuration of the run to resume; None for a new run."""
    if config.resume is None:
        return None
    from act_policy.errors import UserError
    from act_policy.training.run_folder import CONFIG_FILE, find_run

    if config.init is not None:
        raise UserError("give init= for a new run or resume= for one that goes on, not both")
    if str(config.resume) == "last":
        if config.out is None:
            raise UserError("resume=last: give out=RUN too, the run whose last checkpoint is meant")
        config.resume = config.out
    elif config.out is not None:
        raise UserError("give out= for a new run or resume= for one that goes on, not both")
    return migrated(load_yaml(find_run(str(config.resume)).folder / CONFIG_FILE))


def migrated(config: DictConfig) -> DictConfig:
    """Move the settings of a run from before `loss` and `backbone_weights` to their new names."""
    if "loss" not in config:
        config.loss = {"kl_weight": config.model.pop("kl_weight")}
        config.backbone_weights = config.model.pop("backbone_weights")
    return config
