"""Record a scripted expert: in parallel, interruptible, with the same result for any workers."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np
from tqdm import tqdm

from act_policy.data.aloha.episode import write_episode
from act_policy.errors import UserError, check_choice, check_whole_number, writing
from act_policy.sim.environment import Variation, scripted_expert
from act_policy.sim.images import image_sizes
from act_policy.sim.rendering import choose_gl_backend
from act_policy.system.atomic import atomic_file, remove_partial_files
from act_policy.system.locks import try_lock
from act_policy.system.processes import run_jobs, usable_cores

SETTINGS_FILE = "recording.json"
STAGING_FOLDER = ".unfinished"


@dataclass(frozen=True)
class RecordingConfig:
    """Everything that determines the episodes; a folder holds episodes of one such config.

    environment: gymnasium id.
    cameras: name -> (height, width) in pixels.
    quality: of the images, fast or exact.
    max_steps: an episode without success by then is a failure.
    seed: of the first initial state; each following state has the next number.
    noise: standard deviation of the noise added to the executed movement, in units of the action;
        the expert's own action is stored, so that a policy learns to correct.
    timing_noise, pose_noise: how much the expert's own motion varies, see `Variation`.
    tail: steps recorded after the first success, in which the expert goes on.
    """

    environment: str
    cameras: Mapping[str, Sequence[int]]
    max_steps: int = 500
    seed: int = 0
    quality: str = "fast"
    noise: float = 0.0
    timing_noise: float = 0.0
    pose_noise: float = 0.0
    tail: int = 10

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
        if self.environment not in gymnasium.registry:
            raise UserError(f"environment {self.environment} is not known to gymnasium")

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        cameras = {name: list(size) for name, size in image_sizes(self.cameras).items()}
        return {**asdict(self), "cameras": cameras}

    def make_environment(self) -> gymnasium.Env[Any, Any]:
        """Make the environment that the config describes."""
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
    """Fill a folder with the first `episodes` successes of the expert, counted from the seed up.

    A folder that already holds some of them is continued; nothing in it is recorded again.

    Raises:
        UserError: the folder holds episodes of another config, or more than `episodes`; the expert
            fails nearly always; an episode cannot be written.
    """
    check_whole_number("episodes", episodes, 1)
    workers = usable_cores() if workers == "auto" else check_whole_number("workers", workers, 1)
    folder = _Folder(Path(out), config)
    with folder.locked():
        folder.open(episodes)
        todo = folder.next_seeds(episodes)
        if todo:
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
                        f"{config.environment}: the expert failed {folder.failures} of "
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
    """Record the expert's attempt at one initial state; write it to `path` only if it succeeds.

    A step holds an observation and the expert's action after it; all noise is a function of the
    seed. Returns whether the expert succeeded within `max_steps`.
    """
    observation, _ = environment.reset(seed=seed)
    variation = Variation(config.timing_noise, config.pose_noise, seed)
    expert = scripted_expert(environment, variation)
    schema = environment.unwrapped.schema  # type: ignore[attr-defined]
    disturb = disturbance(environment.unwrapped, config.noise, seed)
    seen, states, actions = [], [], []
    steps_left = config.max_steps
    success = False
    while steps_left > 0:
        action = expert()
        seen.append(observation["pixels"])
        states.append(observation["agent_pos"])
        actions.append(action)
        observation, _, _, _, info = environment.step(disturb(action))
        steps_left -= 1
        if info["success"] and not success:
            success, steps_left = True, config.tail
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


class _Folder:
    """The episodes of one recording on the disk: which seeds are done and how they ended.

    An episode is first written under its seed in a staging folder and takes its place among the
    numbered ones when every earlier seed is done, so the numbered ones never have a gap.
    """

    def __init__(self, path: Path, config: RecordingConfig) -> None:
        self.path = path
        self.staging = path / STAGING_FOLDER
        self._config = config
        self._written: dict[int, Path] = {}  # seed -> where its episode is
        self._failed: set[int] = set()
        self._holds_others = True  # until `open` has checked every file
        self._given: set[int] = set()  # seeds handed out and not yet back

    @property
    def successes(self) -> int:
        return len(self._written)

    @property
    def failures(self) -> int:
        return len(self._failed)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one recording at a time work in the folder."""
        with writing(self.path):
            self.staging.mkdir(parents=True, exist_ok=True)
            lock = (self.staging / "lock").open("wb")
        with lock:
            if not try_lock(lock):
                raise UserError(f"{self.path}: another recording is at work here")
            try:
                yield
            finally:
                # A recording without a single attempt leaves no trace.
                if not self._written and not self._failed and not self._holds_others:
                    (self.path / SETTINGS_FILE).unlink(missing_ok=True)
                if not any(file.name != "lock" for file in self.staging.iterdir()):
                    (self.staging / "lock").unlink()
                    self.staging.rmdir()

    def open(self, episodes: int) -> None:
        """Find the episodes that are there already; refuse those of another config."""
        config_file = self.path / SETTINGS_FILE
        placed = sorted(self.path.glob("episode_*.hdf5"))
        staged = sorted(self.staging.glob("[0-9]*.hdf5"))
        if config_file.exists():
            try:
                saved = json.loads(config_file.read_text())
                found, self._failed = saved["settings"], set(saved["failed_seeds"])
            except (ValueError, KeyError, TypeError):
                raise UserError(f"{config_file}: not readable; remove the folder") from None
            wanted = self._config.to_dict()
            # Earlier versions had no such noise.
            found = {"timing_noise": 0.0, "pose_noise": 0.0, **found}
            differing = [key for key in wanted if found.get(key) != wanted[key]]
            if differing and (placed or staged or self._failed):
                raise UserError(
                    f"{self.path} holds episodes of other settings: "
                    + "; ".join(
                        f"{key} {found.get(key)} there, {wanted[key]} here" for key in differing
                    )
                    + ". Choose another folder, or remove it."
                )
        elif placed:
            raise UserError(
                f"{self.path} holds {len(placed)} episodes of another origin; choose another folder"
            )
        remove_partial_files(self.path)
        remove_partial_files(self.staging)
        self._written = {_seed_of(path): path for path in placed}
        self._written |= {int(path.stem): path for path in staged}
        if len(self._written) > episodes:
            raise UserError(
                f"{self.path} holds {len(self._written)} episodes, more than episodes={episodes}; "
                "choose another folder"
            )
        self._holds_others = False
        self._save()
        self._place()

    def next_seeds(self, episodes: int) -> list[int]:
        """The seeds to try now, the lowest first: one per missing success."""
        not_failed = (seed for seed in count(self._config.seed) if seed not in self._failed)
        wanted = islice(not_failed, episodes)
        fresh = [seed for seed in wanted if seed not in self._written and seed not in self._given]
        self._given.update(fresh)
        return fresh

    def add(self, seed: int, success: bool) -> None:
        """Note how the episode from an initial state ended."""
        self._given.discard(seed)
        if success:
            self._written[seed] = self.staging / f"{seed}.hdf5"
        else:
            self._failed.add(seed)
            self._save()
        self._place()

    def _place(self) -> None:
        """Number the episodes whose earlier seeds are all done."""
        seed, number = self._config.seed, 0
        while seed in self._written or seed in self._failed:
            if seed in self._written:
                name = self.path / f"episode_{number:06d}.hdf5"
                if self._written[seed] != name:
                    os.replace(self._written[seed], name)
                    self._written[seed] = name
                number += 1
            seed += 1

    def _save(self) -> None:
        content = {"settings": self._config.to_dict(), "failed_seeds": sorted(self._failed)}
        try:
            with atomic_file(self.path / SETTINGS_FILE) as file:
                file.write(json.dumps(content, indent=2).encode() + b"\n")
        except OSError as error:
            raise UserError(
                f"{self.path / SETTINGS_FILE}: could not be written ({error.strerror}); episodes "
                "recorded so far are whole. Free some space; the same command then goes on."
            ) from error


def _seed_of(path: Path) -> int:
    try:
        with h5py.File(path) as file:
            return int(file.attrs["seed"])
    except Exception:  # h5py has many kinds for a damaged file
        raise UserError(
            f"{path}: not an episode of this recording (unreadable, or it has no seed); remove it "
            "and the same command records it again"
        ) from None
