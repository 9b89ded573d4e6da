"""Averaged weights."""

import torch
from torch import nn

from act_policy.training.ema import AveragedModel
from tests.tolerance import rounding


def test_follows_by_hand() -> None:
    module = nn.Linear(1, 1)
    average = AveragedModel(module, decay=0.5)
    expected = float(module.weight.detach())
    for step, value in enumerate((1.0, -2.0, 4.0, 8.0), start=1):
        with torch.no_grad():
            module.weight.fill_(value)
        average.update(module, step)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        # three roundings per step, of numbers up to 8
        assert abs(float(average.module.weight) - expected) <= rounding(3 * step, 8.0)


def test_first_steps_forget_the_random_start() -> None:
    module = nn.Linear(1, 1)
    average = AveragedModel(module, decay=0.999)
    start = float(module.weight.detach())
    with torch.no_grad():
        module.weight.fill_(start + 1)
    average.update(module, 1)
    assert float(average.module.weight) - start > 0.8


def test_norms_running_statistics_are_averaged_and_counters_copied() -> None:
    norm = nn.BatchNorm1d(2)
    average = AveragedModel(norm, decay=0.5)
    norm(torch.full((4, 2), 10.0))
    mean = norm.running_mean
    assert mean is not None
    average.update(norm, 1000)
    assert torch.allclose(average.module.running_mean, 0.5 * mean)  # type: ignore[arg-type]
    assert average.module.num_batches_tracked == 1


def test_is_never_trained() -> None:
    average = AveragedModel(nn.Linear(2, 2), decay=0.9)
    assert not any(p.requires_grad for p in average.parameters())
    assert average.module.state_dict().keys() == nn.Linear(2, 2).state_dict().keys()
