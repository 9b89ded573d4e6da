"""The policy in a process of its own, so that a slow, stuck or dead policy never holds up a tick.

Images cross in shared memory, which takes a copy and no waiting; only the moment of capture and
the predicted chunk go through a pipe. One question is open at a time.
"""

import multiprocessing
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.shared_memory import SharedMemory
from typing import Any

import numpy as np

from act_policy.control.chunks.asynchronous import Answer
from act_policy.control.chunks.policy import ChunkPolicy, PolicyError, prefix_length
from act_policy.errors import UserError
from act_policy.execution import Execution
from act_policy.statistics import Statistics
from act_policy.system.group_signals import unreached_by_group_signals
from act_policy.types import Observation, Schema

START_TIME = 120.0
"""Seconds that a policy may take to load."""

OUTLIVE_SECONDS = 3
"""From a SIGTERM to the end of the process, unless its pipe is closed before."""


class InferenceProcess:
    """A ChunkPolicy in a process of its own; satisfies `asynchronous.Inference`.

    Args:
        make_policy: called in the process; must be picklable.

    on_answer: called with each answer that is fetched.

    Raises:
        UserError: the policy cannot be opened, or its process died (PolicyError).
    """

    schema: Schema
    chunk_length: int
    statistics: Statistics | None
    demonstration_seeds: tuple[int, ...]
    execution: Execution
    prefix_length: int

    def __init__(self, make_policy: Callable[[], ChunkPolicy]):
        context = multiprocessing.get_context("spawn")  # no copy of this process's threads
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(make_policy, theirs), daemon=True)
        with unreached_by_group_signals():
            self._process.start()
        theirs.close()
        self.busy = False
        self.on_answer: Callable[[Answer], None] | None = None
        self._memory: SharedMemory | None = None
        try:
            if not self._pipe.poll(START_TIME):
                raise UserError(f"the policy was not loaded within {START_TIME:.0f} s")
            description = self._receive()
            if isinstance(description, str):
                raise UserError(description)
            self.schema, self.chunk_length, self.statistics = description[:3]
            self.demonstration_seeds, self.execution, self.prefix_length = description[3:]
            layout = _layout(self.schema, self.prefix_length)
            self._memory = SharedMemory(create=True, size=layout.itemsize)
            self._shared = np.ndarray((), layout, self._memory.buf)
            self._pipe.send(self._memory.name)
        except BaseException:
            self.close()
            raise

    def submit(self, observation: Observation[np.ndarray], captured: float) -> None:
        """Ask for a chunk; the observation is copied and fits the schema.

        Raises:
            UserError: its task is unknown; nothing was asked.
        """
        if self.busy:
            raise RuntimeError("one question at a time: poll until the answer is there")
        if (task := self.schema.task_index(observation.task)) is not None:
            self._shared["task"] = task
        for name, image in observation.images.items():
            self._shared[f"image {name}"] = image
        if self.schema.state_names:  # else the robot's joints are measured for the loop alone
            self._shared["state"] = observation.state
        if observation.environment_state is not None:
            self._shared["environment_state"] = observation.environment_state
        self._shared["prefix"] = np.nan if observation.prefix is None else observation.prefix
        self.busy = True
        with suppress(OSError):  # it died: poll says so
            self._pipe.send(captured)

    def poll(self) -> Answer | None:
        """The answer, once; raises PolicyError if the process died."""
        if not self._pipe.poll():
            if not self._process.is_alive():
                raise PolicyError(self._death())
            return None
        answer: Answer = self._receive()
        self.busy = False
        if self.on_answer is not None:
            self.on_answer(answer)
        return answer

    def wait(self, seconds: float) -> Answer | None:
        """Like poll, but wait for the answer; for the time before anything moves."""
        self._pipe.poll(seconds)
        return self.poll()

    def close(self) -> None:
        """End the process and free the shared memory; may be called again."""
        self._pipe.close()  # which the process takes for the end
        self._process.join(1.0)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        if self._memory is not None:
            self._shared = np.empty(())  # a view would keep the memory open
            self._memory.close()
            self._memory.unlink()
            self._memory = None

    def _receive(self) -> Any:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(1.0)
            raise PolicyError(self._death()) from None

    def _death(self) -> str:
        code = self._process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return f"the policy's process ended {how}"


def _layout(schema: Schema, prefix_length: int) -> np.dtype[Any]:
    """An observation in the shared memory."""
    return np.dtype(
        [
            # vectors first: they stay aligned
            ("state", np.float32, (schema.state_size,)),
            ("environment_state", np.float32, (len(schema.environment_state_names),)),
            ("prefix", np.float32, (prefix_length, schema.action_size)),
            ("task", np.int64, ()),
            *((f"image {c.name}", np.uint8, (c.height, c.width, 3)) for c in schema.cameras),
        ]
    )


def _serve(make_policy: Callable[[], ChunkPolicy], pipe: Connection) -> None:
    """Answer questions until the other end is closed, for whatever reason."""
    # What ends a group of processes is for the loop, which closes the pipe once the arm rests.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.signal(signal.SIGTERM, lambda *_: signal.alarm(OUTLIVE_SECONDS))
    try:
        policy = make_policy()
    except UserError as error:
        pipe.send(str(error))
        return
    schema, known = policy.schema, prefix_length(policy)
    pipe.send(
        (
            *(schema, policy.chunk_length, policy.statistics),
            *(policy.demonstration_seeds, policy.execution, known),
        )
    )
    try:
        memory = SharedMemory(pipe.recv())
        shared = np.ndarray((), _layout(schema, known), memory.buf)
        images = {name: shared[f"image {name}"] for name in schema.camera_names}
        extra = shared["environment_state"] if schema.environment_state_names else None
        task = shared["task"] if schema.chooses_task else None
        failed = False
        while True:
            captured = pipe.recv()
            try:
                # A policy server's client stays disconnected after a failure. If the loop asks
                # again, the operator has resumed.
                if failed and hasattr(policy, "connect"):
                    policy.connect()
                prefix = None if np.isnan(shared["prefix"]).all() else shared["prefix"]
                seen = Observation(images, shared["state"], extra, prefix, task)
                chunk = policy.predict_chunk(seen)
                pipe.send(Answer(captured, np.asarray(chunk)))
                failed = False
            except Exception as error:
                failed = True
                name = "" if isinstance(error, UserError) else f"{type(error).__name__}: "
                pipe.send(Answer(captured, None, f"{name}{error}"))
    except (EOFError, OSError):  # nobody is left to answer
        with suppress(Exception):
            if hasattr(policy, "close"):  # a policy server is told, and counts no lost connection
                policy.close()
        os._exit(0)
