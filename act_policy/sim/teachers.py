"""Who demonstrates: this package's expert, the original's, or a function of the user's."""

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, NamedTuple

import numpy as np

from act_policy.errors import UserError
from act_policy.sim.environment import Variation, scripted_expert

EXPERT: Final = "expert"
ORIGINAL: Final = "original"

Act = Callable[[dict[str, Any]], np.ndarray]
"""Returns the action, float32 (a,), for the environment's observation."""


class Teacher(NamedTuple):
    """Who demonstrates, and how much each demonstration departs from the usual motion.

    name: expert, original (ALOHA's tasks, see `act_policy.sim.aloha.original`), or module:function.
        The function is called with the environment, just reset, and returns a function that acts:
        observation -> action. The simulator itself is `environment.unwrapped`.
    timing_noise, pose_noise: of the expert, see `Variation`.
    inject_noise: of the original's: its grippers tremble by up to 1 cm.
    """

    name: str = EXPERT
    timing_noise: float = 0.0
    pose_noise: float = 0.0
    inject_noise: bool = False

    def check(self) -> None:
        """Raise UserError if the teacher does not exist or cannot vary its motion so."""
        if self.name not in (EXPERT, ORIGINAL):
            find_function(self.name)
        if self.inject_noise and self.name != ORIGINAL:
            raise UserError(f"inject_noise=true is of teacher=original; found teacher={self.name}")
        if (self.timing_noise or self.pose_noise) and self.name != EXPERT:
            raise UserError(
                f"timing_noise and pose_noise vary teacher=expert; found teacher={self.name}"
            )

    def begin(self, environment: Any, seed: int) -> Act:
        """Begin an episode in an environment that has just been reset with this seed.

        Raises:
            UserError: the teacher cannot act in this environment.
        """
        if self.name == EXPERT:
            expert = scripted_expert(
                environment, Variation(self.timing_noise, self.pose_noise, seed)
            )
            return lambda observation: expert()
        if self.name == ORIGINAL:
            task = environment.unwrapped
            if not hasattr(task, "make_original_expert"):
                raise UserError(
                    f"teacher=original acts in ALOHA's tasks only; found {environment.spec.id}"
                )
            original = task.make_original_expert(self.inject_noise, seed)
            return lambda observation: original()
        return _checked(find_function(self.name)(environment), self.name, environment)


def find_function(name: str) -> Callable[[Any], Act]:
    """Import the function that `module:function` names.

    Raises:
        UserError: there is none.
    """
    module, _, function = name.partition(":")
    if not function:
        raise UserError(
            f"teacher={name}: expected expert, original, or module:function, a function of yours"
        )
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise UserError(
            f"teacher={name}: {error}; the module must be installed or on PYTHONPATH"
        ) from error
    if not callable(found):
        raise UserError(f"teacher={name}: {found!r} is not a function")
    return found  # type: ignore[no-any-return]


def _checked(act: Act, name: str, environment: Any) -> Act:
    """Wrap a user's function so that an action of another size, or one without end, is refused."""
    if not callable(act):
        raise UserError(
            f"teacher={name}: expected a function that acts (observation -> action), found {act!r}"
        )
    shape = environment.action_space.shape

    def checked(observation: dict[str, Any]) -> np.ndarray:
        action = np.asarray(act(observation), np.float32)
        if action.shape != shape or not np.isfinite(action).all():
            raise UserError(f"teacher={name}: expected {shape} finite values, found {action}")
        return action

    return checked
