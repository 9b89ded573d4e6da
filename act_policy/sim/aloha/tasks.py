"""ALOHA's tasks: initial poses of the objects, and the stages that count as progress.

Both are gym-aloha's: `sample_box_pose`, `sample_insertion_pose` and the tasks' `get_reward`.
"""

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from jaxtyping import Float64

from act_policy.sim import aloha_environment_id
from act_policy.sim.aloha.expert import Motion, insertion_motion, transfer_motion
from act_policy.sim.aloha.original import Paths, insertion_paths, transfer_paths

Touching = Callable[[str, str], bool]
"""Whether two of the model's geoms, by name, touch now."""

SUCCESS: Final = 4
"""The last stage of both tasks."""

TABLE: Final = "table"
LEFT_FINGER: Final = "vx300s_left/10_left_gripper_finger"
RIGHT_FINGER: Final = "vx300s_right/10_right_gripper_finger"
"""The one finger of each gripper whose touch counts."""

SOCKET: Final = ("socket-1", "socket-2", "socket-3", "socket-4")


class Area(NamedTuple):
    """Where an object lies at first: (low, high) of x and of y, in metres."""

    x: tuple[float, float]
    y: tuple[float, float] = (0.4, 0.6)


CUBE_AREA: Final = Area((0.0, 0.2))
PEG_AREA: Final = Area((0.1, 0.2))
SOCKET_AREA: Final = Area((-0.2, -0.1))

TRANSFER_STAGES: Final = (
    "nothing touches the cube",
    "the right gripper touches the cube",
    "the right gripper has lifted the cube",
    "the left gripper touches the cube",
    "the left gripper has taken the cube over",
)
INSERTION_STAGES: Final = (
    "not both grippers touch their objects",
    "both grippers touch their objects",
    "both grippers have lifted their objects",
    "the peg touches the socket",
    "the peg touches the pin inside the socket",
)


class AlohaTask(NamedTuple):
    """One task.

    file: its MuJoCo model.
    draw_objects: seed -> position and quaternion of each object, one after the other.
    stage: how far the task is by the current contacts, 0 to SUCCESS.
    stages: what each stage means, in words.
    objects: each object's geoms and the area where it lies at first, in the order of the poses.
    motion: poses of the objects, (objects, 7) -> what the expert does.
    end_effector_file: the model in which the original's expert drags the grippers.
    original_paths: poses of the objects, (objects, 7) -> where it drags them.
    """

    file: str
    draw_objects: Callable[[int], np.ndarray]
    stage: Callable[[Touching], int]
    stages: Sequence[str]
    objects: Sequence[tuple[Sequence[str], Area]]
    motion: Callable[[np.ndarray], Motion]
    end_effector_file: str
    original_paths: Callable[[np.ndarray], Paths]


def draw_cube(seed: int) -> Float64[np.ndarray, "7"]:
    """Draw the cube's pose, which the seed fixes: x 0 to 0.2 m, y 0.4 to 0.6 m."""
    return _lying_in(np.random.RandomState(seed), CUBE_AREA)


def draw_peg_and_socket(seed: int) -> Float64[np.ndarray, "14"]:
    """Draw the poses of peg (x 0.1 to 0.2 m) and socket (x -0.2 to -0.1 m), y 0.4 to 0.6 m."""
    random = np.random.RandomState(seed)
    return np.concatenate([_lying_in(random, PEG_AREA), _lying_in(random, SOCKET_AREA)])


def displace(
    place: Float64[np.ndarray, "2"], area: Area, distance: float, random: np.random.Generator
) -> Float64[np.ndarray, "2"]:
    """Return a place at this distance in metres within the area, in a drawn direction.

    Where no direction leads there, it is the one to the middle of the area.
    """
    low, high = np.array(area).T
    for angle in random.uniform(0, 2 * np.pi, 1000):
        moved: np.ndarray = place + distance * np.array([np.cos(angle), np.sin(angle)])
        if (moved >= low).all() and (moved <= high).all():
            return moved
    way = (low + high) / 2 - place
    inwards: np.ndarray = place + distance * way / np.linalg.norm(way)
    return inwards


def transfer_stage(touching: Touching) -> int:
    """One of TRANSFER_STAGES.

    A cube that still lies on the table has not been taken over, whatever touches it.
    """
    on_table = touching("red_box", TABLE)
    if touching("red_box", LEFT_FINGER):
        return 3 if on_table else 4
    if touching("red_box", RIGHT_FINGER):
        return 1 if on_table else 2
    return 0


def insertion_stage(touching: Touching) -> int:
    """One of INSERTION_STAGES.

    Peg and socket must be off the table in stages 2 and 3.
    """
    if touching("red_peg", "pin"):
        return 4
    on_table = any(touching(part, TABLE) for part in ("red_peg", *SOCKET))
    if not on_table and any(touching("red_peg", part) for part in SOCKET):
        return 3
    left = any(touching(part, LEFT_FINGER) for part in SOCKET)
    if left and touching("red_peg", RIGHT_FINGER):
        return 1 if on_table else 2
    return 0


def _lying_in(random: np.random.RandomState, area: Area) -> Float64[np.ndarray, "7"]:
    """Draw a pose 5 cm above the table, turned as the model has it."""
    low, high = zip(*area, (0.05, 0.05), strict=True)
    return np.concatenate([random.uniform(low, high), [1.0, 0.0, 0.0, 0.0]])


TASKS: Final = {
    "TransferCube": AlohaTask(
        "bimanual_viperx_transfer_cube.xml",
        draw_cube,
        transfer_stage,
        TRANSFER_STAGES,
        [(["red_box"], CUBE_AREA)],
        transfer_motion,
        "bimanual_viperx_end_effector_transfer_cube.xml",
        transfer_paths,
    ),
    "Insertion": AlohaTask(
        "bimanual_viperx_insertion.xml",
        draw_peg_and_socket,
        insertion_stage,
        INSERTION_STAGES,
        [(["red_peg"], PEG_AREA), (SOCKET, SOCKET_AREA)],
        insertion_motion,
        "bimanual_viperx_end_effector_insertion.xml",
        insertion_paths,
    ),
}


def stages_in_words(environment: str) -> Sequence[str]:
    """The meaning of each stage of an environment, by its id; empty where it has no stages."""
    words = {aloha_environment_id(name): task.stages for name, task in TASKS.items()}
    return words.get(environment, ())
