"""A policy whose chunks say what it saw, and a server of it in a thread."""

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from act_policy import Observation, Schema, UserError
from act_policy.control.policies.observation_keys import ObservationKeys
from act_policy.control.policies.remote_policy import RemotePolicy
from act_policy.control.serving.access import ServerConfig
from act_policy.control.serving.server import PolicyServer
from act_policy.execution import Execution
from act_policy.types import Camera

SCHEMA = Schema(
    cameras=(Camera("top", 6, 8), Camera("wrist", 4, 4)),
    state_names=("x", "y"),
    state_units=("m", "m"),
    action_names=("dx", "dy", "grip"),
    action_units=("m", "m", ""),
    rate=50.0,
)
IDENTITY = {"name": "button", "file": "model.safetensors", "sha256": "ab" * 32}


class SeeingPolicy:
    """Rows of (state sum, mean of top, mean of wrist), plus the row's number; batches too."""

    schema = SCHEMA
    chunk_length = 5
    statistics, demonstration_seeds, execution = None, (), Execution()

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.batches: list[int] = []
        self.may_answer = threading.Event()
        self.may_answer.set()

    def predict_chunk(self, observation: Observation[np.ndarray]) -> np.ndarray:
        self.may_answer.wait(20)
        time.sleep(self.seconds)
        state = np.atleast_2d(observation.state)
        self.batches.append(len(state))
        if (state[:, 0] == 666).any():
            raise UserError("this state is the number of the beast")
        if (state[:, 0] == 667).any():
            raise KeyError("a bug")
        seen = [
            state.sum(-1),
            *(
                observation.images[name].reshape(len(state), -1).mean(-1)
                for name in ("top", "wrist")
            ),
        ]
        rows = np.stack(seen, -1)[:, None] + np.arange(self.chunk_length)[:, None]
        rows[state[:, 0] == 668, :, 1] = np.nan
        chunk: np.ndarray = rows.astype(np.float32)
        return chunk[0] if observation.state.ndim == 1 else chunk


def observe(seed: int = 0, x: float | None = None) -> Observation[np.ndarray]:
    rng = np.random.default_rng(seed)
    state = rng.normal(size=2).astype(np.float32)
    if x is not None:
        state[0] = x
    return Observation(
        {
            camera.name: rng.integers(0, 256, (camera.height, camera.width, 3), np.uint8)
            for camera in SCHEMA.cameras
        },
        state,
    )


def remote_policy(url: str, arm: str = "", **options: Any) -> RemotePolicy:
    """A client with patience, for tests that are not about time."""
    return RemotePolicy(url, arm, **{"timeout": 15.0, **options})


def message(observation: Observation[np.ndarray]) -> dict[str, Any]:
    """As a client of openpi's sends it."""
    return {"state": observation.state, "images": dict(observation.images)}


class Running:
    def __init__(self, server: PolicyServer, loop: asyncio.AbstractEventLoop, port: int):
        self.server, self.loop, self.port = server, loop, port
        self.url = f"{'wss' if server.config.certificate else 'ws'}://127.0.0.1:{port}"


@contextmanager
def serving(
    policy: Any = None,
    keys: ObservationKeys | None = None,
    identity: dict[str, str] | None = None,
    port: int = 0,
    **config: Any,
) -> Iterator[Running]:
    """A running server; leaving the block stops it."""
    server = PolicyServer(
        SeeingPolicy() if policy is None else policy,
        identity or IDENTITY,
        keys,
        ServerConfig(port=port, **config),
    )
    ready = threading.Event()
    running: list[Running] = []
    stops: list[asyncio.Event] = []
    errors: list[BaseException] = []

    async def main() -> None:
        stops.append(asyncio.Event())

        def on_ready(port: int) -> None:
            running.append(Running(server, asyncio.get_running_loop(), port))
            ready.set()

        await server.run(stops[0], on_ready)

    def target() -> None:
        try:
            asyncio.run(main())
        except BaseException as error:
            errors.append(error)
        finally:
            ready.set()

    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    assert ready.wait(60), "the server did not start"
    if errors:
        raise errors[0]
    try:
        yield running[0]
    finally:
        running[0].loop.call_soon_threadsafe(stops[0].set)
        thread.join(10)
        assert not thread.is_alive()
        if errors:
            raise errors[0]
