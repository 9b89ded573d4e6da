"""Runs as demonstrations: what the policy saw, what the arm was sent, and where a person acted.

This is the one file of the control code that needs h5py, and only once something is recorded.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from act_policy.errors import UserError
from act_policy.types import Observation, Schema

MOST_BYTES = 2 * 1024**3
"""Of images that are kept in memory until they are written, when the arm no longer moves."""


class EpisodeRecorder:
    """Collects uninterrupted stretches of motion, and writes each as an episode.

    Nothing is written while the arm moves: `write` is for afterwards. When the memory is full, the
    rest of the run is not recorded, and `full` says so.

    Args:
        folder: of the demonstrations; episodes in it stay.
        schema: of the policy; its rate is the rate of the steps.
        settings: kept with each episode, for the record.

    Raises:
        UserError: h5py is not there, or the folder cannot be written.
    """

    def __init__(
        self,
        folder: str | Path,
        schema: Schema,
        settings: Mapping[str, Any],
        most_bytes: int = MOST_BYTES,
    ):
        try:
            from act_policy.data.aloha_episode import write_episode
        except ImportError:
            raise UserError(
                "recording needs h5py and pillow; run `pip install h5py pillow`"
            ) from None
        self._write_episode = write_episode
        self._folder, self._schema, self._settings = Path(folder), schema, dict(settings)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"record {folder}: cannot be made ({error.strerror})") from None
        self._left = most_bytes
        self._episodes: list[list[_Step]] = []
        self._open = False

    @property
    def full(self) -> bool:
        """Whether memory for images has run out."""
        return self._left <= 0

    def add(self, observation: Observation[np.ndarray], action: np.ndarray, operator: bool) -> None:
        """One step of the policy's rate: what was seen, what was sent, whether a person acted."""
        if self.full:
            return
        if not self._open:
            self._episodes.append([])
            self._open = True
        images = {name: image.copy() for name, image in observation.images.items()}
        self._left -= sum(image.nbytes for image in images.values())
        self._episodes[-1].append((images, observation.state.copy(), action.copy(), operator))

    def end_episode(self) -> None:
        """The motion was interrupted: what follows is another episode."""
        self._open = False

    def write(self) -> list[Path]:
        """Write every episode that was collected; return the files.

        Raises:
            UserError: the disk is full; what was not written is kept, and can be written again.
        """
        self.end_episode()
        taken = [int(path.stem.split("_")[1]) for path in self._folder.glob("episode_*.hdf5")]
        number = max(taken, default=-1) + 1
        written = []
        while self._episodes:
            images, states, actions, operator = zip(*self._episodes[0], strict=True)
            path = self._folder / f"episode_{number:06d}.hdf5"
            self._write_episode(
                path,
                self._schema,
                {name: np.stack([i[name] for i in images]) for name in self._schema.camera_names},
                np.stack(states),
                np.stack(actions),
                settings=self._settings,
                operator=np.array(operator),
            )
            del self._episodes[0]
            written.append(path)
            number += 1
        return written


_Step = tuple[dict[str, np.ndarray], np.ndarray, np.ndarray, bool]
