"""Predictions for many clients from one policy: a worker thread, and batches of what waits."""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from act_policy.control.chunks.policy import ChunkPolicy, check_chunk
from act_policy.errors import UserError
from act_policy.types import Observation, stack_observations

_log = logging.getLogger(__name__)


class Prediction(NamedTuple):
    """A chunk (k, a) in physical units, and what its batch took in the policy."""

    chunk: np.ndarray
    seconds: float


def warm_up(policy: ChunkPolicy) -> None:
    """Predict once from zeros, so that a failure shows at once and no client waits longer."""
    schema = policy.schema
    others = len(schema.environment_state_names)
    policy.predict_chunk(
        Observation(
            {c.name: np.zeros((c.height, c.width, 3), np.uint8) for c in schema.cameras},
            np.zeros(schema.state_size, np.float32),
            np.zeros(others, np.float32) if others else None,
            task=0,
        )
    )


class BatchingPredictor:
    """Ask a policy from an event loop that must never wait for it.

    Inference runs in one thread. Requests that arrive while a batch is computed form the next one,
    so a lone client's request is computed at once and without a batch axis. The callers bound the
    queue: each waits for its answer.

    `run` must be running. A batch that fails is computed again one by one, so that only the client
    whose observation is at fault gets the error.

    Args:
        policy: its predict_chunk takes batches too, unless largest_batch is 1.
        largest_batch: observations computed together.
    """

    def __init__(self, policy: ChunkPolicy, largest_batch: int):
        self._policy = policy
        self._largest_batch = largest_batch
        self._waiting: asyncio.Queue[_Request] = asyncio.Queue()
        self._thread = ThreadPoolExecutor(1, "inference")
        self._busy_since: float | None = None

    def busy_seconds(self) -> float:
        """Seconds for which the policy has been computing the present batch; 0 when it is idle."""
        return 0.0 if self._busy_since is None else time.perf_counter() - self._busy_since

    async def predict(self, observation: Observation[np.ndarray]) -> Prediction:
        """Wait for the chunk of one observation that fits the schema.

        Raises:
            UserError: the policy refuses it, or predicts an action that is not a finite number.
        """
        request = _Request(observation, asyncio.get_running_loop().create_future())
        self._waiting.put_nowait(request)
        return await request.answer

    async def run(self) -> None:
        """Answer requests until cancelled; those that still wait are then told so."""
        loop = asyncio.get_running_loop()
        requests: list[_Request] = []
        try:
            while True:
                requests = [await self._waiting.get()]
                while len(requests) < self._largest_batch and not self._waiting.empty():
                    requests.append(self._waiting.get_nowait())
                # A client that has gone does not wait any more.
                requests = [request for request in requests if not request.answer.done()]
                if not requests:
                    continue
                self._busy_since = time.perf_counter()
                outcomes = await loop.run_in_executor(
                    self._thread, self._predict, [request.observation for request in requests]
                )
                self._busy_since = None
                for request, outcome in zip(requests, outcomes, strict=True):
                    if request.answer.done():
                        continue
                    if isinstance(outcome, Prediction):
                        request.answer.set_result(outcome)
                    else:
                        request.answer.set_exception(outcome)
        finally:
            while not self._waiting.empty():
                requests.append(self._waiting.get_nowait())
            for request in requests:
                if not request.answer.done():
                    request.answer.set_exception(UserError("the policy server is shutting down"))
            self._thread.shutdown(wait=False, cancel_futures=True)

    def _predict(
        self, observations: Sequence[Observation[np.ndarray]]
    ) -> list[Prediction | Exception]:
        """In the worker thread: one outcome for each observation."""
        began = time.perf_counter()
        try:
            if len(observations) == 1:
                chunks = self._policy.predict_chunk(observations[0])[None]
            else:
                chunks = self._policy.predict_chunk(stack_observations(observations))
            if len(chunks) != len(observations):
                raise ValueError(
                    f"the policy predicted {chunks.shape} for {len(observations)} observations"
                )
        except Exception as error:
            if len(observations) > 1:
                return [outcome for each in observations for outcome in self._predict([each])]
            if not isinstance(error, UserError):
                _log.exception("the policy failed")
            return [error]
        seconds = time.perf_counter() - began
        return [self._check(chunk, seconds) for chunk in chunks]

    def _check(self, chunk: np.ndarray, seconds: float) -> Prediction | Exception:
        try:
            return Prediction(check_chunk(chunk, self._policy), seconds)
        except UserError as error:
            return error


class _Request(NamedTuple):
    observation: Observation[np.ndarray]
    answer: asyncio.Future[Prediction]
