"""What RemotePolicy sends: numbered questions, images of the policy's size, JPEG on request."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from act_policy import UserError
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.policies.remote_policy import RemotePolicy, RemotePolicyError
from act_policy.control.policies.wire import pack
from act_policy.images.jpeg import decode_jpeg, encode_jpeg
from act_policy.images.resize import camera_image
from act_policy.types import Observation
from tests.control.policies.test_remote_policy import ALIKE, answering
from tests.control.server_for_tests import (
    SCHEMA,
    SeeingPolicy,
    message,
    observe,
    remote_policy,
    serving,
)
from tests.control.serving.clients_for_tests import client, refusal

SCALED = replace(
    SCHEMA, cameras=(replace(SCHEMA.cameras[0], source_size=(60, 80)), SCHEMA.cameras[1])
)


class ScaledPolicy(SeeingPolicy):
    """Trained on images that were scaled down."""

    schema = SCALED


def raw_frames() -> Observation[np.ndarray]:
    frame = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    return observe()._replace(images={**observe().images, "top": frame})


def fitted() -> Observation[np.ndarray]:
    seen = raw_frames()
    top = camera_image(seen.images["top"], SCALED.cameras[0])
    return seen._replace(images={**seen.images, "top": top})


def smooth(height: int, width: int) -> np.ndarray:
    """An image as cameras take it: no noise."""
    rows, columns = np.mgrid[:height, :width] / 8
    waves = np.stack([np.sin(rows), np.cos(columns), np.sin(rows + columns)], -1)
    image: np.ndarray = (128 + 80 * waves).astype(np.uint8)
    return image


def test_an_answer_to_another_question_is_refused() -> None:
    late = {"actions": np.zeros((5, 3), np.float32), "request": 0}
    metadata = {**ALIKE, "accepts": ["request"]}
    with (
        answering(metadata, late) as url,
        RemotePolicy(url, timeout=1.0) as remote,
        pytest.raises(RemotePolicyError, match="answered request 0 when asked request 1"),
    ):
        remote.predict_chunk(observe())


def test_the_servers_answers_carry_their_questions_number() -> None:
    with serving() as running, remote_policy(running.url) as remote:
        for seed in range(3):
            remote.predict_chunk(observe(seed))
        with client(running) as plain:
            plain.send(pack({**message(observe()), "request": 41}))
            assert b"request" in plain.recv(10)
            plain.send(pack(message(observe())))
            assert b"request" not in plain.recv(10)
            assert "request: str" in refusal(plain, pack({**message(observe()), "request": "1"}))[0]


def test_raw_frames_are_scaled_as_in_training() -> None:
    policy = ScaledPolicy()
    expected = policy.predict_chunk(fitted())
    with serving(policy) as running, remote_policy(running.url) as remote:
        np.testing.assert_array_equal(remote.predict_chunk(raw_frames()), expected)
    executor = ChunkExecutor(ScaledPolicy())
    np.testing.assert_array_equal(executor.select_action(raw_frames()), expected[0])


def test_frames_of_another_size_say_what_fits() -> None:
    wrong = observe()._replace(images={**observe().images, "top": np.zeros((61, 80, 3), np.uint8)})
    with pytest.raises(UserError, match=r"camera top: .*\(61, 80, 3\), expected .*\(60, 80, 3\)"):
        ChunkExecutor(ScaledPolicy()).select_action(wrong)


@pytest.mark.parametrize("in_address", [True, False])
def test_jpeg_is_smaller_and_nearly_the_same(in_address: bool) -> None:
    seen = observe()._replace(images={"top": smooth(6, 8), "wrist": smooth(4, 4)})
    with serving() as running:
        url, options = running.url, {"encode": "jpeg"}
        if in_address:
            url, options = url + "/?encode=jpeg", {}
        with remote_policy(url, arm="left", **options) as remote:
            sent: list[Any] = []
            pack_message = ObservationKeys.to_message

            def keep(keys: ObservationKeys, *arguments: Any) -> Any:
                sent.append(pack_message(keys, *arguments))
                return sent[-1]

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(ObservationKeys, "to_message", keep)
                chunk = remote.predict_chunk(seen)
            assert running.server.status.clients[0].arm == "left"
    assert isinstance(sent[0]["images/top"], bytes)
    exact = SeeingPolicy().predict_chunk(seen)
    assert 0 < np.abs(chunk - exact).max() < 3  # of 255 levels, averaged over an image


def test_a_jpeg_has_a_fraction_of_the_bytes_and_an_error_below_a_level() -> None:
    image = smooth(480, 640)
    encoded = encode_jpeg(image)
    assert len(encoded) < image.nbytes / 5
    error = np.abs(decode_jpeg(encoded, [(480, 640)]).astype(int) - image)
    assert error.mean() < 1.0


def test_a_server_that_takes_no_jpeg() -> None:
    with (
        answering(ALIKE) as url,
        RemotePolicy(url, timeout=1.0, encode="jpeg") as remote,
        pytest.raises(UserError, match="takes no JPEG"),
    ):
        remote.predict_chunk(observe())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xd8\xff\xe0 nothing", "not a JPEG"),
        (b"GIF89a", "not a JPEG"),
        (encode_jpeg(smooth(16, 16)), "a JPEG of 16x16 in mode RGB, expected RGB of 6x8"),
        (encode_jpeg(smooth(6, 8))[:200], "not a JPEG"),
    ],
)
def test_hostile_jpegs_are_refused(content: bytes, words: str) -> None:
    sent = message(observe())
    sent["images"]["top"] = content
    with serving() as running, client(running) as bad:
        said, code = refusal(bad, pack(sent))
        assert words in said
        assert code == 1011


def test_encodings_are_known() -> None:
    with pytest.raises(UserError, match="encode=png: expected raw or jpeg"):
        RemotePolicy("ws://127.0.0.1:1", encode="png")
