"""What clients send becomes an observation, or a message that names both sides."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from act_policy import Observation, Schema, UserError
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.policies.wire import pack, unpack
from act_policy.images.resize import crop_and_resize
from act_policy.types import Camera
from tests.control.server_for_tests import SCHEMA, message, observe

KEYS = ObservationKeys().for_schema(SCHEMA)
ALOHA = ObservationKeys(
    cameras={"top": "images/cam_high", "wrist": "images/cam_left_wrist"},
    ignore=("images/cam_low",),
).for_schema(SCHEMA)


def same(found: Observation[np.ndarray], expected: Observation[np.ndarray]) -> None:
    assert list(found.images) == ["top", "wrist"]
    for name in found.images:
        assert found.images[name].dtype == np.uint8
        np.testing.assert_array_equal(found.images[name], expected.images[name])
    assert found.state.dtype == np.float32
    np.testing.assert_array_equal(found.state, expected.state)


def test_a_message_of_alohas() -> None:
    expected = observe(3)
    images = {
        "cam_high": expected.images["top"].transpose(2, 0, 1),
        "cam_left_wrist": expected.images["wrist"].transpose(2, 0, 1),
        "cam_low": np.zeros((3, 2, 2), np.uint8),
    }
    sent = {"state": expected.state, "images": images, "prompt": "fold the towel"}
    same(ALOHA.to_observation(unpack(pack(sent)), SCHEMA), expected)


def test_keys_with_slashes_and_a_state_of_doubles() -> None:
    expected = observe(4)
    keys = ObservationKeys("observation/state", cameras={"top": "observation/image"})
    sent = {
        "observation/state": expected.state.astype(np.float64),
        "observation/image": expected.images["top"],
        "images": {"wrist": expected.images["wrist"]},
    }
    same(keys.for_schema(SCHEMA).to_observation(sent, SCHEMA), expected)


@pytest.mark.parametrize("keys", [KEYS, ALOHA])
def test_messages_of_our_client_are_read_back(keys: ObservationKeys) -> None:
    again = ObservationKeys.from_dict(unpack(pack(keys.to_dict()))).for_schema(SCHEMA)
    expected = observe(5)
    sent = again.to_message(expected, SCHEMA, jpeg=False)
    same(keys.to_observation(unpack(pack(sent)), SCHEMA), expected)


@given(st.sampled_from([np.float16, np.float32, np.float64]), st.booleans())
def test_images_of_floats_come_back_as_they_were(dtype: Any, channels_first: bool) -> None:
    every = np.arange(256, dtype=np.uint8)
    schema = Schema((Camera("top", 16, 16),), ("x",), ("m",), ("x",), ("m",), 50.0)
    image = np.stack([every.reshape(16, 16)] * 3, -1)
    sent = (image / 255).astype(dtype)
    if channels_first:
        sent = sent.transpose(2, 0, 1)
    keys = ObservationKeys().for_schema(schema)
    found = keys.to_observation({"state": np.zeros(1), "images": {"top": sent}}, schema)
    np.testing.assert_array_equal(found.images["top"], image)


@given(st.booleans(), st.booleans())
def test_an_image_as_the_camera_takes_it_is_made_as_in_training(
    channels_first: bool, floats: bool
) -> None:
    camera = Camera("top", 6, 8, source_size=(24, 40), crop=(2, 4, 20, 30))
    schema = Schema((camera,), ("x",), ("m",), ("x",), ("m",), 50.0)
    keys = ObservationKeys().for_schema(schema)
    taken = np.random.default_rng(0).integers(0, 256, (24, 40, 3), dtype=np.uint8)
    made = crop_and_resize(taken, camera.crop, 6, 8)
    for image in (taken, made):
        sent = (image / 255).astype(np.float32) if floats else image
        sent = sent.transpose(2, 0, 1) if channels_first else sent
        found = keys.to_observation({"state": np.zeros(1), "images": {"top": sent}}, schema)
        np.testing.assert_array_equal(found.images["top"], made)
    other = {"state": np.zeros(1), "images": {"top": np.zeros((20, 30, 3), np.uint8)}}
    with pytest.raises(UserError) as error:
        keys.to_observation(other, schema)
    for words in ("(20, 30, 3)", "(6, 8, 3)", "(24, 40, 3)"):
        assert words in str(error.value)


def changed(**changes: Any) -> dict[str, Any]:
    sent = message(observe())
    images = {**sent["images"], **changes.pop("images", {})}
    return {**sent, "images": {k: v for k, v in images.items() if v is not None}, **changes}


@pytest.mark.parametrize(
    ("sent", "words"),
    [
        pytest.param([1, 2], ["dictionary", "list"], id="no dictionary"),
        pytest.param({}, ["missing: state, images/top, images/wrist"], id="empty"),
        pytest.param(
            changed(images={"top": None, "cam_high": np.zeros((6, 8, 3), np.uint8)}),
            ["missing: images/top", "not known: images/cam_high"],
            id="renamed camera",
        ),
        pytest.param(changed(velocity=np.zeros(2)), ["not known: velocity"], id="extra"),
        pytest.param(
            changed(images={"top": np.zeros((8, 6, 3), np.uint8)}),
            ["images/top", "(8, 6, 3)", "expected uint8 (6, 8, 3)"],
            id="wrong size",
        ),
        pytest.param(
            changed(images={"top": np.zeros((1, 6, 8, 3), np.uint8)}), ["(1, 6, 8, 3)"], id="batch"
        ),
        pytest.param(
            changed(images={"top": b"JPEG"}),
            ["images/top: 4 bytes that are"],
            id="no array",
        ),
        pytest.param(
            changed(images={"top": np.full((6, 8, 3), 200.0)}), ["200", "from 0 to 1"], id="range"
        ),
        pytest.param(
            changed(images={"top": np.full((6, 8, 3), np.nan)}), ["nan", "from 0 to 1"], id="NaN"
        ),
        pytest.param(
            changed(images={"top": np.zeros((6, 8, 3), np.int64)}), ["int64", "uint8"], id="dtype"
        ),
        pytest.param(changed(state=np.array([0, np.nan])), ["finite", " in y"], id="NaN state"),
        pytest.param(changed(state=np.array([1e300, 0])), ["finite", " in x"], id="too large"),
        pytest.param(changed(state=np.zeros(3)), ["(3,)", "(2,)"], id="too long"),
        pytest.param(changed(state=np.zeros((1, 2))), ["(1, 2)", "row"], id="state of a batch"),
        pytest.param(changed(state=np.array(["a", "b"])), ["row of numbers"], id="text"),
        pytest.param(changed(state=[1, "b"]), ["list", "row of numbers"], id="mixed list"),
        pytest.param(changed(state="0, 0"), ["str"], id="state is text"),
        pytest.param({**changed(), "images/top": 1}, ["twice"], id="nested and flat"),
        pytest.param({b"state": 1}, ["keys of text"], id="bytes as key"),
        pytest.param({"a" * 300: 1}, ["200 characters"], id="long key"),
    ],
)
def test_refused(sent: Any, words: list[str]) -> None:
    with pytest.raises(UserError) as error:
        KEYS.to_observation(sent, SCHEMA)
    for word in words:
        assert word in str(error.value)
    assert len(str(error.value)) < 400


def test_nesting_without_end_is_refused() -> None:
    sent: dict[str, Any] = {}
    for _ in range(500):
        sent = {"a": sent}
    with pytest.raises(UserError, match="nested 8 deep"):
        KEYS.to_observation(sent, SCHEMA)


def test_environment_state_has_a_key_where_the_schema_has_one() -> None:
    schema = Schema((), ("x",), ("m",), ("x",), ("m",), 50.0, ("block",))
    keys = ObservationKeys(environment_state="object").for_schema(schema)
    sent = {"state": np.zeros(1), "object": np.array([0.5])}
    found = keys.to_observation(sent, schema)
    np.testing.assert_array_equal(found.environment_state, [0.5])
    assert keys.to_message(found, schema, jpeg=False).keys() == sent.keys()
    with pytest.raises(UserError, match="missing: object"):
        keys.to_observation({"state": np.zeros(1)}, schema)


def test_keys_that_do_not_fit_the_schema() -> None:
    with pytest.raises(UserError, match=r"cam_high.*top, wrist"):
        ObservationKeys(cameras={"cam_high": "images/top"}).for_schema(SCHEMA)
    with pytest.raises(UserError, match=r"state stands for two inputs"):
        ObservationKeys(cameras={"top": "state"}).for_schema(SCHEMA)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"state": 3}, "observation_keys: state: found 3, expected str"),
        ({"cameras": ["top"]}, "observation_keys: cameras: "),
        ({"cameras": {"top": 1}}, "cameras.top: found 1, expected str"),
        ({"ignore": "prompt"}, "observation_keys: ignore: "),
        ({"states": "state"}, "found .*states"),
    ],
)
def test_keys_of_the_wrong_kind(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        ObservationKeys.from_dict({**KEYS.to_dict(), **change})
