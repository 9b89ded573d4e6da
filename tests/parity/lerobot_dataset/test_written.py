"""What LeRobot and rerun said of the datasets that we write is what our reader says of them.

record.py asked them; here the same datasets are written again.
"""

import json
from functools import cache

import numpy as np
import pytest

from act_policy.data.open import open_dataset
from tests.data.lerobot_for_tests import number_of, shown
from tests.parity.lerobot_dataset.cases import CASES, RECORDS, write_case
from tests.parity.lerobot_dataset.peer import LENGTHS

RECORDED = {
    path.stem: json.loads(path.read_text()) for path in RECORDS.glob("lerobot_dataset_*.json")
}
READ = [(record, case) for record in sorted(RECORDED) for case in CASES if case in RECORDED[record]]


def test_the_newest_lerobot_read_every_case():
    assert [case for record, case in READ if record == "lerobot_dataset_0_6_1"] == list(CASES)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Write a case, once for all records of it; its folder."""
    return cache(lambda case: write_case(case, tmp_path_factory.mktemp(case)))


@pytest.mark.parametrize(("record", "case"), READ)
def test_lerobot_reads_what_we_write(written, record, case):
    said = RECORDED[record][case]
    dataset = open_dataset(written(case))
    assert (said["episodes"], said["frames"], said["rate"]) == (5, sum(LENGTHS), 10)
    assert dataset.lengths.tolist() == list(LENGTHS)
    assert len({episode.file for episode in dataset.episodes}) > 1
    assert len({dataset.image_file(episode, "top") for episode in range(5)}) > 1
    assert len(said["steps"]) == sum(LENGTHS)
    ends = np.cumsum(LENGTHS)
    for index, step in enumerate(said["steps"]):
        episode = int(np.searchsorted(ends, index, side="right"))
        at = index - int(ends[episode] - LENGTHS[episode])
        assert (step["episode"], step["step"], step["index"]) == (episode, at, index)
        assert dataset.instructions(episode)[step["task"]][at]
        np.testing.assert_array_equal(np.float32(step["state"]), dataset.state(episode)[at])
        rows = np.minimum(at + np.arange(4), LENGTHS[episode] - 1)
        np.testing.assert_array_equal(np.float32(step["actions"]), dataset.action(episode)[rows])
        assert step["is_pad"] == (at + np.arange(4) >= LENGTHS[episode]).tolist()
        if step["effort"] is not None:
            effort = dataset.vector(episode, "effort")[at]
            np.testing.assert_array_equal(np.float32(step["effort"]), effort)
        for camera in ("top", "wrist"):
            expected = shown(camera, index)
            assert step["shown"][f"observation.images.{camera}"] == expected
            if at in (0, LENGTHS[episode] - 1):
                assert number_of(dataset.frame(episode, at, camera)) == expected
    assert ("effort" in dataset.vector_names) == (step["effort"] is not None)
    meta = json.loads((dataset.folder / "meta" / "stats.json").read_text())
    assert meta.keys() == said["stats"].keys()
    for key in ("action", "observation.state", "index", "observation.images.top"):
        for name, value in meta[key].items():
            np.testing.assert_allclose(said["stats"][key][name], value, atol=1e-3)
    every = np.concatenate([dataset.action(e) for e in range(5)]).astype(np.float64)
    np.testing.assert_allclose(meta["action"]["mean"], every.mean(0), atol=1e-7)
    np.testing.assert_allclose(meta["action"]["std"], every.std(0), atol=1e-7)
    np.testing.assert_allclose(meta["action"]["q90"], np.quantile(every, 0.9, 0), atol=1e-7)


@pytest.mark.parametrize("case", [case for case in CASES if case != "theirs"])
def test_rerun_reads_what_we_write(case):
    said = RECORDED["lerobot_dataset_0_4_4"]["rerun"][case]
    features = ["action", "observation.state"]
    if case != "b_frames_copied":  # rerun 0.41 shows no video with B-frames, whoever wrote it
        features += ["observation.images.top", "observation.images.wrist"]
    assert {key: said.get(key) for key in features} == dict.fromkeys(features, sum(LENGTHS))
