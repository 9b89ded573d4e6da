"""The previous checkpoint survives any failure while the next one is written."""

import errno
import os
import signal
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch

from act_policy.control.demonstrated_ranges import DemonstratedRanges
from act_policy.errors import UserError
from act_policy.model.policy import ACTPolicy
from act_policy.system.atomic import link_or_copy, remove_partial_files
from act_policy.training.callbacks.checkpoints import AtomicCheckpointIO, Checkpoints
from act_policy.training.run.run_folder import find_checkpoint
from tests.training.training_for_tests import Run, assert_same_weights, run_training


def test_a_full_disk_leaves_the_earlier_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "checkpoints" / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"step": 1}, path)
    save = torch.save

    def half(checkpoint: Any, file: Any) -> None:
        file.write(b"half of it")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(torch, "save", half)
    with pytest.raises(UserError, match=r"last.ckpt: .*No space left.*intact, with resume="):
        AtomicCheckpointIO().save_checkpoint({"step": 2}, path)
    first = tmp_path / "other" / "checkpoints" / "best.ckpt"
    with pytest.raises(UserError, match=r"best.ckpt: .*No space left.*has no checkpoint yet"):
        AtomicCheckpointIO().save_checkpoint({"step": 2}, first)
    monkeypatch.setattr(torch, "save", save)
    assert torch.load(path, weights_only=True) == {"step": 1}
    assert [p.name for p in path.parent.iterdir()] == ["last.ckpt"]


def test_best_is_the_smallest_held_out_loss(
    demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    losses = iter([3.0, 1.0, 2.0, 4.0])
    original = Checkpoints.on_validation_end

    def judged(self: Any, trainer: Any, module: Any) -> None:
        module.held_out = {"held_out_l1": next(losses)}
        original(self, trainer, module)

    monkeypatch.setattr(Checkpoints, "on_validation_end", judged)
    run = run_training(demonstrations, tmp_path / "run", max_steps=6, validate_every=2)
    assert steps(run) == {"best.ckpt": 4, "last.ckpt": 6}
    # the resumed run still knows the best, even in another folder: 4.0 does not replace it
    moved = run.folder.rename(tmp_path / "moved")
    run = run_training(
        demonstrations,
        moved,
        max_steps=8,
        validate_every=2,
        checkpoint=moved / "checkpoints" / "last.ckpt",
    )
    assert steps(run) == {"best.ckpt": 4, "last.ckpt": 8}


def steps(run: Run) -> dict[str, int]:
    return {
        path.name: int(torch.load(path, weights_only=True)["global_step"])
        for path in sorted(run.checkpoints.iterdir())
    }


def test_a_stop_without_held_out_episodes_saves_the_step_it_stopped_at(
    demonstrations: Path, tmp_path: Path
) -> None:
    options = {"validate_every": 2, "held_out_fraction": 0.0}
    run = run_training(demonstrations, tmp_path, stop_at=3, **options)
    assert steps(run) == {"best.ckpt": 3, "last.ckpt": 3}


def test_a_signal_at_any_moment_of_a_step_ends_with_a_checkpoint(
    demonstrations: Path, tmp_path: Path
) -> None:
    class Late(lightning.Callback):
        def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step == 3:  # after this step's checkpoint
                signal.raise_signal(signal.SIGTERM)

    options = {"validate_every": 100, "held_out_fraction": 0.0, "callbacks": [Late()]}
    with pytest.raises(KeyboardInterrupt, match="after step 4"):
        run_training(demonstrations, tmp_path, **options)
    saved = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert saved["global_step"] == 4


def test_checkpoints_are_kept_where_asked_for(demonstrations: Path, tmp_path: Path) -> None:
    run = run_training(demonstrations, tmp_path / "run", keep_every=4, validate_every=8)
    assert steps(run) == {
        "best.ckpt": steps(run)["best.ckpt"],
        "last.ckpt": 10,
        "step_00000004.ckpt": 4,
        "step_00000008.ckpt": 8,
    }
    for name in ("last.ckpt", "best.ckpt"):
        (run.checkpoints / name).unlink()
    assert find_checkpoint(run.folder).name == "step_00000008.ckpt"
    straight = run.weights()
    again = run_training(
        demonstrations, tmp_path / "run", checkpoint=run.checkpoints / "step_00000004.ckpt"
    )
    assert_same_weights(straight, again.weights())


def test_a_disk_or_quota_without_room_is_refused_before_the_first_step(
    demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"3 checkpoints of \d+ MB at a time and 100000000 that"):
        run_training(demonstrations, tmp_path / "run", max_steps=10**8, keep_every=1)
    asked: list[int] = []

    def refuse(descriptor: int, begin: int, size: int) -> None:
        asked.append(size)
        raise OSError(errno.EDQUOT, "Disk quota exceeded")

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with pytest.raises(UserError, match=r"no room for 3 .*Disk quota exceeded.*out="):
        run_training(demonstrations, tmp_path / "run")
    assert not list((tmp_path / "run" / "checkpoints").iterdir())
    monkeypatch.undo()
    run = run_training(demonstrations, tmp_path / "run", max_steps=2)
    size = (run.checkpoints / "last.ckpt").stat().st_size
    # names and shapes of a small network's tensors need about as much as they do
    assert asked[0] / 3 < size < asked[0]


def test_checkpoints_do_not_need_hard_links(
    demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: Any) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    run = run_training(demonstrations, tmp_path, max_steps=2)
    assert steps(run) == {"best.ckpt": 2, "last.ckpt": 2}


def test_a_link_of_a_killed_run_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class KilledError(BaseException):
        pass

    def killed(*args: Any) -> None:
        raise KilledError

    source, target = tmp_path / "checkpoints" / "best.ckpt", tmp_path / "checkpoints" / "last.ckpt"
    AtomicCheckpointIO().save_checkpoint({"step": 1}, source)
    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KilledError):
        link_or_copy(source, target)
    monkeypatch.undo()
    assert len(list(source.parent.iterdir())) == 2
    AtomicCheckpointIO().save_checkpoint({"step": 2}, source)
    assert [p.name for p in source.parent.iterdir()] == ["best.ckpt"]


def test_a_link_is_not_taken_for_what_a_killed_writer_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = tmp_path / "best.ckpt", tmp_path / "last.ckpt"
    source.write_text("weights")
    replace = os.replace

    def clean_up_and_replace(*paths: Any) -> None:
        remove_partial_files(tmp_path)  # as another process may do
        replace(*paths)

    monkeypatch.setattr(os, "replace", clean_up_and_replace)
    for _ in range(2):  # the second time both are one file already
        link_or_copy(source, target)
        assert target.samefile(source)
        assert len(list(tmp_path.iterdir())) == 2


def test_the_policy_stores_the_levels_of_its_images(demonstrations: Path, tmp_path: Path) -> None:
    run = run_training(demonstrations, tmp_path, max_steps=2, stop_at=None)
    policy = ACTPolicy.load(run.checkpoints / "last.ckpt")
    levels = policy.statistics.image_levels
    assert levels is not None
    assert set(levels) == {"front", "wrist"}
    for low, high in (levels["front"].mean, levels["wrist"].deviation):
        assert 0 < low < high < 1
    assert levels["front"].mean == pytest.approx((0.5, 0.5), abs=0.05)  # random pixels
    ranges = DemonstratedRanges.from_statistics(policy.schema, policy.statistics)
    assert ranges.images == levels  # so the robot can compare
    policy.save(tmp_path / "bundle")
    assert ACTPolicy.load(tmp_path / "bundle").statistics.image_levels == levels
