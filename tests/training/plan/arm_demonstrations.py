"""Demonstrations of an arm like an SO-101, drawn and not recorded: it puts blocks into a bin.

    python -m tests.training.plan.arm_demonstrations FOLDER

writes a LeRobotDataset v3.0 like a first one of one's own: 50 episodes of 15 seconds at 30 steps a
second, two cameras of 480x640, h264. In each, blocks and bin lie at other places of the table. The
arm waits a moment, reaches for the red block, carries it to the bin, does the same with the green
one, and goes back to rest. A person's hand is imitated by minimum-jerk motion from waypoint to
waypoint, each a little off and taking a little longer or shorter. The action is the goal of each
joint; the state follows it some steps later and in the ticks of a servo.

    python -m tests.training.plan.arm_demonstrations FOLDER --episodes 20 --seconds 10 \
        --cameras front:1080x1920

writes others. Cameras are front, left, right, top (where nothing moves) and wrist. The same options
give the same demonstrations. Interrupted, the same command goes on.
"""

import argparse
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from act_policy.data.conversion.convert import convert
from act_policy.data.dataset import DemonstrationDataset, Episode, check_step, lengths_of
from act_policy.data.lerobot.staging import LeRobotWriterConfig
from act_policy.types import Camera, Schema
from tests.training.plan.arm_pictures import (
    BLOCK,
    BLOCK_COLOURS,
    HELD,
    VIEWS,
    WRIST,
    Scene,
    draw,
    locate_arm,
    reach,
)

JOINTS = ("shoulder_pan", "shoulder_lift", "elbow_flex", "wrist_flex", "wrist_roll", "gripper")
REST = np.array([0.0, -100.0, 97.0, 75.0, 0.0, 5.0])
OPEN, CLOSED = 85.0, 25.0  # goals of the gripper; a block stops it before the second
NEAR, FAR, SIDE = 0.14, 0.25, np.radians(60)  # where blocks and bin may lie
BLOCKS_APART, BIN_APART, BLOCK_IN_BIN = 0.055, 0.085, 0.024
ABOVE, AT_BLOCK, ABOVE_BIN = 0.075, 0.017, 0.06  # heights of the fingertip
SECONDS_PER_BLOCK = 6.0
LAG = 0.09  # seconds; the time constant with which a joint follows its goal
TICK = 360 / 4096  # of a servo, in degrees; taken for the gripper as well


class Waypoint(NamedTuple):
    """The six joints that the arm is to have, and the usual seconds on the way to them."""

    joints: np.ndarray
    seconds: float


class Carrying(NamedTuple):
    """The steps at which the waypoints of one block are reached."""

    above: int
    lowered: int
    closed: int
    raised: int
    above_bin: int
    opened: int


class Demonstration(NamedTuple):
    """Actions and states (T, 6), the places and turns of blocks (T, n, 4), and the bin's (2,)."""

    action: np.ndarray
    state: np.ndarray
    blocks: np.ndarray
    bin: np.ndarray


@lru_cache(maxsize=4)
def demonstrate(seed: int, steps: int, rate: float) -> Demonstration:
    """Draw places by the seed, and move one block after the other into the bin."""
    rng = np.random.default_rng(seed)
    count = int(np.clip(round(steps / rate / SECONDS_PER_BLOCK), 1, len(BLOCK_COLOURS)))
    target, places = _place(rng, count)
    rolls = rng.uniform(-35, 35, count)
    turns = np.arctan2(places[:, 1], places[:, 0]) + np.pi / 2 - np.radians(rolls)
    way = [Waypoint(REST, 0.4)]
    for n in range(count):
        beside = np.array([0.0, (n - (count - 1) / 2) * BLOCK_IN_BIN])
        way += _carry(rng, places[n], float(rolls[n]), target + beside)
    way += [Waypoint(REST, 1.4), Waypoint(REST, 0.3)]
    seconds = np.array([point.seconds for point in way]) * rng.uniform(0.8, 1.2, len(way))
    ends = np.cumsum(seconds) / seconds.sum() * (steps - 1)
    action = _move([point.joints for point in way], ends, steps)
    reached = np.ceil(ends[1:-2]).astype(int).reshape(count, len(Carrying._fields))
    moments = [Carrying(*each) for each in reached.tolist()]
    state = _follow(action, [slice(m.lowered, m.above_bin) for m in moments], rng, rate)
    blocks = np.empty((steps, count, 4))
    blocks[:] = np.column_stack([places, np.full(count, BLOCK / 2), turns])
    arm = locate_arm(state)
    across = arm.hand[:, 1]
    in_hand = np.column_stack([arm.points[:, 3], np.arctan2(across[:, 1], across[:, 0])])
    for n, moment in enumerate(moments):
        blocks[moment.closed : moment.above_bin, n] = in_hand[moment.closed : moment.above_bin]
        blocks[moment.above_bin :, n] = in_hand[moment.above_bin - 1]
        blocks[moment.above_bin :, n, 2] = BLOCK / 2
    return Demonstration(action.astype(np.float32), state.astype(np.float32), blocks, target)


def _carry(
    rng: np.random.Generator, place: np.ndarray, roll: float, target: np.ndarray
) -> list[Waypoint]:
    """List the waypoints of `Carrying` for one block."""
    above, raised = (_reach(rng, place, ABOVE, 0.006, roll) for _ in range(2))
    at = _reach(rng, place, AT_BLOCK, 0.002, roll)
    drop = _reach(rng, target, ABOVE_BIN, 0.008, 0.0)
    return [
        Waypoint(np.append(above, OPEN), 1.3),
        Waypoint(np.append(at, OPEN), 0.7),
        Waypoint(np.append(at, CLOSED), 0.5),
        Waypoint(np.append(raised, CLOSED), 0.6),
        Waypoint(np.append(drop, CLOSED), 1.2),
        Waypoint(np.append(drop, OPEN), 0.4),
    ]


def _place(rng: np.random.Generator, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw the places of the bin (2,) and of blocks (count, 2), not too near to each other."""
    while True:
        radius, angle = rng.uniform(NEAR, FAR, count + 1), rng.uniform(-SIDE, SIDE, count + 1)
        places = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
        apart = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(count + 1, 1)]
        if (apart[:count] > BIN_APART).all() and (apart[count:] > BLOCKS_APART).all():
            return places[0], places[1:]


def _reach(
    rng: np.random.Generator, place: np.ndarray, height: float, off: float, roll: float
) -> np.ndarray:
    """Compute the five joints for a point above a place, off by some of the given metres."""
    tip = np.append(place, height) + rng.normal(0, off / 2, 3).clip(-off, off)
    return reach(tip, np.radians(rng.uniform(-80, -74)), roll)


def _move(points: list[np.ndarray], ends: np.ndarray, steps: int) -> np.ndarray:
    """Move from rest through all waypoints, each reached at its end with a jerk as low as can be.

    Source: T. Flash and N. Hogan, "The coordination of arm movements", 1985.
    """
    begins = np.append(0, ends[:-1])
    part = np.searchsorted(ends, np.arange(steps)).clip(max=len(ends) - 1)
    share = ((np.arange(steps) - begins[part]) / (ends - begins)[part]).clip(0, 1)[:, None]
    after, before = np.stack(points)[part], np.stack([REST, *points])[part]
    smooth = share**3 * (10 - 15 * share + 6 * share**2)
    return TICK * np.round((before + smooth * (after - before)) / TICK)


def _follow(
    action: np.ndarray, held: Sequence[slice], rng: np.random.Generator, rate: float
) -> np.ndarray:
    """Let the joints follow their goals, the gripper only as far as a held block lets it."""
    least = np.zeros(len(action))
    for steps in held:
        least[steps] = HELD
    state = np.empty_like(action)
    now = action[0].copy()
    for step in range(len(action)):
        state[step] = now
        now = now + (1 - np.exp(-1 / (rate * LAG))) * (action[step] - now)
        now[5] = max(now[5], least[step])
    return TICK * np.round(state / TICK + rng.normal(0, 0.6, state.shape))


class ArmDemonstrations(DemonstrationDataset):
    """Demonstrations that are made when they are read."""

    vector_names = ()

    def __init__(self, episodes: int, steps: int, rate: float, cameras: Any, seed: int) -> None:
        names = tuple(f"{joint}.pos" for joint in JOINTS)
        units = ("",) * len(names)  # LeRobot's files have none
        self.schema = Schema(tuple(cameras), names, units, names, units, float(rate))
        self.seed = seed
        file = Path(__file__)  # where all of it comes from
        self.folder = file.parent
        task = "Put the blocks into the bin"
        self.episodes = [
            Episode(f"episode {n}", n, steps, file, instruction=task) for n in range(episodes)
        ]
        self.lengths, self.last_index = lengths_of(self.episodes), episodes - 1
        self.left_out: dict[str, str] = {}
        self.notes: list[str] = []

    def demonstration(self, episode: int) -> Demonstration:
        seed = 1_000_000 * self.seed + episode
        return demonstrate(seed, self.episodes[episode].length, self.schema.rate)

    def state(self, episode: int) -> np.ndarray:
        return self.demonstration(episode).state

    def action(self, episode: int) -> np.ndarray:
        return self.demonstration(episode).action

    def scene(self, episode: int, step: int) -> Scene:
        made = self.demonstration(episode)
        return Scene(made.state[step].astype(np.float64), made.blocks[step], made.bin)

    def frame(self, episode: int, step: int, camera: str) -> np.ndarray:
        check_step(self, episode, step)
        (found,) = (each for each in self.schema.cameras if each.name == camera)
        return draw(found, self.scene(episode, step), 100_000 * episode + step)

    def frame_key(self, episode: int, camera: str) -> tuple[Any, ...]:
        return (self.seed, episode, camera)


def write_dataset(source: ArmDemonstrations, folder: Path, workers: int) -> str:
    """Write the demonstrations as LeRobot records them; return one sentence about them."""
    return convert(source, folder, "lerobot_v3", LeRobotWriterConfig(codec="h264"), workers=workers)


def _parse_camera(text: str) -> Camera:
    name, _, size = text.partition(":")
    height, _, width = size.partition("x")
    if name not in (*VIEWS, WRIST):
        raise argparse.ArgumentTypeError(f"{name}: expected {', '.join((*VIEWS, WRIST))}")
    return Camera(name, int(height), int(width))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--episodes", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--rate", type=float, default=30.0, help="steps a second")
    parser.add_argument(
        "--cameras",
        type=_parse_camera,
        nargs="+",
        metavar="NAME:HxW",
        default=[Camera("front", 480, 640), Camera("wrist", 480, 640)],
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2, help="processes")
    asked = parser.parse_args()
    steps = round(asked.seconds * asked.rate)
    source = ArmDemonstrations(asked.episodes, steps, asked.rate, asked.cameras, asked.seed)
    print(write_dataset(source, asked.folder, asked.workers))


if __name__ == "__main__":
    main()
