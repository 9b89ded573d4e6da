"""Runs as demonstrations, with the steps in which a person acted."""

from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import pytest
from loop_for_tests import SCHEMA, Bench

from act_policy.control.recording import EpisodeRecorder
from act_policy.control.safety import Mode
from act_policy.data.dataset import open_dataset


class LeaderArm:
    def __init__(self) -> None:
        self.shoulder = 0.4

    def get_action(self) -> Mapping[str, float]:
        return {"shoulder": self.shoulder, "gripper": 0.5, "base": 0.0}


def test_the_operator_takes_over_and_hands_back_and_it_is_recorded(tmp_path: Path) -> None:
    leader = LeaderArm()
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {"policy": "p.onnx"})
    bench = Bench(device=leader, recorder=recorder)
    bench.start(5)
    bench.operator.key("t")
    sent = [command["shoulder"] for command in bench.run(20)]
    assert sent[0] == pytest.approx(0.22)  # slowly, as at the start
    assert sent[-1] == pytest.approx(0.4)
    leader.shoulder = 0.41
    assert bench.run(2)[-1]["shoulder"] == pytest.approx(0.41)
    bench.operator.key("t")
    bench.run(5)
    bench.operator.key(" ")
    bench.run(3)
    bench.start(6)
    first, second = recorder.write()
    dataset = open_dataset(tmp_path)
    assert dataset.schema == SCHEMA
    assert list(dataset.lengths) == [5 + 20 + 2 + 5, 6]
    with h5py.File(first) as file:
        assert list(file["operator"][()]) == [False] * 5 + [True] * 22 + [False] * 5
    sent = [[c[name] for name in SCHEMA.action_names] for c in bench.arm.sent[:32]]
    np.testing.assert_allclose(dataset.action(0), np.array(sent, np.float32))
    assert second.name == "episode_000001.hdf5"
    assert EpisodeRecorder(tmp_path, SCHEMA, {}).write() == []


def test_a_recording_that_is_full_stops_and_says_so(tmp_path: Path) -> None:
    recorder = EpisodeRecorder(tmp_path, SCHEMA, {}, most_bytes=4 * 2 * 4 * 6 * 3)
    bench = Bench(recorder=recorder)
    bench.start(12)
    assert bench.events.counts["recording"] == 1
    assert bench.supervisor.mode is Mode.RUNNING
    assert len(recorder.write()) == 1
