"""Attention that is read out: the right weights, of the right places, and nothing left behind."""

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from act_policy import ACTPolicy, Observation
from act_policy.evaluation.sections.attention import read_attention, recorded_weights
from act_policy.evaluation.sections.attention_section import commit_actions, show_attention
from act_policy.evaluation.sections.heat_map import enlarged, overlay
from act_policy.types import Camera, Schema
from tests.policy_for_tests import LONGEST_PATH, smallest_policy
from tests.tolerance import network_rounding, rounding

SCHEMA = Schema(
    cameras=(Camera("wide", 32, 64), Camera("small", 32, 32)),
    state_names=("x",),
    state_units=("m",),
    action_names=("dx",),
    action_units=("m",),
    rate=10.0,
)


@pytest.fixture(scope="module")
def policy() -> ACTPolicy:
    return smallest_policy(SCHEMA, chunk_length=3, decoder_layers=2)


def observations(count: int) -> list[Observation[np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        Observation(
            {
                c.name: rng.integers(0, 256, (c.height, c.width, 3), np.uint8)
                for c in SCHEMA.cameras
            },
            rng.normal(size=1).astype(np.float32),
        )
        for _ in range(count)
    ]


def test_weights_are_those_of_the_last_block_and_sum_to_one(policy: ACTPolicy) -> None:
    seen = observations(3)
    readings = read_attention(policy, seen)
    assert len(readings) == 3
    for reading in readings:
        assert set(reading.vectors) == {"latent", "state"}
        assert {name: m.shape for name, m in reading.maps.items()} == {
            "wide": (2, 3, 8, 16),
            "small": (2, 3, 8, 8),
        }
        total = sum(share for share in reading.shares().values())
        tokens = sum(m[0, 0].size for m in reading.maps.values()) + len(reading.vectors)
        np.testing.assert_allclose(total, np.ones((2, 3)), rtol=0, atol=rounding(tokens))
    alone = read_attention(policy, seen[1:2])[0]
    np.testing.assert_allclose(
        alone.maps["small"], readings[1].maps["small"], rtol=0, atol=network_rounding(LONGEST_PATH)
    )


@pytest.mark.parametrize("prefix_as", ["tokens", "both"])
def test_committed_actions_have_their_share(prefix_as: str, tmp_path: Path) -> None:
    positions = replace(SCHEMA, action_names=("x",))
    knowing = smallest_policy(positions, chunk_length=5, prefix_length=2, prefix_as=prefix_as)
    actions = np.arange(8, dtype=np.float32)[:, None]
    seen = [commit_actions(one, actions, knowing) for one in observations(2)]
    assert seen[0].prefix is not None
    np.testing.assert_array_equal(seen[0].prefix, actions[:2])
    for reading in read_attention(knowing, seen):
        assert list(reading.shares())[:3] == ["latent", "state", "committed actions"]
        assert (reading.vectors["committed actions"] > 0).all()
        total = sum(share for share in reading.shares().values())
        np.testing.assert_allclose(total, np.ones_like(total), rtol=0, atol=rounding(200))
    shown = show_attention(tmp_path, {"now": seen[0]}, knowing)
    assert shown is not None
    assert shown.committed == 2
    assert [row[1] for row in shown.table.rows] == ["3", "5"]


def test_the_task_has_its_share() -> None:
    knowing = smallest_policy(replace(SCHEMA, tasks=("open it", "close it")))
    (reading,) = read_attention(knowing, [observations(1)[0]._replace(task="close it")])
    assert list(reading.vectors) == ["latent", "state", "task"]
    total = sum(share for share in reading.shares().values())
    np.testing.assert_allclose(total, np.ones_like(total), rtol=0, atol=rounding(200))


def test_a_place_in_the_map_is_the_place_in_the_image(policy: ACTPolicy) -> None:
    """Where the encoder mixes nothing, a token depends on what lies around it alone."""
    policy = copy.deepcopy(policy)
    torch.nn.init.zeros_(policy.act.encoder.layers[0].attention.out_proj.weight)
    before = observations(1)[0]
    image = before.images["small"].copy()
    image[20:24, 4:8] = 255 - image[20:24, 4:8]  # about row 5, column 1 of the map of 8 x 8
    after = before._replace(images={**before.images, "small": image})
    readings = read_attention(policy, [before, after])
    change = [np.log(reading.maps["small"]).mean(axis=(0, 1)) for reading in readings]
    place = np.abs(change[1] - change[0] - np.median(change[1] - change[0]))
    row, column = np.unravel_index(place.argmax(), place.shape)
    assert abs(row - 5) <= 1
    assert abs(column - 1) <= 1


def test_the_prediction_is_the_same_and_no_hook_stays(policy: ACTPolicy) -> None:
    seen = observations(1)[0]
    plain = policy.predict_chunk(seen)
    with recorded_weights(policy.act) as weights:
        recorded = policy.predict_chunk(seen)
    assert len(weights) == 2
    tolerance = network_rounding(LONGEST_PATH, np.abs(plain).max())
    np.testing.assert_allclose(recorded, plain, rtol=0, atol=tolerance)
    policy.predict_chunk(seen)
    assert len(weights) == 2
    for block in policy.act.decoder:
        assert not block.cross_attention._forward_hooks
        assert not block.cross_attention._forward_pre_hooks


def test_a_heat_map_is_bright_where_it_is_read_and_faint_where_it_is_not() -> None:
    image = np.full((40, 80, 3), 100, np.uint8)
    shares = np.zeros((2, 4), np.float32)
    shares[1, 3] = 1.0
    shown = overlay(image, shares, 60).astype(int)
    assert shown.shape == (60, 120, 3)
    assert shown[50, 110].sum() > 500
    assert shown[10, 10].sum() < 300
    faint = overlay(image, shares * 1e-6, 60).astype(int)
    assert np.ptp(faint) <= 1
    assert enlarged(image, 20).shape == (20, 40, 3)
