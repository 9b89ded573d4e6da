"""RemotePolicy: the server's policy as if it were here, and one error when it is not."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from websockets.sync.server import serve as fake_server

from act_policy import UserError
from act_policy.control.chunks.executor import ChunkExecutor
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.policies.remote_policy import RemotePolicy, RemotePolicyError
from act_policy.control.policies.wire import pack
from act_policy.types import Observation
from tests.control.server_for_tests import (
    IDENTITY,
    SCHEMA,
    SeeingPolicy,
    observe,
    remote_policy,
    serving,
)

ALIKE = {
    "schema": SCHEMA.to_dict(),
    "chunk_length": 5,
    "policy": IDENTITY,
    "observation_keys": ObservationKeys().for_schema(SCHEMA).to_dict(),
}


@contextmanager
def answering(metadata: Any, *answers: Any) -> Iterator[str]:
    """A server that says what the test wants: bytes and text as they are, the rest packed."""

    def handler(connection: Any) -> None:
        for answer in (metadata, *answers):
            connection.send(answer if isinstance(answer, str | bytes) else pack(answer))
            connection.recv()

    with fake_server(handler, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"ws://127.0.0.1:{server.socket.getsockname()[1]}"
        finally:
            server.shutdown()
            thread.join()


def test_the_chunk_is_the_policys() -> None:
    policy = SeeingPolicy()
    with serving(policy) as running, remote_policy(running.url) as remote:
        assert isinstance(remote, ChunkPolicy)
        assert (remote.schema, remote.chunk_length) == (SCHEMA, 5)
        assert remote.metadata["policy"] == IDENTITY
        for seed in range(5):
            np.testing.assert_array_equal(
                remote.predict_chunk(observe(seed)), policy.predict_chunk(observe(seed))
            )
        executor = ChunkExecutor(remote, execute_steps=2)
        action = executor.select_action(observe(1))
        action += 1  # the caller owns it
        expected = policy.predict_chunk(observe(1))[1]
        np.testing.assert_array_equal(executor.select_action(observe(2)), expected)


def test_the_servers_keys_are_followed() -> None:
    keys = ObservationKeys("observation/state", cameras={"top": "observation/image"})
    policy = SeeingPolicy()
    with serving(policy, keys) as running, remote_policy(running.url) as remote:
        np.testing.assert_array_equal(
            remote.predict_chunk(observe()), policy.predict_chunk(observe())
        )


def test_a_wrong_observation_is_refused_here() -> None:
    with serving() as running, remote_policy(running.url) as remote:
        wrong = observe()._replace(state=np.array([np.nan, 0], np.float32))
        with pytest.raises(UserError, match="not a finite number in x") as error:
            remote.predict_chunk(wrong)
        assert not isinstance(error.value, RemotePolicyError)
        batch = Observation({k: v[None] for k, v in observe().images.items()}, np.zeros((1, 2)))
        with pytest.raises(UserError, match="one observation at a time"):
            remote.predict_chunk(batch)
        remote.predict_chunk(observe())  # the connection is as good as before


def test_the_servers_reason_arrives() -> None:
    with serving() as running, remote_policy(running.url) as remote:
        with pytest.raises(RemotePolicyError, match="says: this state is the number"):
            remote.predict_chunk(observe(x=666))
        with pytest.raises(RemotePolicyError, match=r"number of the beast; call connect\(\)"):
            remote.predict_chunk(observe())
        remote.connect()
        remote.predict_chunk(observe())


def test_no_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(RemotePolicyError, match=f"127.0.0.1:{port}: .*refused|Connect call failed"):
        RemotePolicy(f"ws://127.0.0.1:{port}")
    assert time.monotonic() - began < 2


def test_a_server_that_accepts_and_is_silent() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        began = time.monotonic()
        with pytest.raises(RemotePolicyError, match=r"did not answer within 0.3 s"):
            RemotePolicy(f"ws://127.0.0.1:{silent.getsockname()[1]}", timeout=0.3)
        assert time.monotonic() - began < 1.5


def test_a_policy_that_stalls() -> None:
    policy = SeeingPolicy()
    with serving(policy) as running, remote_policy(running.url, timeout=0.3) as remote:
        remote.predict_chunk(observe(1))
        policy.may_answer.clear()
        began = time.monotonic()
        with pytest.raises(RemotePolicyError, match=r"gave no chunk within 0.3 s"):
            remote.predict_chunk(observe(2))
        assert time.monotonic() - began < 1.5
        policy.may_answer.set()
        # The late answer belongs to the connection that is gone.
        with pytest.raises(RemotePolicyError, match="connect"):
            remote.predict_chunk(observe(3))
        remote.connect()
        np.testing.assert_array_equal(
            remote.predict_chunk(observe(4)), SeeingPolicy().predict_chunk(observe(4))
        )


def test_the_server_stops_in_mid_episode() -> None:
    with serving() as running:
        remote = remote_policy(running.url, arm="left")
        remote.predict_chunk(observe())
    began = time.monotonic()
    for _ in range(2):
        with pytest.raises(RemotePolicyError):
            remote.predict_chunk(observe())
    with pytest.raises(RemotePolicyError):
        remote.connect()
    assert time.monotonic() - began < 2
    with serving(port=running.port):
        remote.connect()
        remote.predict_chunk(observe())
        remote.close()
    with pytest.raises(RemotePolicyError, match="closed"):
        remote.predict_chunk(observe())


def test_its_own_former_connection_does_not_keep_it_from_its_arm() -> None:
    """The server sees later than the client that a connection is gone."""
    policy = SeeingPolicy()
    with serving(policy) as running, remote_policy(running.url, "left", timeout=1.0) as remote:
        policy.may_answer.clear()
        with pytest.raises(RemotePolicyError, match="no chunk"):
            remote.predict_chunk(observe())
        # The former request is still in work, and so the former client still there.
        remote.timeout = 20.0
        with pytest.raises(RemotePolicyError, match="arm left is controlled"):
            remote.connect()
        threading.Timer(0.2, policy.may_answer.set).start()
        remote.connect()
        remote.predict_chunk(observe())


def test_identity_is_pinned() -> None:
    with serving() as running:
        with pytest.raises(RemotePolicyError, match="serves other weights"):
            remote_policy(running.url, sha256="cd" * 32)
        remote = remote_policy(running.url, sha256=IDENTITY["sha256"])
        unpinned = remote_policy(running.url)
    with serving(port=running.port, identity={**IDENTITY, "sha256": "ef" * 32}):
        for policy in (remote, unpinned):
            with pytest.raises(RemotePolicyError, match=r"efefefefefef\.\.\..*ababababab"):
                policy.connect()
            with pytest.raises(RemotePolicyError, match="serves other weights"):
                policy.predict_chunk(observe())
            policy.close()


@pytest.mark.parametrize(
    ("metadata", "words"),
    [
        ({}, "not that of scripts/serve_policy.py"),
        ([], "not that of scripts/serve_policy.py"),
        ({**ALIKE, "chunk_length": None}, "TypeError"),
        ({**ALIKE, "observation_keys": {"state": 1}}, "observation_keys: found"),
        (b"\xc1", "not a message"),
        ("busy today", "says: busy today"),
    ],
)
def test_metadata_that_is_not_ours(metadata: Any, words: str) -> None:
    with (
        answering(metadata) as url,
        pytest.raises(RemotePolicyError, match=words),
    ):
        RemotePolicy(url, timeout=1.0)


@pytest.mark.parametrize(
    "answer",
    [
        {"actions": np.zeros((4, 3), np.float32)},
        {"actions": np.full((5, 3), np.nan, np.float32)},
        {"actions": np.zeros((5, 3), np.int64)},
        {"actions": [[0.0] * 3] * 5},
        {},
        [],
    ],
)
def test_an_answer_that_is_not_a_chunk_is_refused(answer: Any) -> None:
    with (
        answering(ALIKE, answer) as url,
        RemotePolicy(url, timeout=1.0) as remote,
        pytest.raises(RemotePolicyError, match="the policy predicted"),
    ):
        remote.predict_chunk(observe())


@pytest.mark.parametrize("url", ["localhost:8000", "http://localhost:8000"])
def test_other_addresses(url: str) -> None:
    with pytest.raises(UserError, match="ws://"):
        RemotePolicy(url)
