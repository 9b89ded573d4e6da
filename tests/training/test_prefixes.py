"""What training commits of a demonstrated chunk, and that the loss leaves it out."""

import torch

from act_policy.data.loading.batches import Batch
from act_policy.training.optimizer import OptimizerConfig
from act_policy.training.policy_training import PolicyTraining
from act_policy.training.prefixes import MISSING, NOISE, draw_prefix
from act_policy.types import Observation
from tests.policy_for_tests import smallest_policy
from tests.training.training_for_tests import SCHEMA

LENGTH = 3
SCALE = torch.tensor([1.0, 2.0, 0.5])


def chunks(batch: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(seed)
    return torch.randn(batch, 4, 3), torch.zeros(batch, 4, dtype=torch.bool)


def counts(prefix: torch.Tensor) -> torch.Tensor:
    return (~prefix.isnan().any(dim=-1)).sum(dim=1)


def test_every_number_of_committed_actions_is_drawn() -> None:
    target, is_pad = chunks(8000)
    drawn = counts(draw_prefix(target, is_pad, LENGTH, SCALE))
    shares = torch.bincount(drawn, minlength=LENGTH + 1) / len(drawn)
    each = (1 - MISSING) / (LENGTH + 1)
    expected = torch.tensor([MISSING + each, each, each, each])
    assert torch.allclose(shares, expected, atol=0.02)


def test_they_are_the_first_demonstrated_ones_but_for_noise() -> None:
    target, is_pad = chunks(8000)
    prefix = draw_prefix(target, is_pad, LENGTH, SCALE)
    free = prefix.isnan()
    assert torch.equal(free.any(-1), free.all(-1))
    assert (free[:, 1:] >= free[:, :-1]).all()  # whole rows, and the first ones
    noise = ((prefix - target[:, :LENGTH]) / SCALE)[~free]
    assert abs(noise.mean()) < NOISE / 20
    assert abs(noise.std() / NOISE - 1) < 0.05


def test_padding_is_never_committed() -> None:
    target, is_pad = chunks(2000)
    is_pad[:, 1:] = True
    assert counts(draw_prefix(target, is_pad, LENGTH, SCALE)).max() == 1


def batch_of(target: torch.Tensor, is_pad: torch.Tensor) -> Batch:
    count, generator = len(target), torch.Generator().manual_seed(1)
    images = {
        c.name: torch.randint(
            0, 256, (count, c.height, c.width, 3), dtype=torch.uint8, generator=generator
        )
        for c in SCHEMA.cameras
    }
    state = torch.randn(count, 2, generator=generator)
    origin = torch.zeros(count, dtype=torch.int64)
    return Batch(Observation(images, state), target, is_pad, origin, origin)


def training_of(prefix_length: int) -> PolicyTraining:
    policy = smallest_policy(SCHEMA, prefix_length=prefix_length)
    return PolicyTraining(policy, OptimizerConfig(), 10)


def test_the_loss_is_on_the_actions_that_are_free() -> None:
    training = training_of(LENGTH)
    target, is_pad = chunks(2)
    prefix = torch.full((2, LENGTH, 3), torch.nan)
    prefix[0, :2], prefix[1, :3] = target[0, :2], target[1, :3]
    rows = torch.tensor([[True, True, False, False], [True, True, True, False]])
    batch = batch_of(target, is_pad)
    seen = batch.observation._replace(prefix=prefix)
    loss, _ = training.losses(training.policy, batch, "zero", seen)
    output, normalised = training.predict(training.policy, batch, "zero", seen)
    assert torch.isclose(loss, (output.actions - normalised).abs()[~rows].mean())
    other = torch.where(rows[..., None], target + 9, target)
    changed, _ = training.losses(training.policy, batch_of(other, is_pad), "zero", seen)
    assert torch.equal(changed, loss)


def test_a_step_teaches_the_prefix_and_the_images() -> None:
    training = training_of(LENGTH)
    torch.manual_seed(0)
    training.training_step(batch_of(*chunks(16)), 0).backward()
    for part in (training.policy.act.prefix_encoder, training.policy.act.image_encoder):
        for name, parameter in part.named_parameters():
            assert parameter.grad is not None, name
            assert parameter.grad.abs().sum() > 0, name


def test_a_policy_without_a_prefix_draws_nothing() -> None:
    training, batch = training_of(0), batch_of(*chunks(4))
    torch.manual_seed(7)
    first = torch.rand(1)
    torch.manual_seed(7)
    training.training_step(batch, 0)
    assert torch.equal(torch.rand(1), first)
