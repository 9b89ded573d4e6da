"""Observations to calibrate with are as the policy sees them, not as they were recorded."""

from pathlib import Path

import numpy as np
import pytest

from act_policy.data.reader_config import ReaderConfig
from act_policy.data.selection.demonstrations import RunReading, open_demonstrations
from act_policy.errors import UserError
from act_policy.export.export import ExportConfig
from act_policy.export.observations import demonstrated_observations
from tests.training.training_for_tests import write_demonstrations

RENAMED = ReaderConfig(cameras={"top": "front"})
RESIZED = {"resize": [8, 12], "crop": [1, 2, 10, 11], "state": ["y"]}


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_demonstrations(tmp_path_factory.mktemp("demonstrations"), lengths=(3, 4))


@pytest.mark.parametrize(
    ("trained", "is_known"),
    [
        (RunReading(RENAMED, RESIZED), True),
        (RunReading(RENAMED, {"episodes": [1]}), True),
        (RunReading(select=RESIZED), False),  # a bundle, whose schema says what was selected
    ],
)
def test_observations_are_selected_as_in_training(
    demonstrations: Path, trained: RunReading, is_known: bool
) -> None:
    schema = open_demonstrations(demonstrations, trained.select, reader=trained.reader).schema
    found = demonstrated_observations(demonstrations, schema, 100, trained if is_known else None)
    assert len(found) == 7  # every episode counts
    select = {key: value for key, value in trained.select.items() if key != "episodes"}
    dataset = open_demonstrations(demonstrations, select, reader=trained.reader)
    for place, (episode, step) in ((0, (0, 0)), (4, (1, 1))):
        np.testing.assert_array_equal(found[place].state, dataset.state(episode)[step])
        assert set(found[place].images) == set(schema.camera_names)
        for name, image in found[place].images.items():
            np.testing.assert_array_equal(image, dataset.frame(episode, step, name))


def test_observations_that_no_precision_needs_are_refused(demonstrations: Path) -> None:
    with pytest.raises(UserError, match=r"only fp16 and int8 .*precision="):
        ExportConfig(("onnx", "bundle"), observations=str(demonstrations))


def test_observations_of_another_robot_are_refused(demonstrations: Path) -> None:
    schema = open_demonstrations(demonstrations, reader=RENAMED).schema
    with pytest.raises(UserError, match=r"observations=.*top"):
        demonstrated_observations(demonstrations, schema, 4, None)
