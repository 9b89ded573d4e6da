"""Every shipped configuration composes, and all objects that it names can be built."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from act_policy.cli.entry import configuration, make_settings, run_config
from act_policy.cli.train import migrate_config
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.errors import UserError
from act_policy.model.act import ACT, ACTConfig
from act_policy.model.config import SCHEMA_FIELDS
from act_policy.training.augmentation import AugmentationConfig
from act_policy.training.optimizer import OptimizerConfig
from act_policy.types import Camera, Schema
from tests.paths import ROOT

CONFIGS = ROOT / "configs"
SCHEMA = Schema(
    cameras=(Camera("corner2", 84, 84),),
    state_names=("x", "y", "z", "gripper"),
    state_units=("m", "m", "m", ""),
    action_names=("dx", "dy", "dz", "grip"),
    action_units=("", "", "", ""),
    rate=80.0,
)


def choices(group: str) -> list[str]:
    folder = CONFIGS / group
    return sorted(p.relative_to(folder).with_suffix("").as_posix() for p in folder.rglob("*.yaml"))


def compose_config(*overrides: str, name: str = "train") -> DictConfig:
    with initialize_config_dir(str(CONFIGS), version_base="1.3"):
        return compose(name, list(overrides))


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


def act_config(model: DictConfig) -> ACTConfig:
    fields: dict[str, Any] = OmegaConf.to_container(model)  # type: ignore[assignment]
    return ACTConfig.for_schema(SCHEMA, **fields)


def check(config: DictConfig) -> None:
    """Build everything that needs neither demonstrations nor a GPU."""
    OmegaConf.to_container(config, resolve=True)
    act_config(config.model)
    assert isinstance(instantiate(config.optim), OptimizerConfig)
    data: dict[str, Any] = OmegaConf.to_container(config.data)  # type: ignore[assignment]
    DemonstrationDataModule.from_config(data | {"path": "somewhere"}, 4, 0)
    make_settings(AugmentationConfig, config.augmentation)
    assert set(instantiate(config.callbacks)) == set(config.callbacks)
    assert config.loss.kl_weight is None or config.model.latent_size > 0
    assert config.max_steps >= config.validate_every >= config.log_every


@pytest.mark.parametrize("choice", choices("experiment"))
def test_experiments(choice: str) -> None:
    check(compose_config(f"experiment={choice}"))


@pytest.mark.parametrize("choice", choices("debug"))
def test_debug_combines_with_every_experiment(choice: str) -> None:
    for experiment in choices("experiment"):
        check(compose_config(f"experiment={experiment}", f"debug={choice}"))


@pytest.mark.parametrize("group", ["model", "optim", "callbacks", "data", "augmentation"])
def test_groups(group: str) -> None:
    for choice in choices(group):
        check(compose_config(f"{group}={choice}"))


@pytest.mark.parametrize("choice", choices("trainer"))
def test_trainers(choice: str, tmp_path: Path) -> None:
    config = compose_config(f"trainer={choice}")
    trainer = instantiate(
        config.trainer, folder=tmp_path, max_steps=5, validate_every=2, log_every=1
    )
    assert trainer.max_steps == 5
    expected = 1 if choice != "ddp" else (torch.cuda.device_count() or 2)
    assert trainer.num_devices == expected
    assert list(tmp_path.iterdir()) == []


def test_classes_named_by_loggers_can_be_imported() -> None:
    for choice in choices("logger"):
        for logger in compose_config(f"logger={choice}").logger.values():
            module, _, name = logger._target_.rpartition(".")
            __import__(module)
            assert hasattr(sys.modules[module], name)


@pytest.mark.parametrize("choice", choices("model"))
def test_networks(choice: str) -> None:
    config = act_config(compose_config(f"model={choice}").model)
    assert f"(b, {config.chunk_length}, 4)" in ACT(config).describe()


def test_act_paper_is_the_original_network() -> None:
    config = act_config(compose_config("model=act_paper").model)
    assert config == ACTConfig.for_schema(SCHEMA)  # the defaults of ACTConfig are the paper's


def test_every_model_config_sets_every_field_of_the_network() -> None:
    fields = set(ACTConfig.__dataclass_fields__) - set(SCHEMA_FIELDS)
    for choice in choices("model"):
        assert set(compose_config(f"model={choice}").model) == fields


@pytest.mark.parametrize("name", sorted(p.stem for p in CONFIGS.glob("*.yaml")))
def test_every_script_has_a_configuration(name: str) -> None:
    assert (ROOT / "scripts" / f"{name}.py").is_file()


def test_what_is_null_without_an_experiment_may_be_null_with_it() -> None:
    config = configuration("train", ["experiment=tiny", "loss.kl_weight=null", "plan=null"])
    assert config.loss.kl_weight is None
    for setting in ("optim.learning_rate=null", "max_steps=null"):
        with pytest.raises(UserError, match="=null: expected"):
            configuration("train", ["experiment=tiny", setting])


def test_an_older_run_is_still_told_no_task(tmp_path: Path) -> None:
    for saved in ("{path: a}", "{path: a, select: null}", "{path: a, select: {trim: 0.1}}"):
        (tmp_path / "config.yaml").write_text(f"data: {saved}")
        assert run_config(tmp_path)["data"]["select"]["tasks"] is False
    (tmp_path / "config.yaml").write_text("data: {path: a, select: {tasks: null}}")
    assert run_config(tmp_path)["data"]["select"] == {"tasks": None}


def test_a_run_saved_under_older_names_can_be_resumed() -> None:
    now = compose_config("experiment=tiny", "loss.kl_weight=2.0", "backbone_weights=file.pth")
    saved = now.copy()
    OmegaConf.set_struct(saved, False)
    saved.model.kl_weight, saved.model.backbone_weights = 2.0, "file.pth"
    del saved.loss, saved.backbone_weights, saved.augmentation
    saved.optim._target_ = "act_policy.training.elsewhere.OptimizerConfig"
    saved.callbacks = {"monitor": {"_target_": "act_policy.training.monitor.Monitor"}}
    moved = now.copy()
    for callback in moved.callbacks.values():
        callback._target_ = "act_policy.training.elsewhere.Callback"
    for run in (saved, moved, now.copy()):
        assert OmegaConf.to_container(migrate_config(run, now)) == OmegaConf.to_container(now)
