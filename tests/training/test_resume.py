"""A resumed run continues exactly as if it had never stopped."""

import csv
from itertools import chain
from pathlib import Path
from typing import Any

import lightning
import pytest
import torch

from act_policy.errors import UserError
from act_policy.training.optimizer import OptimizerConfig
from act_policy.training.run.resume import finished
from act_policy.training.run.run_folder import check_free, find_run, write_start
from tests.training.training_for_tests import (
    NO_CVAE,
    Recorder,
    Run,
    assert_same_weights,
    run_training,
    write_demonstrations,
)

# five batches per epoch: 3 and 8 are in the middle of one, 5 is at its end, 6 just after
STOPS = (1, 3, 5, 6, 8)


@pytest.fixture(scope="module")
def straight(demonstrations: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_training(demonstrations, tmp_path_factory.mktemp("straight"))


def rows(run: Run) -> list[dict[str, Any]]:
    with (run.folder / "metrics.csv").open() as file:
        every = list(csv.DictReader(file))
    for row in every:
        del row["minutes"], row["samples_per_second"]
    return every


def test_the_fixture_has_several_epochs_and_a_partial_batch(straight: Run) -> None:
    assert [len(batch) for batch in straight.recorder.samples] == [4, 4, 4, 4, 1] * 2
    assert straight.trainer.current_epoch == 2
    first, second = straight.recorder.samples[:5], straight.recorder.samples[5:]
    assert first != second
    assert sorted(chain(*first)) == sorted(chain(*second))  # every frame once per epoch


def test_the_learning_rate_follows_the_schedule_from_step_to_step(straight: Run) -> None:
    config = straight.training.optimizer_config
    expected = [config.learning_rate * config.factor(i, i / 10) for i in range(10)]
    assert straight.recorder.rates == expected


def test_the_same_seed_gives_the_same_run(
    straight: Run, demonstrations: Path, tmp_path: Path
) -> None:
    again = run_training(demonstrations, tmp_path)
    assert_same_weights(straight.weights(), again.weights())
    assert rows(straight) == rows(again)


@pytest.mark.parametrize("stop_at", STOPS)
def test_a_resumed_run_equals_an_uninterrupted_one(
    straight: Run, demonstrations: Path, tmp_path: Path, stop_at: int
) -> None:
    first = run_training(demonstrations, tmp_path, stop_at=stop_at)
    assert first.trainer.global_step == stop_at
    second = run_training(demonstrations, tmp_path, checkpoint=first.checkpoints / "last.ckpt")
    assert second.trainer.global_step == 10
    assert first.recorder.steps + second.recorder.steps == straight.recorder.steps
    assert first.recorder.samples + second.recorder.samples == straight.recorder.samples
    assert first.recorder.rates + second.recorder.rates == straight.recorder.rates
    assert_same_weights(straight.weights(), second.weights())
    expected = rows(straight)
    if stop_at != 5:  # stopping adds one validation
        logged = rows(second)
        for name in ("held_out_l1", "held_out_l1_posterior"):
            assert logged[stop_at - 1].pop(name)
            expected[stop_at - 1].pop(name)
        assert logged == expected
    else:
        assert rows(second) == expected


def test_resume_with_emphasis_is_exact(demonstrations: Path, tmp_path: Path) -> None:
    options = {"emphasis": {"weight": 2.0, "actions": ["grip"]}}
    straight = run_training(demonstrations, tmp_path / "straight", **options)
    run = run_training(demonstrations, tmp_path / "run", stop_at=3, **options)
    checkpoint = run.checkpoints / "last.ckpt"
    again = run_training(demonstrations, tmp_path / "run", checkpoint=checkpoint, **options)
    assert run.recorder.samples + again.recorder.samples == straight.recorder.samples
    assert_same_weights(straight.weights(), again.weights())
    with pytest.raises(UserError, match="cannot resume: the interrupted run had samples"):
        run_training(demonstrations, tmp_path / "run", checkpoint=checkpoint)


@pytest.mark.slow
def test_resume_with_workers_is_exact(straight: Run, demonstrations: Path, tmp_path: Path) -> None:
    first = run_training(demonstrations, tmp_path, stop_at=3, workers=2)
    checkpoint = first.checkpoints / "last.ckpt"
    second = run_training(demonstrations, tmp_path, checkpoint=checkpoint, workers=2)
    assert first.recorder.samples + second.recorder.samples == straight.recorder.samples
    assert_same_weights(straight.weights(), second.weights())


def test_resume_twice_without_held_out_episodes(demonstrations: Path, tmp_path: Path) -> None:
    options = {"held_out_fraction": 0.0, "model": NO_CVAE, "validate_every": 2}
    straight = run_training(demonstrations, tmp_path / "straight", **options)
    assert (straight.checkpoints / "best.ckpt").is_file()
    run = run_training(demonstrations, tmp_path / "run", stop_at=3, **options)
    for stop_at in (7, None):
        checkpoint = run.checkpoints / "last.ckpt"
        run = run_training(
            demonstrations, tmp_path / "run", stop_at=stop_at, checkpoint=checkpoint, **options
        )
    assert_same_weights(straight.weights(), run.weights())


def test_rows_logged_after_the_last_checkpoint_of_a_killed_run_are_logged_again(
    straight: Run, demonstrations: Path, tmp_path: Path
) -> None:
    class KilledError(Exception):
        pass

    class Kill(lightning.Callback):
        def on_train_batch_start(self, trainer: Any, *args: Any) -> None:
            if trainer.global_step == 8:
                raise KilledError

    with pytest.raises(KilledError):
        run_training(demonstrations, tmp_path, callbacks=[Kill()])
    with (tmp_path / "metrics.csv").open() as file:
        assert [row["step"] for row in csv.DictReader(file)] == [str(i + 1) for i in range(8)]
    second = run_training(
        demonstrations, tmp_path, checkpoint=tmp_path / "checkpoints" / "last.ckpt"
    )
    assert rows(second) == rows(straight)
    assert_same_weights(straight.weights(), second.weights())


def test_a_finished_run_can_be_extended(demonstrations: Path, tmp_path: Path) -> None:
    first = run_training(demonstrations, tmp_path, max_steps=6)
    checkpoint = first.checkpoints / "last.ckpt"
    assert (
        finished(checkpoint, 6) == "finished: step 6 of 6; a larger max_steps= or budget= trains on"
    )
    assert finished(checkpoint, 7) is None
    longer = run_training(demonstrations, tmp_path, max_steps=12, checkpoint=checkpoint)
    assert longer.trainer.global_step == 12
    assert longer.recorder.steps == [7, 8, 9, 10, 11, 12]


def test_another_network_or_other_demonstrations_are_refused(
    straight: Run, demonstrations: Path, tmp_path: Path
) -> None:
    checkpoint = straight.checkpoints / "last.ckpt"
    more = {"max_steps": 20, "checkpoint": checkpoint}
    with pytest.raises(UserError, match=r"width was 16, now 32"):
        run_training(demonstrations, tmp_path, model={"width": 32}, **more)
    with pytest.raises(UserError, match=r"step_count was 17, now 9.*same demonstrations"):
        run_training(demonstrations, tmp_path, train_episodes=[0], **more)
    with pytest.raises(UserError, match=r"std_floor was 0.01, now 0.02"):
        run_training(demonstrations, tmp_path, std_floor=0.02, **more)
    with pytest.raises(UserError, match=r"cameras"):
        run_training(demonstrations, tmp_path, cameras=["front"], **more)


def test_other_demonstrations_of_the_same_lengths_are_refused_but_moved_ones_are_not(
    straight: Run, tmp_path: Path
) -> None:
    more = {"max_steps": 11, "checkpoint": straight.checkpoints / "last.ckpt"}
    others = write_demonstrations(tmp_path / "others", seed=1)
    with pytest.raises(UserError, match=r"statistics of state differ.*same demonstrations"):
        run_training(others, tmp_path / "run", **more)
    moved = write_demonstrations(tmp_path / "moved")
    assert run_training(moved, tmp_path / "run", **more).trainer.global_step == 11


def test_a_resumed_run_uses_the_new_learning_rates_and_weight_decay(
    straight: Run, demonstrations: Path, tmp_path: Path
) -> None:
    decays: set[float] = set()

    class Look(Recorder):
        def on_train_batch_end(self, trainer: Any, *args: Any) -> None:
            groups = trainer.optimizers[0].param_groups
            self.rates.append(sorted({group["lr"] for group in groups}))
            decays.update(group["weight_decay"] for group in groups)

    look = Look()
    optimizer = OptimizerConfig(0.125, 0.0625, 0.5, 2, "constant", ema_decay=0.9)
    run_training(
        demonstrations,
        tmp_path,
        max_steps=12,
        optimizer=optimizer,
        checkpoint=straight.checkpoints / "last.ckpt",
        callbacks=[look],
    )
    assert look.rates == [[0.0625, 0.125]] * 2
    assert decays == {0.5, 0.0}


def test_a_checkpoint_without_a_count_of_averages_is_resumed_exactly(
    straight: Run, demonstrations: Path, tmp_path: Path
) -> None:
    first = run_training(demonstrations, tmp_path, stop_at=3)
    last = first.checkpoints / "last.ckpt"
    older = torch.load(last, weights_only=True)
    del older["state_dict"]["average.n_averaged"]
    torch.save(older, last)
    second = run_training(demonstrations, tmp_path, checkpoint=last)
    assert_same_weights(straight.weights(), second.weights())


@pytest.mark.parametrize("before", [0.9, 0.0])
def test_averaging_cannot_be_switched_on_or_off(
    demonstrations: Path, tmp_path: Path, before: float
) -> None:
    run = run_training(
        demonstrations, tmp_path, max_steps=2, optimizer=OptimizerConfig(ema_decay=before)
    )
    with pytest.raises(UserError, match=r"optim.ema_decay=.*with"):
        run_training(
            demonstrations,
            tmp_path,
            max_steps=4,
            optimizer=OptimizerConfig(ema_decay=0.9 - before),
            checkpoint=run.checkpoints / "last.ckpt",
        )


def test_a_file_that_is_not_a_checkpoint_is_refused(tmp_path: Path) -> None:
    garbage = tmp_path / "last.ckpt"
    garbage.write_bytes(b"not a checkpoint")
    with pytest.raises(UserError, match=r"last.ckpt cannot be read"):
        finished(garbage, 10)
    torch.save({"global_step": 3}, garbage)
    with pytest.raises(UserError, match=r"last.ckpt is not a checkpoint of a training run"):
        finished(garbage, 10)


def test_resume_accepts_a_run_a_checkpoint_or_its_folder(straight: Run, tmp_path: Path) -> None:
    write_start(straight.folder, "seed: 3\n")
    last, best = straight.checkpoints / "last.ckpt", straight.checkpoints / "best.ckpt"
    assert find_run(straight.folder) == (straight.folder, last)
    assert find_run(straight.checkpoints) == (straight.folder, last)
    assert find_run(best) == (straight.folder, best)
    with pytest.raises(UserError, match=r"nowhere: does not exist"):
        find_run(tmp_path / "nowhere")
    with pytest.raises(UserError, match=r"last.ckpt does not exist"):
        find_run(tmp_path)
    with pytest.raises(UserError, match=r"not empty.*resume="):
        check_free(straight.folder)
    check_free(tmp_path)


def test_a_run_killed_between_best_and_last_continues_from_best(tmp_path: Path) -> None:
    write_start(tmp_path, "seed: 3\n")
    best = tmp_path / "checkpoints" / "best.ckpt"
    best.parent.mkdir()
    best.touch()
    (best.parent / ".last.ckpt.123.partial").touch()
    assert find_run(tmp_path) == find_run(best.parent) == (tmp_path, best)
    with pytest.raises(UserError, match=r"not empty.*resume="):
        check_free(tmp_path)
    assert best.is_file()


def test_a_run_that_ended_before_its_first_checkpoint_may_start_again(tmp_path: Path) -> None:
    write_start(tmp_path, "seed: 3\n")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / ".best.ckpt.123.partial").touch()  # killed while it was written
    (tmp_path / ".metrics.csv.123.partial").touch()
    (tmp_path / "wandb" / "offline-run-1").mkdir(parents=True)
    (tmp_path / "wandb" / "offline-run-1" / "run.wandb").touch()
    check_free(tmp_path)
    assert not list(tmp_path.glob("[a-z]*.*"))
    write_start(tmp_path, "seed: 3\n")
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="not empty"):
        check_free(tmp_path)
    assert (tmp_path / "config.yaml").read_text() == "seed: 3\n"


@pytest.mark.parametrize("versions", [None, '{"node": 18}', "not JSON", "[]"])
def test_files_of_another_program_are_not_removed(tmp_path: Path, versions: str | None) -> None:
    (tmp_path / "config.yaml").write_text("theirs: true\n")
    if versions is not None:
        (tmp_path / "versions.json").write_text(versions)
    with pytest.raises(UserError, match="not empty"):
        check_free(tmp_path)
    assert (tmp_path / "config.yaml").read_text() == "theirs: true\n"


def test_a_run_can_be_resumed_from_best(
    straight: Run, demonstrations: Path, tmp_path: Path
) -> None:
    best = straight.checkpoints / "best.ckpt"
    step = torch.load(best, weights_only=True)["global_step"]
    run = run_training(demonstrations, tmp_path, max_steps=12, checkpoint=best)
    assert run.recorder.steps[0] == step + 1
