"""Checkpoints of the original ACT: what they lack is asked for, and nothing in them is executed."""

import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from act_policy.checkpoints.open import open_network
from act_policy.checkpoints.original_act import load_original_act
from act_policy.checkpoints.source import Source
from act_policy.errors import UserError


class Evil:
    """A pickle that would write a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, ("touch executed",)


def original(folder: Path, statistics: Any, weights: Any = None) -> Path:
    folder.mkdir()
    (folder / "dataset_stats.pkl").write_bytes(pickle.dumps(statistics))
    torch.save({"a": torch.zeros(1)} if weights is None else weights, folder / "policy_best.ckpt")
    return folder


def arrays(**more: Any) -> dict[str, Any]:
    names = ("action_mean", "action_std", "qpos_mean", "qpos_std")
    return {**{name: np.ones(14, np.float32) for name in names}, **more}


def test_original_act_asks_for_what_it_cannot_know(tmp_path: Path) -> None:
    folder = original(tmp_path / "act", arrays())
    with pytest.raises(UserError, match=r"source\.cameras=.* and source\.image_size=") as error:
        open_network(folder)
    assert "policy_best.ckpt" in str(error.value)
    (folder / "policy_best.ckpt").rename(folder / "policy_epoch_7_seed_0.ckpt")
    with pytest.raises(UserError, match=r"neither policy_best\.ckpt nor policy_last\.ckpt"):
        open_network(folder)
    with pytest.raises(UserError, match=r"epoch_7_seed_0.ckpt: it says neither"):
        open_network(folder / "policy_epoch_7_seed_0.ckpt")


@pytest.mark.parametrize(
    ("statistics", "message"),
    [
        (arrays(extra=np.ones(3)), "has unknown extra"),
        ({"qpos_mean": np.ones(3)}, "lacks action_mean; lacks action_std; lacks qpos_std"),
        (arrays(qpos_std=[1.0]), "qpos_std is not an array of numbers"),
        (arrays(qpos_std=np.full(14, np.nan)), "qpos_std is not finite"),
        (arrays(action_std=np.zeros(14)), "action_std is not positive"),
        (arrays(action_mean=np.ones(3)), "arrays of action differ in size"),
        ([1, 2], "does not hold a dictionary"),
        (arrays(example_qpos=Evil()), "posix.system|nt.system"),
    ],
)
def test_statistics_of_the_original(
    statistics: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = original(tmp_path / "act", statistics)
    with pytest.raises(UserError, match=message) as error:
        load_original_act(folder, Source(("top",), (96, 128)))
    assert "dataset_stats.pkl" in str(error.value)
    assert not (tmp_path / "executed").exists()


def test_weights_of_the_original(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    narrow = original(
        tmp_path / "both", arrays(), {"model.action_head.weight": torch.zeros(14, 64)}
    )
    with pytest.raises(UserError, match=r"source\.cameras=.*; its width is 64.*source\.heads="):
        load_original_act(narrow, Source())
    for name, weights, message in (
        ("code", {"model.a": Evil()}, "cannot be read as a checkpoint"),
        ("list", [1], "is not a checkpoint"),
        ("other", {"model.a": torch.zeros(2, 2)}, "lacks the matrix action_head.weight"),
        ("narrow", {"model.action_head.weight": torch.zeros(14, 64)}, r"give source\.heads=NUMBER"),
    ):
        folder = original(tmp_path / name, arrays(), weights)
        with pytest.raises(UserError, match=message):
            load_original_act(folder, Source(("top",), (96, 128)))
    assert not (tmp_path / "executed").exists()
