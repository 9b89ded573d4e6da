"""Units in, unit spread out, and back; degenerate dimensions stay finite."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from act_policy.model.normalizer import IMAGENET_MEAN, IMAGENET_STD, Normalizer
from act_policy.statistics import FieldStatistics, Statistics
from tests.examples import FEW
from tests.tolerance import rounding


def statistics_of(actions: np.ndarray) -> Statistics:
    field = FieldStatistics(actions.mean(0), actions.std(0), actions.min(0), actions.max(0))
    return Statistics(field, field, len(actions))


def test_degenerate_dimensions() -> None:
    """A constant 0.3, a std of 1e-5 and a std of 50: finite, the constant back, unit spread."""
    generator = np.random.default_rng(0)
    data = np.stack(
        [
            np.full(1000, 0.3),
            0.1 + 1e-5 * generator.normal(size=1000),
            7 + 50 * generator.normal(size=1000),
        ],
        axis=1,
    )
    normalizer = Normalizer(statistics_of(data))
    values = torch.tensor(data, dtype=torch.float32)
    state = values[:1]
    normalised = normalizer.state(values)
    assert torch.isfinite(normalised).all()
    assert normalised[:, :2].abs().max() < 0.01
    assert abs(normalised[:, 2].std().item() - 1) < 0.01
    back = normalizer.physical_actions(normalizer.actions(values[None], state), state)[0]
    torch.testing.assert_close(back[:, 0], torch.full((1000,), 0.3), atol=rounding(3, 0.3), rtol=0)
    # the network's zero is the constant
    assert normalizer.physical_actions(torch.zeros(1, 1, 3), state)[0, 0, 0].item() == np.float32(
        0.3
    )


@given(
    st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=4),
    st.lists(st.floats(0, 1e3), min_size=2, max_size=2),
)
@FEW
def test_physical_actions_is_the_inverse(values: list[float], std: list[float]) -> None:
    field = FieldStatistics(np.array(values[:2]), np.array(std), np.zeros(2), np.zeros(2))
    normalizer = Normalizer(Statistics(field, field, 10))
    actions = torch.tensor(values).reshape(1, 2, 2)
    state = torch.zeros(1, 2)
    back = normalizer.physical_actions(normalizer.actions(actions, state), state)
    # at most 1000 from the mean, which is at most 1000: subtract, divide, multiply, add
    torch.testing.assert_close(back, actions, atol=rounding(4, 2000.0), rtol=0)


def test_images_are_scaled_as_imagenets(statistics: Statistics) -> None:
    normalizer = Normalizer(statistics)
    images = torch.randint(0, 256, (2, 4, 5, 3), dtype=torch.uint8)
    found = normalizer.images(images, "top")
    assert found.shape == (2, 3, 4, 5)
    for channel in range(3):
        expected = (images[..., channel] / 255 - IMAGENET_MEAN[channel]) / IMAGENET_STD[channel]
        tolerance = rounding(4, 1 / IMAGENET_STD[channel])
        torch.testing.assert_close(found[:, channel], expected, atol=tolerance, rtol=0)


def test_statistics_travel_in_the_state_dict(statistics: Statistics) -> None:
    names = set(Normalizer(statistics).state_dict())
    assert names >= {"state_mean", "state_scale", "action_mean", "action_scale", "image_mean"}


def test_relative_actions_are_differences_from_the_state_of_the_same_name() -> None:
    field = FieldStatistics(np.array([0.5, 0.0]), np.array([2.0, 1.0]), np.zeros(2), np.zeros(2))
    # action 0 is relative to state 2, action 1 is absolute
    normalizer = Normalizer(Statistics(field, field, 10), [2, None])
    state = torch.tensor([[9.0, 9.0, 1.0], [9.0, 9.0, -1.0]])
    actions = torch.tensor([[[4.5, 3.0]], [[4.5, 3.0]]])
    normalised = normalizer.actions(actions, state)
    torch.testing.assert_close(normalised, torch.tensor([[[1.5, 3.0]], [[2.5, 3.0]]]))
    torch.testing.assert_close(normalizer.physical_actions(normalised, state), actions)
    assert set(normalizer.state_dict()) == set(
        Normalizer(Statistics(field, field, 10)).state_dict()
    )
