"""Bundles of every format version that was ever written open, and predict what they did."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from act_policy.checkpoints.bundle import FORMAT_VERSION
from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.model.policy import ACTPolicy
from act_policy.types import Observation
from tests.tolerance import RESNET18, network_rounding

BUNDLES = Path(__file__).with_name("bundles")


def test_there_is_an_example_of_every_version() -> None:
    found = {folder.name for folder in BUNDLES.iterdir()}
    assert found == {f"v{version}" for version in range(1, FORMAT_VERSION + 1)}


@pytest.mark.parametrize("version", range(1, FORMAT_VERSION + 1))
def test_a_frozen_bundle_predicts_what_it_predicted(version: int, tmp_path: Path) -> None:
    folder = BUNDLES / f"v{version}"
    policy = ACTPolicy.load(folder)
    assert policy.demonstration_seeds == (3, 4)
    assert policy.execution == Execution()  # from before there was one
    golden = np.load(folder / "golden.npz")
    images = {name: golden[name] for name in policy.schema.camera_names}
    observation = Observation(images, golden["state"], golden["environment_state"])
    scale = policy.statistics.scale(policy.statistics.action)
    error = np.abs(policy.predict_chunk(observation) - golden["actions"]) / scale
    largest = np.max(np.abs(golden["actions"]) / scale)
    assert error.max() <= network_rounding(RESNET18 // 4, largest)
    policy.save(tmp_path)  # today's version of it
    assert "task" not in json.loads((tmp_path / "schema.json").read_text())
    again = ACTPolicy.load(tmp_path)
    assert np.array_equal(again.predict_chunk(observation), policy.predict_chunk(observation))


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, "1", None])
def test_a_newer_bundle_is_refused(version: object, tmp_path: Path) -> None:
    folder = tmp_path / "bundle"
    shutil.copytree(BUNDLES / f"v{FORMAT_VERSION}", folder)
    config = json.loads((folder / "config.json").read_text())
    config["format_version"] = version
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(
        UserError,
        match=rf"bundle has format version {version}, this act_policy reads {FORMAT_VERSION}",
    ):
        ACTPolicy.load(folder)
