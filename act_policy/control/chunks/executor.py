"""Execute chunks action by action, in a world that waits for the policy."""

from collections.abc import Mapping

import numpy as np

from act_policy.control.chunks.ensembling import TemporalEnsembler
from act_policy.control.chunks.policy import ChunkPolicy, check_chunk
from act_policy.errors import UserError
from act_policy.images.resize import fit_images
from act_policy.types import Observation


class ChunkExecutor:
    """Hand out a policy's chunk action by action.

    The first `execute_steps` actions of each chunk are carried out before the policy is asked
    again; in between the observation is not read, so its images need not even exist. With
    `ensemble_coefficient` the policy is asked at every step and the overlapping predictions are
    averaged (`TemporalEnsembler`).

    execution: the one in force.

    Args:
        execute_steps: 1 .. chunk length.
        ensemble_coefficient: of the averaging. Without either, the policy's own execution is in
            force; one that chose nothing is the whole chunk.

    Raises:
        UserError: the options do not fit each other or the policy's chunk length.
    """

    def __init__(
        self,
        policy: ChunkPolicy,
        execute_steps: int | None = None,
        ensemble_coefficient: float | None = None,
    ):
        asked = (execute_steps, ensemble_coefficient) != (None, None)
        steps = execute_steps if asked else policy.execution.execute_steps
        if steps is not None and not 1 <= steps <= policy.chunk_length:
            raise UserError(
                f"execute_steps: found {steps}, expected 1 to {policy.chunk_length}, "
                f"the policy's chunk length"
            )
        self.execution = policy.execution.unless(execute_steps, ensemble_coefficient)
        coefficient = self.execution.ensemble_coefficient
        self._ensembler: TemporalEnsembler | None = None
        if coefficient is not None:
            self._ensembler = TemporalEnsembler(policy.chunk_length, coefficient)
            steps = 1
        self.policy = policy
        self.execute_steps: int = steps or policy.chunk_length
        self._actions: np.ndarray | None = None
        self._next = 0

    @property
    def asks(self) -> bool:
        """Whether the next action needs a new chunk."""
        return self._actions is None or self._next == self.execute_steps

    def reset(self) -> None:
        """Forget the rest of the chunk and all predictions: a new episode begins."""
        self._actions = None
        self._next = 0
        if self._ensembler is not None:
            self._ensembler.reset()

    def select_action(
        self, observation: Observation[np.ndarray] | Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Return the action (a,) to carry out now; the caller owns it.

        Images may have the size of the cameras' original frames: they are cropped and scaled as in
        training.

        Raises:
            UserError: the observation does not fit the schema, or the chunk is not one of finite
                actions; all earlier predictions are then forgotten, as after a reset.
        """
        if self.asks:
            try:
                if isinstance(observation, Mapping):
                    observation = Observation.from_keys(observation)
                observation = fit_images(observation, self.policy.schema)
                self._actions = check_chunk(self.policy.predict_chunk(observation), self.policy)
            except BaseException:
                # The robot holds for this step, so that earlier chunks are now off by one.
                self.reset()
                raise
            self._next = 0
            if self._ensembler is not None:
                self._actions = self._ensembler.update(self._actions)[None]
        assert self._actions is not None
        action: np.ndarray = self._actions[self._next].copy()
        self._next += 1
        return action
