"""The server and its clients: batches, arms, deaths and ends."""

import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import numpy as np
import pytest

from act_policy import Schema
from act_policy.control.policies.remote_policy import RemotePolicyError
from act_policy.control.policies.wire import pack
from tests.control.server_for_tests import (
    SCHEMA,
    SeeingPolicy,
    message,
    observe,
    remote_policy,
    serving,
)
from tests.control.serving.clients_for_tests import client, get, handshake, wait_until


# Its way of connecting is one that newer websockets warn of.
@pytest.mark.filterwarnings(r"ignore:connect\(\) must be used:DeprecationWarning")
def test_the_public_client_of_openpi_works_unchanged() -> None:
    openpi = pytest.importorskip(
        "openpi_client.websocket_client_policy", reason="pip install --no-deps openpi-client"
    )
    policy = SeeingPolicy()
    with serving(policy, api_key="secret") as running:
        old = openpi.WebsocketClientPolicy("127.0.0.1", running.port, "secret")
        metadata = old.get_server_metadata()
        assert Schema.from_dict(metadata["schema"]) == SCHEMA
        assert (metadata["chunk_length"], metadata["fps"]) == (5, 50.0)
        assert metadata["cameras"] == ["top", "wrist"]
        assert metadata["action_names"] == ["dx", "dy", "grip"]
        sent = message(observe())
        first, second = old.infer({**sent, "prompt": "push"}), old.infer(sent)
        expected = policy.predict_chunk(observe())
        np.testing.assert_array_equal(first["actions"], expected)
        np.testing.assert_array_equal(second["actions"], expected)
        assert first["policy_timing"]["infer_ms"] > 0
        assert "prev_total_ms" not in first["server_timing"]
        assert second["server_timing"]["prev_total_ms"] > 0
        with pytest.raises(
            RuntimeError, match=r"Error in inference server:\nobservation.state: not a finite"
        ):
            old.infer({**sent, "state": np.array([np.nan, 0])})
        old._ws.close()


def test_clients_that_wait_form_a_batch_and_get_their_own_chunks() -> None:
    policy = SeeingPolicy()
    with serving(policy, largest_batch=4) as running:
        clients = [remote_policy(running.url) for _ in range(6)]
        policy.may_answer.clear()
        with ThreadPoolExecutor(6) as pool:
            # One of them is at fault; its batch must not suffer.
            observations = [observe(seed, x=666 if seed == 4 else None) for seed in range(6)]
            first = pool.submit(clients[0].predict_chunk, observations[0])
            time.sleep(0.3)
            rest = [
                pool.submit(remote.predict_chunk, observation)
                for remote, observation in zip(clients[1:], observations[1:], strict=True)
            ]
            time.sleep(0.3)
            assert get(running, "/healthz") == (200, "OK\n")  # while the policy computes
            policy.may_answer.set()
            for seed, answer in enumerate([first, *rest]):
                if seed == 4:
                    with pytest.raises(RemotePolicyError, match="number of the beast"):
                        answer.result(10)
                    continue
                expected = SeeingPolicy().predict_chunk(observe(seed))
                np.testing.assert_array_equal(answer.result(10), expected)
        assert policy.batches[0] == 1
        assert max(policy.batches) == 4
        for remote in clients:
            remote.close()


def test_one_client_moves_an_arm() -> None:
    with serving() as running:
        left = remote_policy(running.url, arm="left")
        with pytest.raises(RemotePolicyError, match="arm left is controlled by 127"):
            remote_policy(running.url, arm="left")
        with (
            remote_policy(running.url, arm="right & more"),
            remote_policy(running.url),
            remote_policy(running.url),
        ):
            names = [str(client) for client in running.server.status.snapshot().clients]
            assert sum("(arm" in name for name in names) == 2
            assert any("(arm right & more)" in name for name in names)
        left.predict_chunk(observe())
        left.close()
        wait_until(lambda: not running.server.status.clients)
        remote_policy(running.url, arm="left").close()
        for wrong in ("x" * 61, "  "):
            with pytest.raises(RemotePolicyError, match="60 characters"):
                remote_policy(running.url, arm=wrong)
        with remote_policy(running.url, arm="left arm"):
            for same in ("Left Arm", " left  arm ", "LEFTARM", "\uff4ceft arm"):
                with pytest.raises(RemotePolicyError, match=r"arm .* is controlled by 127"):
                    remote_policy(running.url, arm=same)


def test_the_arm_of_a_client_that_died_is_free_again() -> None:
    with serving(stall_seconds=1.0) as running:
        with client(running, "/?arm=left") as raw:
            raw.socket.shutdown(socket.SHUT_RDWR)  # as the kernel does for a killed process
            wait_until(lambda: not running.server.status.clients)
            remote_policy(running.url, arm="left").close()
        # A client that is silent, as behind a network that fails: no closing, no answer to pings.
        with socket.create_connection(("127.0.0.1", running.port)) as silent:
            silent.sendall(handshake("/?arm=left"))
            wait_until(lambda: bool(running.server.status.clients))
            wait_until(lambda: not running.server.status.clients)
            assert "lost" in running.server.status.counters
            remote_policy(running.url, arm="left").close()


def test_health_when_the_policy_hangs() -> None:
    policy = SeeingPolicy()
    with serving(policy, stall_seconds=1.0) as running:
        policy.may_answer.clear()
        with client(running) as raw:
            raw.send(pack(message(observe())))
            wait_until(lambda: get(running, "/healthz")[0] == 503)
            assert "has not answered" in get(running, "/healthz")[1]
            policy.may_answer.set()
            assert isinstance(raw.recv(10), bytes)
        assert get(running, "/healthz") == (200, "OK\n")


def test_stopping_while_the_policy_hangs_tells_the_client() -> None:
    policy = SeeingPolicy()
    policy.may_answer.clear()
    with ExitStack() as connections:
        with serving(policy) as running:
            raw = connections.enter_context(client(running))
            raw.send(pack(message(observe())))
            wait_until(lambda: running.server._predictor.busy_seconds() > 0)
        assert "shutting down" in raw.recv(10)
        policy.may_answer.set()


def test_importing_the_server_needs_no_torch() -> None:
    code = (
        "import sys, act_policy.control.serving.server, act_policy.control.policies.remote_policy;"
        "print(sorted({'torch', 'h5py', 'PIL', 'onnxruntime', 'hydra'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
