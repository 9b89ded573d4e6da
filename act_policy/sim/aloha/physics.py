"""The models of ALOHA's arms that gym-aloha ships; time passes in them as in dm_control."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np
from jaxtyping import Float, Float64

from act_policy.errors import UserError
from act_policy.sim.rendering import import_mujoco

PHYSICS_STEPS: Final = 10
"""Of 2 ms each, in one control period of 20 ms."""

FINGER_CLOSED, FINGER_OPEN = 0.01844, 0.05800  # metres from the middle: 0 and 1 of an opening
INITIAL_ARM: Final = (0.0, -0.96, 1.16, 0.0, -0.3, 0.0, 0.02239, -0.02239)
GRIPPERS: Final = [6, 13]
"""Where an action has the grippers' openings."""

ONE_FINGER: Final = [*range(7), *range(8, 15)]
"""Of MuJoCo's sixteen joints, all but each gripper's second finger, which mirrors the first."""


def load_model(file: str) -> tuple[Any, Any]:
    """Load one of gym-aloha's models; return its MjModel and a fresh MjData."""
    mujoco = import_mujoco()
    model = mujoco.MjModel.from_xml_path(str(models_folder() / file))
    return model, mujoco.MjData(model)


def models_folder() -> Path:
    """The folder of gym-aloha's MuJoCo models.

    Raises:
        UserError: gym-aloha is not installed.
    """
    found = find_spec("gym_aloha")
    if found is None or not found.submodule_search_locations:
        raise UserError(
            "ALOHA's models come with the package gym-aloha, which is not installed; "
            "pip install '.[sim]' in a checkout"
        )
    return Path(found.submodule_search_locations[0]) / "assets"


@contextmanager
def initial_state(model: Any, data: Any) -> Iterator[None]:
    """Reset the data; what is set within the context is the initial state.

    dm_control computes forces without the motors before and after. The solver starts from its last
    solution, so doing the same makes the contacts equal.
    """
    mujoco = import_mujoco()
    mujoco.mj_resetData(model, data)
    motors = int(mujoco.mjtDisableBit.mjDSBL_ACTUATION)
    model.opt.disableflags |= motors
    mujoco.mj_forward(model, data)
    yield
    mujoco.mj_forward(model, data)
    model.opt.disableflags &= ~motors


def advance(model: Any, data: Any) -> None:
    """Let one control period of 20 ms pass.

    It ends between the halves of a step, as dm_control's does: positions and contacts are then of
    the same moment, and the reward reads contacts.
    """
    mujoco = import_mujoco()
    mujoco.mj_step2(model, data)
    mujoco.mj_step(model, data, PHYSICS_STEPS - 1)
    mujoco.mj_step1(model, data)


def finger_targets(openings: Float[np.ndarray, "2"]) -> Float64[np.ndarray, "4"]:
    """Targets of both fingers of the left and of the right gripper, for openings 0 to 1."""
    left, right = FINGER_CLOSED + openings.astype(np.float64) * (FINGER_OPEN - FINGER_CLOSED)
    return np.array([left, -left, right, -right])


def motor_targets(action: Float[np.ndarray, "14"]) -> Float64[np.ndarray, "16"]:
    """Targets of MuJoCo's sixteen motors: both fingers of a gripper take its opening."""
    values = action.astype(np.float64)
    fingers = finger_targets(values[GRIPPERS])
    return np.concatenate([values[:6], fingers[:2], values[7:13], fingers[2:]])


def as_openings(fingers: Float64[np.ndarray, "2"]) -> Float64[np.ndarray, "2"]:
    """Openings, 0 closed to 1 open, of fingers that are so many metres from the middle."""
    openings: np.ndarray = (fingers - FINGER_CLOSED) / (FINGER_OPEN - FINGER_CLOSED)
    return openings
