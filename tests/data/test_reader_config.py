"""Every command takes the settings of the reader, and a run's flat settings give them back."""

from dataclasses import asdict

import pytest
from omegaconf import OmegaConf

from act_policy.cli.entry import configuration
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.reader_config import ReaderConfig
from act_policy.data.selection.demonstrations import RunReading
from act_policy.errors import UserError


@pytest.mark.parametrize(
    ("name", "prefix"), [("train", "data."), ("inspect_dataset", ""), ("convert_dataset", "")]
)
def test_commands_take_the_settings_of_the_reader(name: str, prefix: str) -> None:
    plain = configuration(name, [])
    assert ReaderConfig.from_config(plain.data if prefix else plain) == ReaderConfig()
    given = configuration(name, [f"{prefix}jpeg_order=rgb", f"{prefix}cameras=[top]"])
    settings = OmegaConf.to_container(given.data if prefix else given)
    assert isinstance(settings, dict)
    assert set(asdict(ReaderConfig())) <= settings.keys()
    assert ReaderConfig.from_config(settings) == ReaderConfig(cameras=["top"], jpeg_order="rgb")
    with pytest.raises(UserError, match=f"did you mean {prefix}jpeg_order"):
        configuration(name, [f"{prefix}jpg_order=rgb"])


def test_the_flat_settings_of_an_older_run_still_open_its_data() -> None:
    """Older runs name the class of their data, and lack settings that came later."""
    data = {"path": "somewhere", "batch_size": 2, "unreadable": "skip", "select": {"exclude": [1]}}
    run = RunReading.from_config({"data": data})
    assert run == RunReading(ReaderConfig(unreadable="skip"), {"exclude": [1]})
    module = {"_target_": "act_policy.data.datamodule.DemonstrationDataModule"}
    assert DemonstrationDataModule.from_config(module | data, 4, 0).batch_size == 2
    assert RunReading.from_config({}) == RunReading()


def test_a_camera_may_be_given_by_its_name_alone() -> None:
    assert ReaderConfig(cameras="top").cameras == ("top",)
