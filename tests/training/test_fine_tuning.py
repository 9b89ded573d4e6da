"""Fine-tuning: before the first step the policy equals the old one to the bit, on any data."""

import json
import logging
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from act_policy.checkpoints.lerobot.checkpoint import load_lerobot, save_lerobot
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.errors import UserError
from act_policy.export.export import ExportConfig, export_policy
from act_policy.export.parity import random_observation
from act_policy.model.config import ACTConfig
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import FieldStatistics, Statistics
from act_policy.training.build import build_training
from act_policy.training.fine_tuning import network_config, start_from
from act_policy.training.optimizer import OptimizerConfig
from act_policy.types import Schema
from tests.paths import ROOT
from tests.training.training_for_tests import (
    SCHEMA,
    TINY,
    make_data,
    run_training,
    write_demonstrations,
)

TRAIN = ROOT / "scripts" / "train.py"


def make_policy(schema: Schema = SCHEMA, **fields: object) -> ACTPolicy:
    """Make a policy whose normalisation is far from that of the demonstrations."""
    torch.manual_seed(1)
    settings = TINY | fields
    state = FieldStatistics(*(np.array(x) for x in ([5, -3.0], [2, 4.0], [1, -9.0], [9, 3.0])))
    unknown = np.full(3, np.nan)
    action = FieldStatistics(np.array([1, 2, 0.5]), np.array([3, 0, 0.5]), unknown, unknown)
    policy = ACTPolicy(
        ACTConfig.for_schema(schema, **settings), schema, Statistics(state, action, step_count=7)
    )
    policy.demonstration_seeds = (1, 101)
    return policy.eval()


def begin(policy: ACTPolicy, data: DemonstrationDataModule) -> ACTPolicy:
    kl_weight = 1.0 if policy.config.latent_size else None
    return build_training(
        network_config(policy), OptimizerConfig(), data, 1, initial=policy, kl_weight=kl_weight
    ).policy


@pytest.fixture(scope="module")
def demonstrations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_demonstrations(tmp_path_factory.mktemp("demonstrations"))


def test_fine_tuning_starts_with_the_same_policy(demonstrations: Path) -> None:
    policy, data = make_policy(), make_data(demonstrations)
    assert network_config(policy) == TINY
    started = begin(policy, data)
    observation = random_observation(policy, 3, np.random.default_rng(0))
    assert np.array_equal(started.predict_chunk(observation), policy.predict_chunk(observation))
    # the seeds of both, so that evaluation uses neither
    assert started.demonstration_seeds == tuple(sorted({1, 101, *data.demonstration_seeds}))
    before, now, ours = policy.statistics, data.statistics, started.statistics
    assert ours.step_count == now.step_count
    np.testing.assert_array_equal(ours.state.mean, before.state.mean)
    np.testing.assert_array_equal(ours.state.min, np.minimum(before.state.min, now.state.min))
    np.testing.assert_array_equal(ours.action.max, now.action.max)


def test_fine_tuning_is_saved_and_resumed(demonstrations: Path, tmp_path: Path) -> None:
    policy, data = make_policy(), make_data(demonstrations)
    model = network_config(policy)
    optimizer = OptimizerConfig(warmup_steps=2, ema_decay=0.9)
    training = build_training(model, optimizer, data, 10, initial=policy, kl_weight=1.0)
    observation = random_observation(policy, 2, np.random.default_rng(0))
    expected = policy.predict_chunk(observation)
    assert np.array_equal(training.policy.predict_chunk(observation), expected)

    first = run_training(demonstrations, tmp_path / "first", stop_at=5)
    other = write_demonstrations(tmp_path / "other", lengths=(5, 8, 6), seed=1)
    start = ACTPolicy.load(first.folder)
    tuned = run_training(
        other, tmp_path / "tuned", stop_at=5, initial=start, model=network_config(start)
    )
    saved = ACTPolicy.load(tuned.folder)
    assert not np.array_equal(saved.predict_chunk(observation), start.predict_chunk(observation))
    np.testing.assert_array_equal(saved.statistics.action.std, start.statistics.action.std)
    last = tuned.checkpoints / "last.ckpt"
    resumed = run_training(other, tmp_path / "tuned", checkpoint=last, fine_tuned=True)
    assert resumed.recorder.steps == [6, 7, 8, 9, 10]
    with pytest.raises(UserError, match="trained on other data: step_count"):
        run_training(demonstrations, tmp_path / "tuned", checkpoint=last, fine_tuned=True)


def with_tasks(demonstrations: Path, *told: str) -> DemonstrationDataModule:
    """Read demonstrations as if these were the episodes' instructions."""
    data = make_data(demonstrations, held_out_fraction=0.0)
    dataset = data.dataset
    every = dict(enumerate(told * len(dataset.episodes)))
    dataset.instructions = lambda e: {every[e]: np.ones(dataset.lengths[e], bool)}  # type: ignore[method-assign]
    dataset.schema = replace(dataset.schema, tasks=tuple(text for text in told if text))
    return data


def test_tasks_are_added_and_the_others_stay(demonstrations: Path) -> None:
    policy = make_policy(replace(SCHEMA, tasks=("open it", "close it")))
    model, optimizer = network_config(policy), OptimizerConfig(warmup_steps=2)
    observation = random_observation(policy, 3, np.random.default_rng(0))

    def start(*told: str) -> tuple[ACTPolicy, DemonstrationDataModule]:
        data = with_tasks(demonstrations, *told)
        return build_training(
            model, optimizer, data, 10, initial=policy, kl_weight=1.0
        ).policy, data

    more, data = start("leave it", "close it")
    assert more.schema.tasks == ("open it", "close it", "leave it")
    # episodes take turns: the new task, and the second of those known before
    first = data.train_samples.__getitems__([0, 9])
    assert first.observation.task.tolist() == [2, 1]
    for task in policy.schema.tasks:
        asked = observation._replace(task=task)
        assert np.array_equal(more.predict_chunk(asked), policy.predict_chunk(asked))
    added = more.predict_chunk(observation._replace(task="leave it"))
    assert not np.array_equal(added, more.predict_chunk(asked))

    same, data = start("close it")
    assert same.config == policy.config
    assert data.train_samples[0].observation.task.tolist() == [1]

    with pytest.raises(UserError, match="step 0 has none of the 2 instructions 'open it'; 'close"):
        _ = start("")[1].train_samples


def test_a_policy_of_one_task_gets_tokens_for_both(demonstrations: Path) -> None:
    policy, data = (
        make_policy(replace(SCHEMA, tasks=("open it",))),
        with_tasks(demonstrations, "new"),
    )
    data.known_tasks = policy.schema.tasks
    started = start_from(policy, data.schema, data.statistics)
    assert (started.schema.tasks, started.config.task_count) == (("open it", "new"), 2)
    kept = policy.state_dict()
    assert all(torch.equal(started.state_dict()[name], kept[name]) for name in kept)


def test_other_robots_are_refused_by_name(demonstrations: Path) -> None:
    data = make_data(demonstrations)
    turned = replace(SCHEMA, cameras=SCHEMA.cameras[::-1])
    other = replace(SCHEMA, state_names=("x", "z"), action_units=("cm", "cm", ""))
    for schema, message in (
        (turned, r"cameras: .*data\.cameras="),
        (other, r"state_names: \['x', 'z'\] in the checkpoint, \['x', 'y'\].*action_units"),
    ):
        with pytest.raises(UserError, match=message):
            start_from(make_policy(schema), data.schema, data.statistics)


def test_differences_from_the_old_data_give_warnings(
    demonstrations: Path, caplog: pytest.LogCaptureFixture
) -> None:
    data = make_data(demonstrations)
    start_from(make_policy(replace(SCHEMA, rate=50.0)), data.schema, data.statistics)
    # an action that was constant before: its scale is the floor
    assert "action dy of the demonstrations is up to" in caplog.text
    assert "action dx" not in caplog.text
    assert "50 steps per second, the demonstrations at 10" in caplog.text


def test_lerobots_joints_get_the_names_of_the_demonstrations(
    demonstrations: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The imported and trained policy is exported again."""
    lerobot = {"backbone_stages": 4, "backbone_width": 1.0, "camera_embedding": False}
    save_lerobot(make_policy(**lerobot), tmp_path / "theirs")
    (tmp_path / "theirs" / "schema.json").unlink()
    policy, data = load_lerobot(tmp_path / "theirs"), make_data(demonstrations)
    with caplog.at_level(logging.WARNING):
        started = begin(policy, data)
    assert "taken to be x, y -> dx, dy, grip" in caplog.text
    assert started.schema == data.schema
    observation = random_observation(policy, 2, np.random.default_rng(0))
    expected = policy.predict_chunk(observation)
    assert np.array_equal(started.predict_chunk(observation), expected)
    report = export_policy(started, tmp_path / "out", ExportConfig(("bundle", "lerobot")))
    assert report["formats"]["lerobot"]["largest_error_in_std"] <= 1e-4
    small = replace(SCHEMA, state_names=("x",), state_units=("m",))
    with pytest.raises(UserError, match="state_size: the network has 2, the schema 1"):
        start_from(policy, small, data.statistics)


@pytest.mark.slow
def test_the_script(demonstrations: Path, tmp_path: Path) -> None:
    make_policy().save(tmp_path / "bundle")

    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, str(TRAIN), *arguments], capture_output=True, text=True, cwd=tmp_path
        )

    start = ["init=bundle", "experiment=tiny", f"data.path={demonstrations}"]
    done = call(*start, "out=run", "max_steps=4", "validate_every=2")
    assert done.returncode == 0, done.stderr
    assert "its network and its normalisation stay" in done.stdout
    done = call("resume=run", "max_steps=6")
    assert done.returncode == 0, done.stderr
    found = ACTPolicy.load(tmp_path / "run")
    np.testing.assert_array_equal(found.statistics.state.mean, [5, -3])
    assert json.loads(json.dumps(found.config.to_dict())) == make_policy().config.to_dict()
    for arguments, message in (
        (
            [*start, "model.width=32", "out=new"],
            "model.width: with init= the network is the checkpoint's",
        ),
        (["resume=run", "init=bundle"], "not both"),
        (["init=nowhere", *start[1:], "out=new"], "nowhere does not exist"),
    ):
        done = call(*arguments)
        assert done.returncode == 2, done.stderr
        assert message in done.stderr
