"""Averaged weights."""

import pytest
import torch
from torch import nn

from act_policy.training.averaged_weights import average_weights


def test_the_average_equals_a_calculation_by_hand() -> None:
    module = nn.Linear(1, 1)
    average = average_weights(module, decay=0.5)
    expected = float(module.weight.detach())
    for step, value in enumerate((1.0, -2.0, 4.0, 8.0), start=1):
        with torch.no_grad():
            module.weight.fill_(value)
        average.update_parameters(module)
        decay = min(0.5, (1 + step) / (10 + step))
        expected = decay * expected + (1 - decay) * value
        assert float(average.module.weight) == pytest.approx(expected, abs=1e-6)  # type: ignore[arg-type]


def test_the_first_step_forgets_most_of_the_random_start() -> None:
    module = nn.Linear(1, 1)
    average = average_weights(module, decay=0.999)
    start = float(module.weight.detach())
    with torch.no_grad():
        module.weight.fill_(start + 1)
    average.update_parameters(module)
    moved = float(average.module.weight) - start  # type: ignore[arg-type]
    assert moved == pytest.approx(9 / 11, abs=1e-6)


def test_running_statistics_of_norms_are_averaged_and_counters_copied() -> None:
    norm = nn.BatchNorm1d(2)
    average = average_weights(norm, decay=0.1)
    norm(torch.full((4, 2), 10.0))
    assert norm.running_mean is not None
    average.update_parameters(norm)
    assert torch.allclose(average.module.running_mean, 0.9 * norm.running_mean)  # type: ignore[arg-type]
    assert average.module.num_batches_tracked == 1


def test_the_average_is_never_trained() -> None:
    average = average_weights(nn.Linear(2, 2), decay=0.9)
    assert not any(p.requires_grad for p in average.parameters())
    assert average.module.state_dict().keys() == nn.Linear(2, 2).state_dict().keys()
