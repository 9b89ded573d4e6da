"""The values of a training step and of a held-out loss, and the reasons why a run ends early."""

import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lightning
import pytest
import torch

from act_policy import ACTPolicy
from act_policy.data.loading.batches import Batch
from act_policy.errors import UserError
from act_policy.training import policy_training
from act_policy.training.build import build_training
from act_policy.training.engine.trainer import build_trainer
from act_policy.training.losses import action_l1
from act_policy.training.optimizer import OptimizerConfig
from act_policy.training.policy_training import PolicyTraining
from act_policy.training.run import resume
from act_policy.training.run.metrics_file import MetricsFile
from tests.policy_for_tests import LONGEST_PATH
from tests.tolerance import network_rounding
from tests.training.training_for_tests import (
    NO_CVAE,
    TINY,
    Run,
    make_data,
    run_training,
    write_demonstrations,
)


def make_training(
    demonstrations: Path, kl_weight: float | None = 1.0, **model: Any
) -> tuple[PolicyTraining, Batch]:
    data = make_data(demonstrations)
    training = build_training(
        TINY | model, OptimizerConfig(), data, max_steps=10, kl_weight=kl_weight
    )
    return training, next(iter(data.train_dataloader()))


@pytest.fixture(scope="module")
def finished(demonstrations: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run_training(demonstrations, tmp_path_factory.mktemp("finished"))


def test_loss_is_l1_plus_weighted_kl(demonstrations: Path) -> None:
    training, batch = make_training(demonstrations, kl_weight=7.0, dropout=0.0)
    torch.manual_seed(0)
    loss = training.training_step(batch, 0)
    measured = training.measured
    assert measured["train_kl"] > 0
    torch.testing.assert_close(loss.detach(), measured["train_l1"] + 7 * measured["train_kl"])


def test_bfloat16_on_a_cpu_rounds_the_loss_and_leaves_float32_weights(
    demonstrations: Path, tmp_path: Path
) -> None:
    losses = []
    for precision in ("32-true", "bf16-mixed"):
        run = run_training(demonstrations, tmp_path / precision, max_steps=1, precision=precision)
        losses.append(float(run.training.measured["train_l1"]))
    # the sum over a few layers of values rounded to 8 bits
    assert losses[1] != losses[0]
    assert losses[1] == pytest.approx(losses[0], rel=16 * 2**-8)
    floats = {w.dtype for w in run.weights().values() if w.is_floating_point()}
    assert floats == {torch.float32}


def test_padding_in_a_batch_changes_no_gradient(demonstrations: Path) -> None:
    training, batch = make_training(demonstrations, dropout=0.0)
    assert batch.is_pad.any()

    def gradients(batch: Batch) -> list[torch.Tensor]:
        training.zero_grad()
        torch.manual_seed(0)
        training.training_step(batch, 0).backward()
        return [p.grad.clone() for p in training.policy.parameters() if p.grad is not None]

    before = gradients(batch)
    junk = torch.where(batch.is_pad[..., None], 1e6, batch.actions)
    after = gradients(batch._replace(actions=junk))
    assert len(before) == len(list(training.policy.parameters()))
    assert all(torch.equal(x, y) for x, y in zip(before, after, strict=True))


def test_kl_weight_needs_a_cvae(demonstrations: Path) -> None:
    with pytest.raises(UserError, match=r"kl_weight: must be given"):
        make_training(demonstrations, kl_weight=None)
    with pytest.raises(UserError, match=r"kl_weight=1.0 does nothing"):
        make_training(demonstrations, latent_size=0, latent_layers=0)


def test_held_out_loss_is_the_averaged_policy_over_valid_elements(
    finished: Run, demonstrations: Path
) -> None:
    data = make_data(demonstrations)
    samples = data.held_out_samples
    batch = samples.__getitems__(list(range(len(samples))))
    policy = finished.training.best_policy.eval()
    assert policy is not finished.training.policy
    with torch.no_grad():
        observation = policy.normalizer.observation(batch.observation)
        target = policy.normalizer.actions(batch.actions, batch.observation.state)
        predicted = policy.normalizer.actions(policy(batch.observation), batch.observation.state)
        expected = action_l1(predicted, target, batch.is_pad)
        output = policy.act(
            observation.images, observation.state, None, target, batch.is_pad, latent="mean"
        )
        posterior = action_l1(output.actions, target, batch.is_pad)
    held_out = finished.training.held_out
    tolerance = network_rounding(LONGEST_PATH, target.abs().max().item())
    assert held_out["held_out_l1"] == pytest.approx(float(expected), abs=tolerance)
    assert held_out["held_out_l1_posterior"] == pytest.approx(float(posterior), abs=tolerance)
    assert held_out["held_out_l1"] != held_out["held_out_l1_posterior"]


def test_without_cvae_there_is_one_held_out_loss(demonstrations: Path, tmp_path: Path) -> None:
    run = run_training(demonstrations, tmp_path, model=NO_CVAE, max_steps=2)
    assert run.training.held_out.keys() == {"held_out_l1"}
    header = (tmp_path / "metrics.csv").read_text().splitlines()[0]
    assert "kl" not in header
    assert "posterior" not in header


def test_checkpoint_is_the_averaged_policy_with_its_seeds(
    finished: Run, demonstrations: Path
) -> None:
    policy = ACTPolicy.load(finished.folder)
    assert policy.demonstration_seeds == (100, 101, 102, 103)
    last = ACTPolicy.load(finished.checkpoints / "last.ckpt")
    expected = finished.training.best_policy.state_dict()
    assert all(torch.equal(expected[name], value) for name, value in last.state_dict().items())
    weights = finished.training.policy.state_dict()
    assert not torch.equal(expected["act.action_head.weight"], weights["act.action_head.weight"])


def test_without_averaging_the_weights_themselves_are_saved(
    demonstrations: Path, tmp_path: Path
) -> None:
    optimizer = OptimizerConfig(ema_decay=0.0)
    run = run_training(demonstrations, tmp_path, max_steps=2, optimizer=optimizer)
    assert run.training.best_policy is run.training.policy
    last = ACTPolicy.load(run.checkpoints / "last.ckpt").state_dict()
    assert torch.equal(
        last["act.action_head.weight"],
        run.training.policy.state_dict()["act.action_head.weight"],
    )


def test_averaged_copy_is_never_in_training_mode(demonstrations: Path, tmp_path: Path) -> None:
    modes: list[tuple[bool, bool]] = []

    class Look(lightning.Callback):
        def on_train_batch_start(self, trainer: Any, module: Any, *args: Any) -> None:
            modes.append((module.policy.training, module.average.module.training))

    run_training(demonstrations, tmp_path, max_steps=4, validate_every=2, callbacks=[Look()])
    assert modes == [(True, False)] * 4


def test_training_learns(tmp_path: Path) -> None:
    folder = write_demonstrations(tmp_path / "demonstrations", (40, 40, 40, 40))
    run = run_training(
        folder,
        tmp_path / "run",
        model=NO_CVAE | {"dropout": 0.0, "chunk_length": 1},
        optimizer=OptimizerConfig(3e-3, 3e-3, warmup_steps=5, ema_decay=0.95),
        max_steps=200,
        validate_every=200,
        batch_size=16,
        chunk_length=1,
    )
    (metrics,) = (m for m in run.trainer.loggers if isinstance(m, MetricsFile))
    first = float(metrics.rows[0]["train_l1"])
    assert float(metrics.rows[-1]["train_l1"]) < 0.35 * first
    # the action depends only on the state, so unseen episodes are predicted, too
    assert run.training.held_out["held_out_l1"] < 0.6 * first


def test_gradient_is_clipped(demonstrations: Path, tmp_path: Path) -> None:
    norms: list[float] = []

    class Look(lightning.Callback):
        def on_before_optimizer_step(self, trainer: Any, module: Any, optimizer: Any) -> None:
            grads = [p.grad.norm() for p in module.policy.parameters() if p.grad is not None]
            norms.append(float(torch.stack(grads).norm()))

    for limit in (0.5, 0.0):
        optimizer = OptimizerConfig(gradient_clip=limit, learning_rate=1e-6)
        folder = tmp_path / str(limit)
        run_training(demonstrations, folder, max_steps=1, optimizer=optimizer, callbacks=[Look()])
    raw, again = norms
    assert raw > 0.5
    assert raw == again


@pytest.mark.parametrize("where", ["action", "state", "weights"])
def test_a_loss_that_is_not_finite_stops_and_names_the_sample(
    demonstrations: Path, tmp_path: Path, where: str
) -> None:
    broken: list[tuple[int, int]] = []

    class Break(lightning.Callback):
        def on_train_batch_start(
            self, trainer: Any, module: Any, batch: Batch, batch_idx: int
        ) -> None:
            if trainer.global_step != 7:
                return
            broken.append((int(batch.episode[1]), int(batch.step[1])))
            if where == "action":
                batch.actions[1, 0, 2] = float("nan")
            elif where == "state":
                batch.observation.state[1, 0] = float("inf")
            else:
                with torch.no_grad():
                    module.policy.act.action_head.bias[0] = float("nan")

    with pytest.raises(UserError) as caught:
        run_training(demonstrations, tmp_path, callbacks=[Break()])
    message = str(caught.value)
    assert "training step 8" in message
    assert "go on from the last checkpoint, which is intact" in message
    episode, step = broken[0]
    if where == "weights":
        assert "diverged" in message
        assert "lower optim.learning_rate or lower optim.gradient_clip" in message
        assert "episode" not in message  # no sample is to blame
    else:
        assert f"in episode {episode} (episode_{episode:06}.hdf5) step {step};" in message
    policy = ACTPolicy.load(tmp_path)
    assert all(bool(torch.isfinite(value).all()) for value in policy.state_dict().values())
    step_saved = torch.load(tmp_path / "checkpoints" / "last.ckpt", weights_only=True)
    assert step_saved["global_step"] == 5


def test_a_time_limit_ends_the_run_and_the_cosine(
    demonstrations: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(step=0.05)  # seconds; read when training starts and after each step
    monkeypatch.setattr(policy_training, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    run = run_training(
        demonstrations, tmp_path, max_steps=10_000, validate_every=1000, max_minutes=0.99 / 60
    )
    assert run.trainer.global_step == 20
    assert run.training.minutes == pytest.approx(1 / 60)
    assert run.recorder.rates[-1] < 0.2 * max(run.recorder.rates)
    saved = torch.load(run.checkpoints / "last.ckpt", weights_only=True)
    assert saved["global_step"] == run.trainer.global_step
    assert saved["training"]["minutes"] == run.training.minutes
    again: dict[str, Any] = {"max_steps": 10_000, "max_minutes": 1.0 / 60}
    assert "a larger budget= trains on" in str(
        resume.finished(run.checkpoints / "last.ckpt", **again)
    )


def test_impossible_limits_are_refused(demonstrations: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"max_steps=0: expected"):
        run_training(demonstrations, tmp_path, max_steps=0)
    with pytest.raises(UserError, match=r"max_minutes.*found 0"):
        run_training(demonstrations, tmp_path, max_minutes=0.0)
    with pytest.raises(UserError, match=r"kl_weight.*found -1"):
        run_training(demonstrations, tmp_path, kl_weight=-1.0)
    for name in ("validate_every", "log_every"):
        with pytest.raises(UserError, match=rf"{name}=0: .*1 or more"):
            build_trainer(
                tmp_path, **({"max_steps": 1, "validate_every": 1, "log_every": 1} | {name: 0})
            )
    with pytest.raises(UserError, match=r"seed.*found -1"):
        build_training(
            TINY, OptimizerConfig(), make_data(demonstrations), 1, seed=-1, kl_weight=1.0
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"precision": "foo"}, "'foo' is invalid.*bf16-mixed"),
        ({"strategy": "foo"}, "strategy='foo'"),
        ({"devices": 0}, "trainer.devices=0"),
        ({"devices": "many"}, "trainer.devices=many"),
        ({"threads": 0}, "trainer.threads=0"),
    ],
)
def test_impossible_settings_of_the_trainer_are_refused(
    tmp_path: Path, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UserError, match=words):
        build_trainer(tmp_path, 1, 1, 1, **({"accelerator": "cpu"} | options))


def test_more_gpus_than_available_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(UserError, match=r"trainer.devices=4: torch finds 1 CUDA"):
        build_trainer(tmp_path, 1, 1, 1, accelerator="gpu", devices=4, precision="32-true")


# 17 training samples; three stages make one cell of 16x16 and two of 12x20
@pytest.mark.parametrize("batch_size", [1, 16])
def test_batch_norm_over_one_cell_of_one_sample_is_refused_before_training(
    demonstrations: Path, tmp_path: Path, batch_size: int
) -> None:
    options = {"max_steps": 2, "model": {"backbone_stages": 3}, "cameras": ["front"]}
    with pytest.raises(UserError, match=rf"data.batch_size={batch_size}: .*model.backbone_norm"):
        run_training(demonstrations, tmp_path, batch_size=batch_size, **options)
    assert run_training(demonstrations, tmp_path, batch_size=17, **options).trainer.global_step == 2


def test_a_frozen_norm_needs_weights(demonstrations: Path) -> None:
    with pytest.raises(UserError, match=r"backbone_weights to imagenet.*model.backbone_norm"):
        make_training(demonstrations, backbone_norm="frozen_batch")
