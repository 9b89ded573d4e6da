"""A resumed run sees the samples that an uninterrupted one would, with Lightning itself."""

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import ModelCheckpoint

from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.errors import UserError

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*treespec, LeafSpec.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:.*max_epochs. was not set"),
    pytest.mark.filterwarnings("ignore:Be aware that when using .ckpt_path.*callbacks"),
    pytest.mark.filterwarnings("ignore:Total length of .list. across ranks is zero"),
]
STEPS, BATCHES_AN_EPOCH = 11, 4


class SaveWhenCut(lightning.Callback):
    """Saves in the middle of the batch that fails."""

    def __init__(self, path) -> None:
        self.path = path

    def on_exception(self, trainer, module, exception):
        trainer.save_checkpoint(self.path)


class Recorder(lightning.LightningModule):
    """Records the samples of each training step; its one weight depends on all of them."""

    def __init__(self, fail_at: int | None = None) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))
        self.fail_at = fail_at
        self.seen: list[tuple[int, int, list[int], list[int]]] = []

    def training_step(self, batch, index):
        if self.global_step == self.fail_at:
            raise RuntimeError("power cut")
        self.seen.append(
            (self.current_epoch, self.global_step, batch.episode.tolist(), batch.step.tolist())
        )
        return (self.weight - batch.actions.mean()).square().sum()

    def validation_step(self, batch, index):
        return None

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.1)


def fit(folder, workers=0, resume=None, callbacks=(), fail_at=None, batch_size=5, **options):
    module = Recorder(fail_at)
    data = DemonstrationDataModule(folder, 3, batch_size, workers=workers, seed=7)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=STEPS,
        logger=False,
        callbacks=list(callbacks),
        enable_checkpointing=any(isinstance(c, ModelCheckpoint) for c in callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        **options,
    )
    trainer.fit(module, data, ckpt_path=resume)
    return module


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_run_resumed_at_any_step_sees_the_same_samples(make_folder, tmp_path, workers):
    folder = make_folder([10, 10, 10])
    saver = ModelCheckpoint(tmp_path / "saved", "{step}", every_n_train_steps=1, save_top_k=-1)
    whole = fit(folder, workers, callbacks=[saver])
    assert whole.seen[BATCHES_AN_EPOCH][0] == 1
    # in the first epoch, at its last step, after it, in the middle of the second, at its end
    for step in (1, 3, 4, 6, 8) if workers == 0 else (2, 4, 6):
        resumed = fit(folder, workers, tmp_path / "saved" / f"step={step}.ckpt")
        assert resumed.seen == whole.seen[step:], f"after step {step}"
        assert torch.equal(resumed.weight, whole.weight)


def test_a_run_without_workers_can_be_resumed_with_workers(make_folder, tmp_path):
    folder = make_folder([10, 10, 10])
    saver = ModelCheckpoint(tmp_path / "saved", "{step}", every_n_train_steps=5, save_top_k=-1)
    whole = fit(folder, 0, callbacks=[saver])
    assert fit(folder, 2, tmp_path / "saved" / "step=5.ckpt").seen == whole.seen[5:]


@pytest.mark.slow
def test_an_interrupted_batch_is_repeated(make_folder, tmp_path):
    folder = make_folder([10, 10, 10])
    whole = fit(folder)
    with pytest.raises(RuntimeError, match="power cut"):
        fit(folder, 2, callbacks=[SaveWhenCut(tmp_path / "cut.ckpt")], fail_at=6)
    assert fit(folder, 2, tmp_path / "cut.ckpt").seen == whole.seen[6:]


@pytest.mark.parametrize("at_train_epoch_end", [False, True])
@pytest.mark.parametrize("options", [{}, {"val_check_interval": 2}, {"limit_train_batches": 3}])
def test_checkpoints_of_validations_and_of_epoch_ends(
    make_folder, tmp_path, options, at_train_epoch_end
):
    folder = make_folder([10, 10, 10])
    saver = ModelCheckpoint(
        tmp_path / "saved",
        "{step}",
        every_n_epochs=1,
        save_top_k=-1,
        save_on_train_epoch_end=at_train_epoch_end,
    )
    whole = fit(folder, callbacks=[saver], **options)
    saved = (tmp_path / "saved").glob("*.ckpt")
    steps = [step for path in saved if (step := int(path.stem.removeprefix("step="))) < STEPS]
    assert len(steps) >= 2
    for step in steps:
        resumed = fit(folder, 0, tmp_path / "saved" / f"step={step}.ckpt", **options)
        assert [seen[1:] for seen in resumed.seen] == [seen[1:] for seen in whole.seen[step:]]


def test_another_batch_size_in_the_middle_of_an_epoch_is_refused(make_folder, tmp_path):
    folder = make_folder([10, 10, 10])
    saver = ModelCheckpoint(tmp_path / "saved", "{step}", every_n_train_steps=2, save_top_k=-1)
    fit(folder, callbacks=[saver])
    with pytest.raises(UserError, match="batch_size 5, this one has 4"):
        fit(folder, 0, tmp_path / "saved" / "step=2.ckpt", batch_size=4)


def test_a_run_without_held_out_episodes_trains(make_folder):
    module = fit(make_folder([20]))
    assert len(module.seen) == STEPS
