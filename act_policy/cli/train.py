"""Train a policy on a folder of demonstrations.

    act-policy train data.path=FOLDER out=RUN
    act-policy train data.path=FOLDER plan=only         (what it would do, and why)
    act-policy train experiment=NAME data.path=FOLDER out=RUN
    act-policy train init=CHECKPOINT data.path=FOLDER out=RUN    (fine-tuning)
    act-policy train resume=RUN          (or a checkpoint in it, or resume=last out=RUN)
    act-policy train resume=auto experiment=NAME data.path=FOLDER out=RUN   (starts or goes on)
    act-policy train --multirun seed=0,1,2 data.path=FOLDER out=SWEEP

What is not set is planned from the demonstrations and this machine, so that all of it takes
budget=1h; experiment=NAME is a recipe that is trained as it stands.

RUN holds config.yaml, versions.json, metrics.csv, report.html (its curves, while it trains) and
checkpoints/{last,best}.ckpt; with rollout_every= also best_success.ckpt, the one that did best in
simulation. Ctrl-C, SIGTERM and SIGUSR1 stop after the current step with a
checkpoint and exit code 75; resume= goes on exactly there, and with a larger budget= trains longer.
init= starts from the weights of a run, a bundle, or a checkpoint of LeRobot or of the original ACT,
whose network and normalisation stay. --multirun (-m) trains SWEEP/0, SWEEP/1, ... with Hydra's
sweepers and launchers (hydra/sweeper=optuna, hydra/launcher=joblib, where they are installed); what
they minimise is the least held-out loss. torchrun and srun start several processes of one run, see
docs/training.md.
"""

import os
import time
from functools import partial
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from act_policy.cli.entry import load_run, make_settings, plain
from act_policy.cli.training.plan import MADE, end_in_time, is_planned, plan_run


def main(config: DictConfig) -> float | None:
    """Build what the configuration says and train it; return the least held-out loss."""
    from act_policy.system.stop_signals import stopped_by_signals

    with stopped_by_signals():
        return train_run(config)


def train_run(config: DictConfig) -> float | None:
    """Do what `main` does, without the answer to early signals."""
    from act_policy.errors import UserError
    from act_policy.system.stop_signals import StoppedBySignal
    from act_policy.training.engine.launch import end_with_starter, is_first_process
    from act_policy.training.run import run_folder

    begin_seconds = time.monotonic()
    first_process = is_first_process()
    end_with_starter()
    planned = config.resume is None and is_planned(config)
    only_plan = planned and config.plan == "only"
    if config.resume is not None:
        folder, checkpoint = run_folder.find_run(str(config.resume))
    elif config.out is not None or only_plan:
        folder, checkpoint = Path(str(config.out)).absolute(), None
        if first_process and not only_plan:
            run_folder.check_free(folder)
    else:
        raise UserError("missing: give out=FOLDER for a new run, or resume=RUN")
    config.out, config.resume = str(folder), None
    keep_paths(config.data)
    os.environ.setdefault("WANDB_SILENT", "true")
    os.environ.setdefault("WANDB_DATA_DIR", str(folder / "wandb"))  # files that wait for an upload

    from hydra.utils import instantiate  # from here on what takes seconds to load
    from lightning.pytorch.callbacks import LambdaCallback

    from act_policy.checkpoints.open import open_network
    from act_policy.checkpoints.source import Source
    from act_policy.cli.training.rollouts import configure_rollouts, evaluate_rest
    from act_policy.data.inspection.evidence import InspectionConfig
    from act_policy.execution import Execution
    from act_policy.report.learning_curves import read_metrics
    from act_policy.training.augmentation import AugmentationConfig
    from act_policy.training.build import build_training, train
    from act_policy.training.callbacks.planned_time import PlannedTime
    from act_policy.training.callbacks.rollouts import Rollouts
    from act_policy.training.callbacks.wandb_files import WandbFiles
    from act_policy.training.check_demonstrations import check_demonstrations
    from act_policy.training.engine.trainer import quiet_lightning
    from act_policy.training.fine_tuning import network_config
    from act_policy.training.losses import ORIGINAL_KL_WEIGHT
    from act_policy.training.plan.costs import parse_time
    from act_policy.training.run.metrics_file import MetricsFile
    from act_policy.training.run.resume import finished

    quiet_lightning()
    if checkpoint and "budget" in config.given:
        extend(config, checkpoint)
    if checkpoint and (said := finished(checkpoint, config.max_steps, config.max_minutes)):
        if config.rollout_every is not None and first_process:
            configure = partial(configure_rollouts, config, load_data(config))
            evaluate_rest(folder, checkpoint, configure)
        if first_process:
            print(said)
        return None
    initial = None
    if checkpoint is None and config.init is not None:
        config.init = str(Path(str(config.init)).absolute())
        initial = open_network(config.init, Source.from_config(config.source))
        if first_process:
            print(f"starting from {config.init}: its network and its normalisation stay")
        config.model = network_config(initial)  # in place of the model settings
        if not any(key.startswith("execution") for key in config.given):
            config.execution = initial.execution.to_dict()
        if not initial.config.latent_size:
            config.loss.kl_weight = None
    data = load_data(config)
    if checkpoint is None and first_process:
        inspection = InspectionConfig(
            find_chunk_length(config, planned), config.data.std_floor, config.data.undecodable
        )
        check_demonstrations(data.dataset, inspection)
    plan = None
    if planned:
        plan = plan_run(config, data, initial, first_process)
        if only_plan:
            return None
        data = load_data(config)  # as planned
    if not planned and checkpoint is None and config.budget is not None:
        config.max_minutes = parse_time("budget", config.budget) / 60
    if config.loss.kl_weight is None and config.model.latent_size:
        config.loss.kl_weight = ORIGINAL_KL_WEIGHT
    rollouts = []
    if config.rollout_every is not None:
        how = configure_rollouts(config, data, tries=first_process)
        rollouts = [Rollouts(config.rollout_every, how)]
    if plan is not None:
        data.prepare_data()
        end_in_time(config, plan, time.monotonic() - begin_seconds)
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
        execution=Execution.from_dict(plain(config.execution)),
        skip_non_finite=config.skip_non_finite,
        compiles=config.compile,
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
            *rollouts,
            *([] if plan is None else [PlannedTime(plan.step_seconds)]),
            WandbFiles(plain(config)),
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
    try:
        train(training, data, trainer, checkpoint)
    except StoppedBySignal:
        if first_process:
            raise
        return None  # one exit code of the run is enough: Lightning kills the first process for it
    if first_process:
        print(f"trained {trainer.global_step} steps in {training.minutes:.1f} minutes: {folder}")
        print(trainer.profiler.describe_shares(config.data.workers))
        if config.plan == MADE:
            from act_policy.cli.training.ending import conclude

            conclude(folder, data)
    rows = read_metrics(folder / run_folder.METRICS_FILE)
    return min((row["held_out_l1"] for row in rows if "held_out_l1" in row), default=None)


def load_data(config: DictConfig) -> Any:
    """Make what reads the demonstrations of a run."""
    from act_policy.data.loading.datamodule import DemonstrationDataModule

    return DemonstrationDataModule.from_config(
        plain(config.data), config.model.chunk_length, config.seed
    )


def find_chunk_length(config: DictConfig, planned: bool) -> int | None:
    """Return the chunk length that the user gave; None where a plan fits it to the data."""
    given = {"model", "model.chunk_length"} & set(config.given)
    if planned and config.init is None and not given:
        return None
    return int(config.model.chunk_length)


def extend(config: DictConfig, checkpoint: Path) -> None:
    """Move the end of a run that is resumed to where its new budget ends."""
    from act_policy.training.plan.costs import parse_time
    from act_policy.training.run.resume import steps_within

    seconds = parse_time("budget", config.budget)
    if "max_steps" not in config.given:
        config.max_steps = steps_within(checkpoint, seconds / 60)
    if "max_minutes" not in config.given:
        config.max_minutes = seconds / 60


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
    from act_policy.training.run.run_folder import find_run

    if str(config.resume) == "auto":
        return start_or_go_on(config)
    if config.init is not None:
        raise UserError("give init= for a new run or resume= for one that goes on, not both")
    if str(config.resume) == "last":
        if config.out is None:
            raise UserError("resume=last: give out=RUN too, the run whose last checkpoint is meant")
        config.resume = config.out
    elif config.out is not None:
        raise UserError("give out= for a new run or resume= for one that goes on, not both")
    folder, _ = find_run(str(config.resume))
    return migrate_config(load_run(folder), config)


def start_or_go_on(config: DictConfig) -> DictConfig | None:
    """Load the configuration of the run in out= where it has a checkpoint; else None: start it."""
    from act_policy.errors import UserError
    from act_policy.training.run.run_folder import find_checkpoint

    if config.out is None:
        raise UserError("resume=auto: give out=RUN too, the run that is started or goes on")
    folder = Path(str(config.out)).absolute()
    if not find_checkpoint(folder).is_file():
        config.resume = None
        return None
    config.resume = str(folder)
    saved = migrate_config(load_run(folder), config)
    saved.resume = config.resume
    if saved.budget == config.budget:  # no longer one, which would train longer
        saved.given = [key for key in saved.given if key != "budget"]
    return saved


def migrate_config(saved: DictConfig, config: DictConfig) -> DictConfig:
    """Give the settings and classes in the configuration of an older run their names of today."""
    if "loss" not in saved:
        saved.loss = {"kl_weight": saved.model.pop("kl_weight")}
        saved.backbone_weights = saved.model.pop("backbone_weights")
    new = ("augmentation", "execution", "skip_non_finite", "compile")
    for name in (*new, "rollout_every", "rollout_episodes"):
        if name not in saved:
            saved[name] = config[name]
    if "plan" not in saved:
        saved.plan, saved.budget = None, None
    saved.given = config.given
    if saved.callbacks.keys() != config.callbacks.keys():
        saved.callbacks = config.callbacks
    for group in ("optim", "trainer", *(f"callbacks.{name}" for name in config.callbacks)):
        key = f"{group}._target_"
        OmegaConf.update(saved, key, OmegaConf.select(config, key))
    return saved
