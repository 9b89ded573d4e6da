"""Record a teacher: in parallel, interruptible, with the same result for any workers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from tqdm import tqdm

from act_policy.data.aloha.episode import write_episode
from act_policy.errors import UserError, check_choice, check_whole_number
from act_policy.sim.described import SimulatorConfig
from act_policy.sim.images import image_sizes
from act_policy.sim.recording_folder import RecordingFolder
from act_policy.sim.rendering import choose_gl_backend
from act_policy.sim.teachers import EXPERT, Teacher
from act_policy.system.processes import run_jobs, usable_cores
from act_policy.types import Schema


@dataclass(frozen=True)
class RecordingConfig:
    """Everything that determines the episodes; a folder holds episodes of one such config.

    environment: gymnasium id.
    cameras: name -> (height, width) in pixels.
    quality: of the images, fast or exact.
    max_steps: an episode without success by then is a failure.
    seed: of the first initial state; each following state has the next number.
    noise: standard deviation of the noise added to the executed movement, in units of the action;
        the teacher's own action is stored, so that a policy learns to correct.
    teacher, timing_noise, pose_noise, inject_noise: who demonstrates, and how much its own motion
        varies, see `Teacher`.
    tail: steps recorded after the first success, within max_steps; the teacher goes on in them.
    instruction: the task in words, stored with each episode.
    simulator: describes an environment that is not one of this package's.
    """

    environment: str
    cameras: Mapping[str, Sequence[int]]
    max_steps: int = 500
    seed: int = 0
    quality: str = "fast"
    noise: float = 0.0
    teacher: str = EXPERT
    timing_noise: float = 0.0
    pose_noise: float = 0.0
    inject_noise: bool = False
    tail: int = 10
    instruction: str = ""
    simulator: SimulatorConfig | None = None

    def __post_init__(self) -> None:
        for field, smallest in (("max_steps", 1), ("seed", 0), ("tail", 0)):
            check_whole_number(field, getattr(self, field), smallest)
        for field in ("noise", "timing_noise", "pose_noise"):
            value = getattr(self, field)
            if not isinstance(value, int | float) or not 0 <= value < float("inf"):
                raise UserError(f"{field}={value}: expected a number, 0 or more")
        check_choice("quality", self.quality, ("fast", "exact"))
        if not image_sizes(self.cameras):
            raise UserError("cameras={}: a demonstration needs at least one camera")
        if self.simulator is not None and self.noise:
            raise UserError(
                f"noise={self.noise}: only this package's environments know which values of an "
                "action move the robot; let your teacher's actions differ"
            )
        if self.simulator is None and self.environment not in gymnasium.registry:
            raise UserError(f"environment {self.environment} is not known to gymnasium")
        self.demonstrates.check()

    @property
    def demonstrates(self) -> Teacher:
        """Who demonstrates."""
        return Teacher(self.teacher, self.timing_noise, self.pose_noise, self.inject_noise)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        cameras = {name: list(size) for name, size in image_sizes(self.cameras).items()}
        return {**asdict(self), "cameras": cameras}

    def make_environment(self) -> gymnasium.Env[Any, Any]:
        """Make the environment that the config describes."""
        if self.simulator is not None:
            return self.simulator.make(self.cameras, self.max_steps)
        return gymnasium.make(
            self.environment,
            cameras=self.cameras,
            quality=self.quality,
            max_episode_steps=self.max_steps,
        )


def record_demonstrations(
    config: RecordingConfig,
    episodes: int,
    out: str | Path,
    workers: int | str = "auto",
) -> None:
    """Fill a folder with the first `episodes` successes of the teacher, counted from the seed up.

    A folder that already holds some of them is continued; nothing in it is recorded again.

    Raises:
        UserError: the folder holds episodes of another config, or more than `episodes`; the teacher
            fails nearly always; an episode cannot be written.
    """
    check_whole_number("episodes", episodes, 1)
    workers = usable_cores() if workers == "auto" else check_whole_number("workers", workers, 1)
    folder = RecordingFolder(Path(out), config.to_dict())
    with folder.locked():
        folder.open(episodes)
        todo = folder.next_seeds(episodes)
        if todo and config.simulator is None:
            choose_gl_backend()  # once, here: the processes inherit it
        with tqdm(
            total=episodes, initial=folder.successes, desc="demonstrations", unit="episode"
        ) as bar:

            def on_result(seed: int, success: bool) -> list[int]:
                folder.add(seed, success)
                bar.set_postfix(failed=folder.failures, refresh=False)
                bar.update(int(success))
                if folder.failures > 20 + 10 * folder.successes:
                    raise UserError(
                        f"{config.environment}: the teacher failed {folder.failures} of "
                        f"{folder.failures + folder.successes} initial states; "
                        "is max_steps too small or noise too large?"
                    )
                return folder.next_seeds(episodes)

            try:
                make_handler = partial(_make_recorder, config, folder.staging)
                run_jobs(make_handler, todo, workers, 300.0, on_result)
            except KeyboardInterrupt:
                bar.close()
                print(
                    f"{folder.successes} of {episodes} episodes are kept; the same command goes on"
                )
                raise


def record_episode(
    environment: gymnasium.Env[Any, Any],
    config: RecordingConfig,
    seed: int,
    path: Path,
    alive: Callable[[], None] = lambda: None,
) -> bool:
    """Record the teacher's attempt at one initial state; write it to `path` only if it succeeds.

    A step holds an observation and the teacher's action after it; all noise is a function of the
    seed. Returns whether the teacher succeeded within `max_steps`.
    """
    observation, _ = environment.reset(seed=seed)
    act = config.demonstrates.begin(environment, seed)
    schema: Schema = environment.get_wrapper_attr("schema")
    if config.teacher != EXPERT:
        schema = replace(schema, teacher=config.teacher)
    disturb = disturbance(environment.unwrapped, config.noise, seed) if config.noise else np.copy
    seen, states, actions = [], [], []
    steps_left = config.max_steps
    success = False
    while steps_left > 0:
        action = act(observation)
        seen.append(observation["pixels"])
        states.append(observation["agent_pos"])
        actions.append(action)
        observation, _, _, _, info = environment.step(disturb(action))
        steps_left -= 1
        if info["success"] and not success:
            success, steps_left = True, min(config.tail, steps_left)
        alive()
    if not success:
        return False
    images: dict[str, list[np.ndarray]] = {name: [] for name in schema.camera_names}
    for pixels in seen:  # drawn only now, so that a failure costs no image
        for name, frames in images.items():
            frames.append(pixels[name])
        alive()
    write_episode(
        path,
        schema,
        {name: np.stack(frames) for name, frames in images.items()},
        np.stack(states),
        np.stack(actions),
        seed=seed,
        success=True,
        config=config.to_dict(),
        instruction=config.instruction,
    )
    return True


def disturbance(task: Any, size: float, seed: int) -> Callable[[np.ndarray], np.ndarray]:
    """Make a function that adds noise to each action of an episode; the seed fixes it.

    It adds x_t = memory x_{t-1} + sqrt(1 - memory^2) e_t with standard deviation `size` to the
    values that move the robot; the task says which values these are, and the memory.
    """
    random = np.random.default_rng([seed, 1])
    memory = task.disturbance_memory
    added: np.ndarray | None = None

    def disturb(action: np.ndarray) -> np.ndarray:
        nonlocal added
        executed = action.copy()
        fresh = size * random.standard_normal(executed[task.disturbed].shape)
        added = fresh if added is None else memory * added + (1 - memory**2) ** 0.5 * fresh
        executed[task.disturbed] += added
        return executed

    return disturb


def _make_recorder(
    config: RecordingConfig, staging: Path
) -> Callable[[int, Callable[[], None]], bool]:
    environment = config.make_environment()

    def record(seed: int, alive: Callable[[], None]) -> bool:
        return record_episode(environment, config, seed, staging / f"{seed}.hdf5", alive)

    return record
