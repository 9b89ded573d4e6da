"""Tests that need a GPU; `scripts/gpu_checks.sh` runs them."""

from pathlib import Path
from typing import Any

import lightning
import pytest
import torch

from act_policy import ACTPolicy
from act_policy.training.build import build_training, train
from act_policy.training.callbacks.checkpoints import Checkpoints
from act_policy.training.engine.trainer import build_trainer
from act_policy.training.optimizer import OptimizerConfig
from tests.training.training_for_tests import TINY, Run, make_data

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="torch finds no CUDA device"),
]


class Look(lightning.Callback):
    """Records the settings of the second step."""

    def __init__(self) -> None:
        self.found: dict[str, Any] = {}

    def on_train_batch_start(self, trainer: Any, module: Any, batch: Any, batch_idx: int) -> None:
        if trainer.global_step == 1:
            convolution = module.policy.act.image_encoder.backbone.conv1.weight
            self.found = {
                "device": batch.actions.device.type,
                "images": batch.observation.images["front"].dtype,
                "fused": trainer.optimizers[0].param_groups[0]["fused"],
                "channels last": convolution.is_contiguous(memory_format=torch.channels_last),
                "precision": trainer.precision,
                "pinned": trainer.train_dataloader.pin_memory,
            }


def run_on_gpu(
    demonstrations: Path, folder: Path, checkpoint: Path | None = None, **options: Any
) -> tuple[Run, Look]:
    data = make_data(demonstrations)
    steps = 10 if checkpoint is None else 14
    training = build_training(
        TINY, OptimizerConfig(), data, steps, checkpoint=checkpoint, kl_weight=1.0
    )
    look = Look()
    callbacks = [Checkpoints(), look]
    trainer = build_trainer(folder, steps, 5, 1, callbacks=callbacks, **options)
    train(training, data, trainer, checkpoint)
    return Run(folder, training, None, trainer), look  # type: ignore[arg-type]


def test_auto_uses_the_gpu_and_its_precision(demonstrations: Path, tmp_path: Path) -> None:
    run, look = run_on_gpu(demonstrations, tmp_path)
    assert look.found == {
        "device": "cuda",
        "images": torch.uint8,
        "fused": True,
        "channels last": True,
        "precision": "bf16-mixed" if torch.cuda.is_bf16_supported() else "32-true",
        "pinned": True,
    }
    assert all(bool(v.isfinite().all()) for v in run.weights().values())


def test_a_checkpoint_from_a_gpu_loads_on_the_cpu(demonstrations: Path, tmp_path: Path) -> None:
    run, _ = run_on_gpu(demonstrations, tmp_path)
    policy = ACTPolicy.load(tmp_path)
    assert {p.device.type for p in policy.parameters()} == {"cpu"}
    samples = make_data(demonstrations).held_out_samples
    batch = samples.__getitems__([0, 1, 2])
    on_gpu = run.training.best_policy.eval().cuda()
    images = {name: image.cuda() for name, image in batch.observation.images.items()}
    torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    with torch.no_grad():
        observation = batch.observation._replace(
            images=images, state=batch.observation.state.cuda()
        )
        expected = on_gpu(observation).cpu()
        found = policy(batch.observation)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_a_run_is_resumed_on_the_gpu_and_on_the_cpu(demonstrations: Path, tmp_path: Path) -> None:
    run, _ = run_on_gpu(demonstrations, tmp_path)
    checkpoint = run.checkpoints / "last.ckpt"
    for folder, accelerator in (("gpu", "gpu"), ("cpu", "cpu")):
        longer, _ = run_on_gpu(
            demonstrations, tmp_path / folder, checkpoint, accelerator=accelerator
        )
        assert longer.trainer.global_step == 14
