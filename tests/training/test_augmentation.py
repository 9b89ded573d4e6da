"""Augmentation: every option does something, to training only, and a resumed run repeats it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from act_policy.data.inspection.evidence import InspectionConfig
from act_policy.data.inspection.inspect import inspect_folder
from act_policy.data.inspection.page import inspection_page
from act_policy.errors import UserError
from act_policy.training.augmentation import Augmentation, AugmentationConfig
from act_policy.training.augmented_samples import draw_augmented
from act_policy.training.build import build_training
from act_policy.training.optimizer import OptimizerConfig
from act_policy.types import Observation
from tests.training import training_for_tests
from tests.training.training_for_tests import (
    TINY,
    assert_same_weights,
    make_data,
    run_training,
    write_demonstrations,
)

EVERY: dict[str, Any] = {
    **{"brightness": 0.2, "contrast": 0.2, "saturation": 0.5, "hue": 0.05},
    "cameras": {"wrist": {"hue": 0}},
    "state_dropout": 0.3,
}
COUNT = 16


def observation() -> Observation[Tensor]:
    """The same coloured image for each sample, so that draws can be compared."""
    generator = torch.Generator().manual_seed(0)
    images = {
        name: torch.randint(60, 180, (12, 20, 3), generator=generator, dtype=torch.uint8)
        for name in ("front", "wrist")
    }
    images = {name: image.expand(COUNT, -1, -1, -1) for name, image in images.items()}
    return Observation(images, torch.rand(COUNT, 2, generator=generator))


def augment(seed: int = 0, **options: Any) -> Observation[Tensor]:
    torch.manual_seed(seed)
    augmentation = Augmentation(AugmentationConfig(**options), ("front", "wrist"))
    return augmentation(observation(), torch.tensor([5.0, 6.0]))


def assert_equal(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> None:
    for name, image in one.items():
        assert torch.equal(image, other[name])


def saturation_of(images: Tensor) -> Tensor:
    values = images.float()
    return (values.amax(dim=-1) - values.amin(dim=-1)).mean(dim=(1, 2))


def test_every_option_changes_uint8_images_as_its_name_says() -> None:
    before = observation().images["front"]
    level, spread = before.float().mean(), before.float().std()
    changed = {
        option: augment(**{option: 0.3}).images["front"]
        for option in ("brightness", "contrast", "saturation", "hue")
    }
    for option, images in changed.items():
        assert (images.dtype, images.shape) == (torch.uint8, before.shape)
        assert images.is_contiguous(), option
        assert all((image != before[0]).any() for image in images), option
        assert len({tuple(image.flatten().tolist()) for image in images}) == COUNT, option
    levels = changed["brightness"].float().mean(dim=(1, 2, 3)) / level
    assert 0.69 < levels.min() < 0.85
    assert 1.15 < levels.max() < 1.31
    spreads = changed["contrast"].float().std(dim=(1, 2, 3)) / spread
    assert 0.69 < spreads.min() < 0.85
    assert 1.15 < spreads.max() < 1.31
    means = changed["contrast"].float().mean(dim=(1, 2, 3))
    assert (means / level).sub(1).abs().max() < 0.05
    saturations = saturation_of(changed["saturation"]) / saturation_of(before)[0]
    assert saturations.min() < 0.85
    assert saturations.max() > 1.1
    brightest = changed["hue"].amax(dim=-1).float() - before.amax(dim=-1).float()
    assert brightest.abs().max() <= 2  # colours turn, and nothing gets brighter


def test_nothing_is_changed_by_default() -> None:
    state = torch.random.get_rng_state()
    torch.manual_seed(0)
    same = augment()
    assert_equal(same.images, observation().images)
    assert torch.equal(same.state, observation().state)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))  # no random number was taken either
    torch.random.set_rng_state(state)


def test_a_camera_with_its_own_values() -> None:
    before = observation().images
    off = augment(brightness=0.3, cameras={"wrist": None}).images
    assert torch.equal(off["wrist"], before["wrist"])
    assert (off["front"] != before["front"]).any()
    own = augment(brightness=0.3, cameras={"wrist": {"brightness": 0.0, "hue": 0.3}}).images
    hardly = own["wrist"].amax(dim=-1).float() - before["wrist"].amax(dim=-1).float()
    assert hardly.abs().max() <= 2
    assert (own["wrist"] != before["wrist"]).any()


def test_the_state_of_some_samples_is_its_mean() -> None:
    changed, before = augment(state_dropout=0.5), observation()
    dropped = (changed.state == torch.tensor([5.0, 6.0])).all(dim=1)
    assert 0 < dropped.sum() < COUNT
    assert torch.equal(changed.state[~dropped], before.state[~dropped])
    assert_equal(changed.images, before.images)


def test_wrong_values_are_refused() -> None:
    for options, message in (
        ({"hue": 0.6}, r"augmentation\.hue=0\.6: expected 0 to 0\.5"),
        ({"state_dropout": 1.0}, r"augmentation\.state_dropout=1\.0"),
        ({"cameras": {"top": {}}}, "no camera top; the demonstrations have front, wrist"),
        ({"cameras": {"wrist": {"hue": -1}}}, r"augmentation\.cameras\.wrist\.hue=-1"),
        ({"cameras": {"wrist": {"blur": 1}}}, r"wrist: unknown blur; there are brightness"),
    ):
        with pytest.raises(UserError, match=message):
            augment(**options)


def test_a_resumed_run_draws_the_same_and_held_out_losses_draw_nothing(
    demonstrations: Path, tmp_path: Path
) -> None:
    config = AugmentationConfig(**EVERY)
    straight = run_training(demonstrations, tmp_path / "straight", augmentation=config)
    first = run_training(demonstrations, tmp_path / "run", stop_at=3, augmentation=config)
    second = run_training(
        demonstrations,
        tmp_path / "run",
        checkpoint=first.checkpoints / "last.ckpt",
        augmentation=config,
    )
    assert_same_weights(straight.weights(), second.weights())
    plain = run_training(demonstrations, tmp_path / "plain", max_steps=1)
    changed = run_training(demonstrations, tmp_path / "more", max_steps=1, augmentation=config)
    losses = [float(run.training.measured["train_l1"]) for run in (plain, changed)]
    assert losses[0] != losses[1]
    module = straight.training
    batch = straight.trainer.datamodule.held_out_samples.__getitems__([0, 1])
    with torch.no_grad():
        module.on_validation_epoch_start()
        errors = module.validation_step(batch, 0)
        output, target = module.predict(module.best_policy, batch, "zero")
    assert torch.equal(errors, (output.actions - target).abs())


def test_actions_relative_to_a_dropped_state_start_from_the_true_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike = replace(training_for_tests.SCHEMA, action_names=("x", "y", "grip"))
    monkeypatch.setattr(training_for_tests, "SCHEMA", alike)
    data = make_data(write_demonstrations(tmp_path), select={"relative": True})
    config = AugmentationConfig(state_dropout=0.999)
    training = build_training(
        TINY, OptimizerConfig(), data, max_steps=10, kl_weight=1.0, augmentation=config
    )
    batch = next(iter(data.train_dataloader()))
    assert training.augmentation is not None
    mean = training.policy.normalizer.state_mean
    seen = training.augmentation(batch.observation, mean)
    assert torch.equal(seen.state, mean.expand(4, 2))
    _, target = training.predict(training.policy, batch, "zero", seen)
    _, expected = training.predict(training.policy, batch, "zero")
    assert torch.equal(target, expected)


def test_pictures_of_augmented_samples(demonstrations: Path) -> None:
    inspection = inspect_folder(demonstrations, InspectionConfig(), shown_episodes=2)
    config = AugmentationConfig(brightness=0.5, cameras={"wrist": None})
    drawn = draw_augmented(config, inspection.looks)
    assert [camera for camera, _, _ in drawn] == ["front", "wrist"]
    (_, recorded, changed), (_, plain, same) = drawn
    assert len(recorded) == len(changed) == 2
    assert all(one.uri != other.uri for one, other in zip(recorded, changed, strict=True))
    assert [image.uri for image in plain] == [image.uri for image in same]
    assert recorded[0].alt.startswith("episode 0, step ")
    page = inspection_page(inspection, drawn)
    assert all(image.uri in page for image in (*recorded, *changed))
    assert "Augmented samples" not in inspection_page(inspection)
