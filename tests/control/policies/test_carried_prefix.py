"""Committed actions reach the policy in its process and behind a server; others get none."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from act_policy import Observation, UserError
from act_policy.control.policies.inference_process import InferenceProcess
from act_policy.control.policies.wire import pack, unpack
from act_policy.types import PREFIX_KEY
from tests.control.server_for_tests import (
    SCHEMA,
    SeeingPolicy,
    message,
    observe,
    remote_policy,
    serving,
)

LENGTH = 3
Predict = Callable[[Observation[np.ndarray]], np.ndarray]


class EchoingPolicy(SeeingPolicy):
    """Its first rows are the committed actions, -1 where there is none; -2 without any."""

    prefix_length = LENGTH

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        chunk = super().predict_chunk(observation)
        chunk[..., :LENGTH, :] = -2
        if observation.prefix is not None:
            chunk[..., :LENGTH, :] = np.nan_to_num(observation.prefix, nan=-1)
        return chunk


@pytest.fixture(scope="module", params=["process", "server"])
def predict(request: pytest.FixtureRequest) -> Iterator[Predict]:
    if request.param == "server":
        with serving(EchoingPolicy()) as running, remote_policy(running.url) as remote:
            assert remote.prefix_length == LENGTH
            yield remote.predict_chunk
        return
    process = InferenceProcess(EchoingPolicy)
    assert process.prefix_length == LENGTH

    def ask(observation: Observation[np.ndarray]) -> np.ndarray:
        process.submit(observation, 0.0)
        answer = process.wait(60.0)
        assert answer is not None
        assert answer.chunk is not None, answer.error
        return answer.chunk

    yield ask
    process.close()


def committed(count: int) -> np.ndarray:
    prefix = np.random.default_rng(count).normal(size=(LENGTH, SCHEMA.action_size))
    prefix[count:] = np.nan
    return prefix.astype(np.float32)


def test_they_arrive_as_they_were_sent(predict: Predict) -> None:
    for count in (2, 3, 1):
        prefix = committed(count)
        chunk = predict(observe()._replace(prefix=prefix))
        np.testing.assert_array_equal(chunk[:count], prefix[:count])
        assert (chunk[count:LENGTH] == -1).all()


def test_none_is_none_also_after_some(predict: Predict) -> None:
    predict(observe()._replace(prefix=committed(3)))
    assert (predict(observe())[:LENGTH] == -2).all()


def test_a_client_that_knows_of_none_gets_the_plain_chunk() -> None:
    from websockets.sync.client import connect

    with serving(EchoingPolicy()) as running, connect(running.url) as connection:
        connection.recv()
        connection.send(pack(message(observe())))
        answer = connection.recv()
        assert isinstance(answer, bytes)
        assert (unpack(answer)["actions"][:LENGTH] == -2).all()


def test_a_server_whose_policy_knows_of_none_refuses_them() -> None:
    with serving(SeeingPolicy()) as running, remote_policy(running.url) as remote:
        assert remote.prefix_length == 0
        with pytest.raises(UserError, match="the policy takes none"):
            remote.predict_chunk(observe()._replace(prefix=committed(2)))


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ("text", "rows of floats"),
        (np.zeros((LENGTH, 3), np.int64), "rows of floats"),
        (np.zeros((2, 3), np.float32), "2 rows"),
        (np.full((LENGTH, 3), np.inf), "finite"),
        (np.zeros((LENGTH, 9), np.float32), "shape"),
    ],
)
def test_a_server_refuses_what_is_no_prefix(bad: object, says: str) -> None:
    from websockets.sync.client import connect

    with serving(EchoingPolicy()) as running, connect(running.url) as connection:
        connection.recv()
        connection.send(pack({**message(observe()), PREFIX_KEY: bad}))
        answer = connection.recv()
        assert isinstance(answer, str)
        assert says in answer
