"""From chunks to one action a step: the loop that a robot and the evaluation run."""

from collections.abc import Mapping

import numpy as np

from act_policy.control.chunks.ensembling import TemporalEnsembler
from act_policy.control.chunks.policy import ChunkPolicy
from act_policy.errors import UserError
from act_policy.types import Observation


class ChunkExecutor:
    """Hand out a policy's chunk action by action.

    The first `execute_steps` actions of each chunk are carried out before the policy is asked
    again; in between the observation is not looked at, so its images need not even exist. With
    `ensemble_coefficient` the policy is asked at every step and the overlapping predictions are
    averaged (`TemporalEnsembler`).

    Args:
        policy: predicts chunks.
        execute_steps: 1 .. chunk length; None is the whole chunk (1 when ensembling).
        ensemble_coefficient: None does not ensemble.

    Raises:
        UserError: the policy cannot be executed so.
    """

    def __init__(
        self,
        policy: ChunkPolicy,
        execute_steps: int | None = None,
        ensemble_coefficient: float | None = None,
    ):
        if execute_steps is not None and not 1 <= execute_steps <= policy.chunk_length:
            raise UserError(
                f"execute_steps: found {execute_steps}, expected 1 to {policy.chunk_length}, "
                f"the policy's chunk length"
            )
        self._ensembler: TemporalEnsembler | None = None
        if ensemble_coefficient is not None:
            if execute_steps not in (None, 1):
                raise UserError(
                    f"execute_steps: found {execute_steps}, but ensembling "
                    f"(ensemble_coefficient={ensemble_coefficient}) predicts at every step; "
                    f"leave one of the two out"
                )
            self._ensembler = TemporalEnsembler(policy.chunk_length, ensemble_coefficient)
            execute_steps = 1
        self.policy = policy
        self.execute_steps: int = execute_steps or policy.chunk_length
        self._actions: np.ndarray | None = None
        self._next = 0

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

        Raises:
            UserError: the observation is not what the schema says, or an action is not finite;
                all earlier predictions are forgotten then, as after a reset.
        """
        if self._actions is None or self._next == self.execute_steps:
            try:
                self._actions = self._predict(observation)
            except BaseException:
                # The robot holds for a step that no chunk is made for: earlier ones are now off.
                self.reset()
                raise
            self._next = 0
            if self._ensembler is not None:
                self._actions = self._ensembler.update(self._actions)[None]
        action: np.ndarray = self._actions[self._next].copy()
        self._next += 1
        return action

    def _predict(
        self, observation: Observation[np.ndarray] | Mapping[str, np.ndarray]
    ) -> np.ndarray:
        """Ask the policy for a chunk (k, a) and refuse one that must not reach a motor."""
        if isinstance(observation, Mapping):
            observation = Observation.from_keys(observation)
        schema = self.policy.schema
        chunk = np.array(self.policy.predict_chunk(observation))
        expected = (self.policy.chunk_length, schema.action_size)
        if chunk.shape != expected:
            raise ValueError(f"the policy predicted a chunk of shape {chunk.shape}, not {expected}")
        if not (finite := np.isfinite(chunk)).all():
            bad = [schema.action_names[i] for i in np.flatnonzero(~finite.all(axis=0))]
            raise UserError(
                f"the policy predicted an action that is not a finite number in {', '.join(bad)}; "
                f"nothing was carried out: check the checkpoint and the observation"
            )
        return chunk
