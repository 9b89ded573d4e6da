"""Moments in which a gripper moves are shown more often, and the order stays exact."""

from collections import Counter
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from act_policy.data.aloha.episode import write_episode
from act_policy.data.conversion.convert import convert
from act_policy.data.lerobot.staging import LeRobotWriterConfig
from act_policy.data.loading.datamodule import DemonstrationDataModule
from act_policy.data.loading.emphasis import find_moments
from act_policy.data.loading.order import Mix, ResumableLoader, draw_epoch
from act_policy.data.open import open_dataset
from act_policy.errors import UserError
from tests.data.episodes_for_tests import make_arrays, make_schema

SCHEMA = replace(make_schema(), action_names=("j0", "j1", "gripper"))
LENGTH, CLOSES, REACH = 40, 20, 5  # half a second at 10 steps per second
MOMENT = {(0, step) for step in range(CLOSES - REACH, CLOSES + REACH)}


@pytest.fixture
def folder(tmp_path):
    """One episode whose gripper closes at step 20, and one whose gripper only trembles."""
    gripper = np.ones(LENGTH), np.random.default_rng(0).uniform(0.9, 1.0, 15)
    gripper[0][CLOSES:] = 0
    for episode, values in enumerate(gripper):
        arrays = make_arrays(SCHEMA, len(values), episode)
        arrays["action"][:, 2] = values
        write_episode(tmp_path / "demos" / f"episode_{episode}.hdf5", SCHEMA, **arrays)
    return tmp_path / "demos"


def load(folder, weight, **options):
    options = {"held_out_episodes": [], "emphasis": {"weight": weight}} | options
    return DemonstrationDataModule(folder, 3, 4, **options)


def places(loader):
    return [
        place
        for batch in loader
        for place in zip(batch.episode.tolist(), batch.step.tolist(), strict=True)
    ]


def test_the_steps_around_a_movement_are_found(folder):
    found = find_moments(open_dataset(folder), None, [0, 1])
    assert {(0, int(step)) for step in np.flatnonzero(found)} == MOMENT
    others = find_moments(open_dataset(folder), ["j0"], [0, 1])
    assert others.sum() > found.sum()  # random numbers move all the time


def test_an_epoch_shows_moments_as_often_as_their_weight_says(folder):
    for weight in (2.0, 3.0):
        data = load(folder, weight)
        seen = Counter(places(data.train_dataloader()))
        assert seen.total() == data.samples_per_epoch == 55 + (weight - 1) * len(MOMENT)
        assert {place for place, times in seen.items() if times == weight} == MOMENT
        assert len(seen) == 55


def test_a_weight_of_one_is_the_order_without_emphasis(folder):
    plain = DemonstrationDataModule(folder, 3, 4, held_out_episodes=[])
    assert places(load(folder, 1.0).train_dataloader()) == places(plain.train_dataloader())


def test_any_batch_of_any_epoch_can_be_resumed(folder):
    whole = load(folder, 2.0).train_dataloader()
    whole.order.set_epoch(1)
    rest = load(folder, 2.0).train_dataloader()
    rest.order.place = lambda: (1, 3 * 4)
    assert places(rest) == places(whole)[12:]
    with pytest.raises(UserError, match="cannot resume: the interrupted run had samples 65"):
        load(folder, 3.0).train_dataloader().load_state_dict(whole.state_dict())


def test_several_processes_share_an_epoch(folder, monkeypatch):
    monkeypatch.setattr(ResumableLoader, "follow", lambda self, trainer: None)
    parts = []
    for rank in range(2):
        data = load(folder, 2.0)
        data.trainer = SimpleNamespace(
            world_size=2,
            global_rank=rank,
            accumulate_grad_batches=1,
            strategy=SimpleNamespace(root_device=torch.device("cpu")),
        )
        parts.append(places(data.train_dataloader()))
    assert len(parts[0]) == len(parts[1]) == 33
    seen = Counter(chain(*parts))
    assert len(seen) == 55
    assert seen.total() == 66  # one is repeated, so that both have as many


def test_weights_of_a_mixture_and_of_moments_multiply(folder, tmp_path):
    folder.rename(tmp_path / "first")
    arrays = make_arrays(SCHEMA, LENGTH, 9)
    arrays["action"][:, 2] = np.arange(LENGTH) >= CLOSES
    write_episode(tmp_path / "other" / "episode_0.hdf5", SCHEMA, **arrays)
    data = load(tmp_path / "first", 2.0, mix=[{"path": tmp_path / "other", "weight": 3}])
    seen = Counter(places(data.train_dataloader()))
    times = Counter((episode, count) for (episode, _), count in seen.items())
    assert times == {
        **{(0, 1): LENGTH - len(MOMENT), (0, 2): len(MOMENT), (1, 1): 15},
        **{(2, 3): LENGTH - len(MOMENT), (2, 6): len(MOMENT)},
    }


def test_frames_that_are_decoded_together_stay_together():
    """Without a cache, blocks of frames are whole but where a moment begins or ends."""
    blocks, groups = np.repeat(np.arange(10), 6), np.zeros(60, np.int64)
    groups[15:30] = 1
    order = draw_epoch(60, 0, 2, Mix(groups, (1.0, 2.0)), blocks)
    assert Counter(Counter(order.tolist()).values()) == {1: 45, 2: 15}
    pieces = (np.diff(blocks[order]) != 0).sum() + 1
    assert pieces <= 10 + 2 * 3


PERSON = np.array([0] * 6 + [1] * 5 + [0] * 4, bool)


@pytest.fixture(params=["aloha", "lerobot"])
def runs(request, tmp_path):
    """A run in which a person took over, one of the policy alone, and a demonstration."""
    for number, operator in enumerate((PERSON, np.zeros(9, bool), None)):
        steps = 8 if operator is None else len(operator)
        path = tmp_path / "runs" / f"episode_{number}.hdf5"
        write_episode(path, SCHEMA, **make_arrays(SCHEMA, steps, number), operator=operator)
    if request.param == "aloha":
        return tmp_path / "runs"
    png = LeRobotWriterConfig(images="png")
    convert(open_dataset(tmp_path / "runs"), tmp_path / "converted", "lerobot_v3", png, workers=1)
    return tmp_path / "converted"


def test_steps_in_which_a_person_had_taken_over_are_shown_more_often(runs, folder):
    taken_over = {(0, step) for step in np.flatnonzero(PERSON).tolist()}
    data = load(runs, 1.0, emphasis={"takeovers": 3.0})
    seen = Counter(places(data.train_dataloader()))
    assert {place for place, times in seen.items() if times == 3} == taken_over
    assert seen.total() == 15 + 9 + 8 + 2 * len(taken_over)
    # a folder without such runs beside it; a demonstration is no takeover
    mixed = load(folder, 1.0, emphasis={"takeovers": 3.0}, mix=[{"path": runs, "weight": 2}])
    seen = Counter(places(mixed.train_dataloader()))
    assert {place for place, times in seen.items() if times == 6} == {
        (2 + episode, step) for episode, step in taken_over
    }


def test_takeovers_and_moments_of_grippers_multiply(runs):
    emphasis = {"weight": 2.0, "actions": ["j0"], "takeovers": 3.0}  # j0 moves all the time
    seen = Counter(places(load(runs, 1.0, emphasis=emphasis).train_dataloader()))
    assert set(seen.values()) == {2, 6}


def test_without_a_takeover_the_weight_is_refused(folder, runs):
    for path, options in ((folder, {}), (runs, {"select": {"operator": "person"}})):
        data = load(path, 1.0, emphasis={"takeovers": 2.0}, **options)
        with pytest.raises(UserError, match=r"no training episode a person takes over .*data.mix"):
            data.train_dataloader()


def test_what_cannot_be_emphasised_is_refused(folder, make_folder, tmp_path):
    for emphasis, message in (
        ({"weight": 0.0}, "weight=0.0: expected a number above 0"),
        ({"takeovers": 0.0}, "takeovers=0.0: expected a number above 0"),
        ({"wieght": 2.0}, "unknown fields wieght; known are actions, takeovers, weight"),
        ({"weight": 2.0, "actions": ["j5"]}, "there is no j5 .actions j0, j1, gripper"),
    ):
        with pytest.raises(UserError, match=message):
            load(folder, 1.0, emphasis=emphasis).train_dataloader()
    with pytest.raises(UserError, match=r"no action is named gripper .*emphasis.actions="):
        load(make_folder([20], name="nameless"), 2.0).train_dataloader()
    still = make_arrays(SCHEMA, 12, 0)
    still["action"][:, 2] = 1.0
    write_episode(tmp_path / "still" / "episode_0.hdf5", SCHEMA, **still)
    with pytest.raises(UserError, match="gripper never opens or closes in the training episodes"):
        load(tmp_path / "still", 2.0).train_dataloader()
