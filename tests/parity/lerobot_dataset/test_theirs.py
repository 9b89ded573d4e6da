"""A dataset that LeRobot 0.6.1 recorded is read, trained on and converted as LeRobot reads it.

It has a depth camera, files of a few kilobytes, videos encoded while recording, and an episode with
two instructions; record_theirs.py made it. What LeRobot says of our conversion is test_written.py's
to check, in the case "theirs".
"""

import json
import shutil
from typing import Any

import numpy as np
import pytest

from act_policy import ACTPolicy
from act_policy.data.conversion.convert import convert
from act_policy.data.dataset import DEPTH
from act_policy.data.open import open_dataset
from tests.parity.lerobot_dataset.cases import THEIRS
from tests.parity.lerobot_dataset.peer import DEPTH as DEPTH_KEY
from tests.parity.lerobot_dataset.peer import LENGTHS
from tests.scripts_for_tests import call_script

RECORD: dict[str, Any] = json.loads(THEIRS.with_suffix(".json").read_text())
SAID: dict[str, Any] = RECORD["theirs"]


def test_every_step_is_what_lerobot_gives() -> None:
    assert (RECORD["lerobot"], SAID["depth"]) == ("0.6.1", [DEPTH_KEY])
    dataset = open_dataset(THEIRS)
    assert dataset.lengths.tolist() == list(LENGTHS)
    assert (SAID["episodes"], SAID["frames"], SAID["rate"]) == (5, sum(LENGTHS), 10)
    assert len({episode.file for episode in dataset.episodes}) > 1
    assert len({dataset.image_file(episode, "top") for episode in range(5)}) > 1
    for step in SAID["steps"]:
        episode, at = step["episode"], step["step"]
        assert dataset.instructions(episode)[step["task"]][at]
        np.testing.assert_array_equal(np.float32(step["state"]), dataset.state(episode)[at])
        np.testing.assert_array_equal(np.float32(step["actions"][0]), dataset.action(episode)[at])
        effort = dataset.vector(episode, "effort")[at]
        np.testing.assert_array_equal(np.float32(step["effort"]), effort)
    assert [list(dataset.instructions(e)) for e in (1, 2, 3)] == [
        ["pick the cube"],
        ["pick the cube", "stack the cubes"],
        ["stack the cubes"],
    ]


def test_every_image_is_what_lerobot_decodes() -> None:
    dataset = open_dataset(THEIRS)
    with np.load(THEIRS.with_suffix(".npz")) as decoded:
        for camera in ("top", "wrist"):
            ours = [dataset.frame(e, t, camera) for e, n in enumerate(LENGTHS) for t in range(n)]
            np.testing.assert_array_equal(np.stack(ours), decoded[f"observation.images.{camera}"])


def test_depth_is_named_as_left_out() -> None:
    dataset = open_dataset(THEIRS)
    assert dataset.schema.camera_names == ("top", "wrist")
    assert dataset.left_out == {DEPTH_KEY: DEPTH, "next.done": ""}
    assert dataset.notes == []


def test_it_is_converted(tmp_path) -> None:
    source = open_dataset(THEIRS)
    said = convert(source, tmp_path / "b", "aloha_hdf5", workers=1)
    assert f"{DEPTH_KEY} ({DEPTH})" in said
    made = open_dataset(tmp_path / "b")
    for episode in range(len(LENGTHS)):
        np.testing.assert_array_equal(made.action(episode), source.action(episode))
        np.testing.assert_array_equal(made.state(episode), source.state(episode))


@pytest.mark.slow
def test_it_is_trained_on(tmp_path) -> None:
    folder = shutil.copytree(THEIRS, tmp_path / "theirs")  # decoded frames are kept beside it
    arguments = ("experiment=tiny", f"data.path={folder}", f"out={tmp_path}/run", "max_steps=2")
    done = call_script("train.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert f"not used: next.done; {DEPTH_KEY} ({DEPTH})" in done.stdout
    assert not open_dataset(THEIRS).schema.differences(ACTPolicy.load(tmp_path / "run").schema)
