"""ACTPolicy: raw in, physical out; saved and loaded without loss, network or surprises."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from act_policy.checkpoints.bundle import to_checkpoint
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError
from act_policy.model.policy import ACTPolicy
from act_policy.statistics import Statistics
from act_policy.types import Observation
from tests.model.conftest import LONGEST_PATH
from tests.tolerance import network_rounding, rounding


def one(observation: Observation[np.ndarray], index: int) -> Observation[np.ndarray]:
    images = {name: image[index] for name, image in observation.images.items()}
    return Observation(images, observation.state[index])


def test_predict_chunk_takes_what_people_have(
    make_policy: Callable[..., ACTPolicy], observation: Observation[np.ndarray]
) -> None:
    policy = make_policy()
    batch = policy.predict_chunk(observation)
    assert batch.shape == (3, 5, 2)
    assert batch.dtype == np.float32
    single = policy.predict_chunk(one(observation, 1))
    tolerance = network_rounding(LONGEST_PATH, np.abs(batch).max())
    np.testing.assert_allclose(single, batch[1], rtol=0, atol=tolerance)
    keys = {f"observation.images.{name}": image for name, image in observation.images.items()}
    keys["observation.state"] = observation.state
    np.testing.assert_array_equal(policy.predict_chunk(keys), batch)
    tensors = {key: torch.tensor(value) for key, value in keys.items()}
    np.testing.assert_array_equal(policy.predict_chunk(tensors), batch)
    # float64 states, read-only arrays and mirrored views are what simulators and robots hand over
    images = {name: image[:, :, ::-1][:, :, ::-1] for name, image in observation.images.items()}
    state = observation.state.astype(np.float64)
    state.setflags(write=False)
    np.testing.assert_array_equal(policy.predict_chunk(Observation(images, state)), batch)


def test_predict_chunk_is_deterministic_and_keeps_the_mode(
    make_policy: Callable[..., ACTPolicy], observation: Observation[np.ndarray]
) -> None:
    policy = make_policy(dropout=0.5).train()
    first = policy.predict_chunk(observation)
    np.testing.assert_array_equal(policy.predict_chunk(observation), first)
    assert policy.training
    assert policy.act.encoder.training
    assert not policy.eval().training


def test_the_control_loop_runs_it(
    make_policy: Callable[..., ACTPolicy], observation: Observation[np.ndarray]
) -> None:
    policy = make_policy()
    assert isinstance(policy, ChunkPolicy)
    executor = ChunkExecutor(policy, execute_steps=2)
    first, second = (one(observation, index) for index in (0, 1))
    actions = [executor.select_action(seen) for seen in (first, second, second)]
    expected = [policy.predict_chunk(first)[:2], policy.predict_chunk(second)[:1]]
    np.testing.assert_array_equal(actions, np.concatenate(expected))


def test_output_is_in_physical_units(
    make_policy: Callable[..., ACTPolicy],
    observation: Observation[np.ndarray],
    statistics: Statistics,
) -> None:
    policy = make_policy()
    with torch.no_grad():
        policy.act.action_head.weight.zero_()
        policy.act.action_head.bias.copy_(torch.tensor([0.0, 2.0]))
    chunk = policy.predict_chunk(one(observation, 0))
    expected = statistics.action.mean + np.array([0, 2]) * statistics.action.std
    tolerance = rounding(3, 70.0)
    np.testing.assert_allclose(chunk, np.tile(expected, (5, 1)), rtol=0, atol=tolerance)


def test_wrong_observations_are_refused(
    make_policy: Callable[..., ACTPolicy], observation: Observation[np.ndarray]
) -> None:
    policy = make_policy()
    renamed = Observation(
        {"top": observation.images["top"], "side": observation.images["wrist"]}, observation.state
    )
    with pytest.raises(UserError, match=r"'top', 'wrist'.*'side', 'top'"):
        policy.predict_chunk(renamed)
    nan = observation.state.copy()
    nan[1, 2] = np.nan
    with pytest.raises(UserError, match="gripper"):
        policy.predict_chunk(observation._replace(state=nan))
    swapped = {
        "top": observation.images["wrist"],
        "wrist": observation.images["top"],
    }
    with pytest.raises(UserError, match=r"top.*\(3, 24, 24, 3\).*\(3, 32, 48, 3\)"):
        policy.predict_chunk(observation._replace(images=swapped))


def write_run(policy: ACTPolicy, folder: Path, name: str) -> None:
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    torch.save({"epoch": 3, **to_checkpoint(policy)}, folder / "checkpoints" / f"{name}.ckpt")


def test_every_way_to_load(
    make_policy: Callable[..., ACTPolicy], observation: Observation[np.ndarray], tmp_path: Path
) -> None:
    policy = make_policy(camera_embedding=True)
    chunk = policy.predict_chunk(observation)
    policy.save(tmp_path / "bundle")
    write_run(policy, tmp_path / "run", "last")
    for path in (tmp_path / "bundle", tmp_path / "run", tmp_path / "run/checkpoints/last.ckpt"):
        loaded = ACTPolicy.load(path)
        assert not loaded.training
        assert loaded.config == policy.config
        assert loaded.schema == policy.schema
        assert loaded.statistics.step_count == 123
        np.testing.assert_array_equal(loaded.statistics.action.std, policy.statistics.action.std)
        np.testing.assert_array_equal(loaded.predict_chunk(observation), chunk)
    with torch.no_grad():
        policy.act.action_head.bias += 1
    write_run(policy, tmp_path / "run", "best")
    best = ACTPolicy.load(str(tmp_path / "run")).predict_chunk(observation)
    assert (best > chunk + 0.4).all()
    assert sorted(p.name for p in (tmp_path / "bundle").iterdir()) == [
        "config.json",
        "model.safetensors",
        "schema.json",
    ]
    assert json.loads((tmp_path / "bundle" / "config.json").read_text())["format_version"] == 1


def test_what_is_no_policy_is_refused_by_name(
    make_policy: Callable[..., ACTPolicy], tmp_path: Path
) -> None:
    policy = make_policy()

    def bundle(name: str) -> Path:
        policy.save(tmp_path / name)
        return tmp_path / name

    (tmp_path / "empty").mkdir()
    (tmp_path / "garbage.ckpt").write_bytes(b"no checkpoint")
    torch.save({"state_dict": {}}, tmp_path / "other.ckpt")
    torch.save(torch.nn.Linear(1, 1), tmp_path / "code.ckpt")
    (bundle("torn") / "model.safetensors").write_bytes(b"torn")
    (bundle("unlike") / "config.json").write_text('{"type": "act"}')
    newer = bundle("newer") / "config.json"
    newer.write_text(newer.read_text().replace('"format_version": 1', '"format_version": 2'))
    (bundle("bare") / "schema.json").unlink()
    wider = bundle("wider") / "config.json"
    wider.write_text(wider.read_text().replace('"width": 16', '"width": 32'))
    mixed = bundle("mixed") / "model.safetensors"
    weights = load_file(mixed)
    weights["act.action_head.bias"] += 1
    save_file(weights, mixed)
    renamed = bundle("renamed") / "schema.json"
    renamed.write_text(renamed.read_text().replace('"gripper"', '"finger"'))
    edited = to_checkpoint(policy)
    edited["policy_weights"]["normalizer.action_mean"] = torch.full((2,), 9.0)
    torch.save(edited, tmp_path / "edited.ckpt")
    cases = {
        "absent": "does not exist",
        "empty": "checkpoints/best.ckpt",
        "garbage.ckpt": "cannot be read",
        "other.ckpt": "'act_policy'",
        "code.ckpt": "cannot be read",
        "torn": "model.safetensors cannot be read",
        "unlike": "not written by act_policy",
        "newer": "format version 2",
        "bare": "schema.json cannot be read",
        "wider": "do not fit the config",
        "mixed": r"model\.safetensors is not the one that config\.json was written with",
        "renamed": r"schema\.json is not the one that config\.json was written with",
        "edited.ckpt": "action_mean",
    }
    for name, message in cases.items():
        with pytest.raises(UserError, match=message) as error:
            ACTPolicy.load(tmp_path / name)
        assert name in str(error.value)


def test_a_failed_save_leaves_the_earlier_bundle(
    make_policy: Callable[..., ACTPolicy],
    observation: Observation[np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    policy = make_policy()
    policy.save(tmp_path)
    chunk = policy.predict_chunk(observation)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with torch.no_grad():
        policy.act.action_head.bias += 1
    with pytest.raises(OSError, match="No space"):
        policy.save(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3
    np.testing.assert_array_equal(ACTPolicy.load(tmp_path).predict_chunk(observation), chunk)


CLEAN_ROOM = """
import socket, sys
import numpy as np

def refuse(*arguments, **names):
    raise OSError("the network was touched")

socket.socket.connect = refuse
socket.getaddrinfo = refuse
import torch

torch.hub.load_state_dict_from_url = refuse
from act_policy import ACTPolicy

given = np.load(sys.argv[1])
observation = {key: given[key] for key in given.files if key.startswith("observation.")}
for path in sys.argv[2:]:
    policy = ACTPolicy.load(path)
    error = np.abs(policy.predict_chunk(observation) - given["chunk"]).max()
    assert error <= given["tolerance"], (path, error)
print("same actions")
"""


def test_clean_room_load(
    make_policy: Callable[..., ACTPolicy], observation: Observation[np.ndarray], tmp_path: Path
) -> None:
    """Another process, no network, an empty torch cache: the same actions."""
    policy = make_policy(backbone_norm="frozen_batch", backbone_width=1.0)
    write_run(policy, tmp_path / "run", "best")
    policy.save(tmp_path / "bundle")
    keys = {f"observation.images.{name}": image for name, image in observation.images.items()}
    chunk = policy.predict_chunk(observation)
    np.savez(
        tmp_path / "given.npz",
        chunk=chunk,
        # The other process may use another number of threads.
        tolerance=network_rounding(4 * LONGEST_PATH, np.abs(chunk).max()),
        **keys,
        **{"observation.state": observation.state},
    )
    paths = [str(tmp_path / name) for name in ("given.npz", "run", "bundle")]
    result = subprocess.run(
        [sys.executable, "-c", CLEAN_ROOM, *paths],
        capture_output=True,
        text=True,
        env={"TORCH_HOME": str(tmp_path / "nothing"), "CUDA_VISIBLE_DEVICES": ""},
    )
    assert result.stdout == "same actions\n", result.stderr
