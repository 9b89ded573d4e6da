"""Errors of single episodes of a dataset, and how they are handled."""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from act_policy.errors import UserError, list_some

MOST_NAMED = 10
"""Number of episodes that a message names."""

Wanted = Callable[[Mapping[int, str]], Collection[int]]
"""Chooses the episodes to use, given index -> name of all; may raise UserError."""


class UnfinishedError(UserError):
    """A file is missing, cut short or unreadable, as after a killed recording or copy.

    path: the file, if the error concerns it as a whole.
    """

    def __init__(self, message: str, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class EpisodeErrors:
    """Collects the errors of episodes while a dataset is opened; `settle` then decides.

    Args:
        unreadable: "stop" at any error, or "skip" the episodes that have one.
        wanted: chooses the episodes to use; errors in the others do not matter.
    """

    def __init__(self, unreadable: str, wanted: Wanted | None = None) -> None:
        self._skip = unreadable == "skip"
        self._wanted: Wanted = wanted or set
        self.by_episode: dict[int, UserError] = {}
        """Index of each faulty episode -> its first error."""

    def add(self, episode: int, error: UserError) -> None:
        """Record an error of an episode; the first one counts."""
        self.by_episode.setdefault(episode, error)

    def settle(self, names: dict[int, str]) -> tuple[list[int], list[str]]:
        """Return the indices of the episodes to keep, and notes about the others.

        Episodes at the end of a dataset whose recording was cut short are left out under either
        setting: a killed recorder leaves such episodes.

        Args:
            names: of all episodes, by their index, in order.

        Raises:
            UserError: an episode has an error and may not be skipped, or every episode has one.
        """
        errors = self.by_episode
        wanted = set(self._wanted(names))
        whole = [index for index in names if index not in errors]
        kept = [index for index in whole if index in wanted]
        if not errors:
            return kept, []
        faulty = [index for index in errors if index in wanted or index not in names]
        if not kept:
            raise errors[faulty[0]]
        tail = [index for index in names if index > whole[-1]]
        cut_short = [index for index in tail if isinstance(errors[index], UnfinishedError)]
        tail = [index for index in tail if index in wanted] if cut_short == tail else []
        others = [index for index in faulty if index not in tail]
        if others and not self._skip:
            error = errors[others[0]]
            error.args = (
                f"{error} (To train without such episodes: unreadable=skip, data.unreadable=skip "
                "in training.)",
            )
            raise error
        notes = []
        if tail:
            count = "episode was" if len(tail) == 1 else f"{len(tail)} episodes were"
            notes.append(
                f"the recording ended before its last {count} whole; the dataset is "
                f"read up to {names[whole[-1]]}, the last whole episode. "
                f"Found: {errors[tail[0]]}"
            )
        if others:
            # An episode that is missing altogether has no name.
            shown = [f"{names.get(i, f'episode {i}')}: {errors[i]}" for i in others]
            notes.append(
                f"{len(others)} of {len({*names, *others})} episodes are left out "
                f"(unreadable=skip): {list_some(shown, MOST_NAMED)}"
            )
        return kept, notes
