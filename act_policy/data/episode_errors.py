"""Errors of single episodes of a dataset, and how they are handled."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from act_policy.errors import UserError, list_some

_NUMBERS = re.compile(r"(?<=[a-z][-_])\d+|\d+(?=\.(hdf5?|h5|he5)$)", re.IGNORECASE)
"""Of the episode, file or folder, in a path."""
INCOMPLETE_COPY = "The copy is incomplete: copy the folder again."
MOST_NAMED = 10
"""Number of episodes that a message names."""

Wanted = Callable[[Mapping[int, str]], Collection[int]]
"""Chooses the episodes to use, given index -> name of all; may raise UserError."""


class UnfinishedError(UserError):
    """A file is missing, cut short or unreadable, as after a killed recording or copy.

    path: the file, if the error concerns it as a whole.
    missing: it is named by the metadata and not there. Recorders write the metadata last, so it is
        a copy that ended too early, not a recording.
    """

    def __init__(self, message: str, path: Path | None = None, missing: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.missing = missing


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
        setting: a killed recorder leaves such episodes. It leaves one unfinished file of each kind;
        where files are missing, or several are cut, it is an incomplete copy, which is refused.

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
        unfinished = {i: error for i in tail if isinstance(error := errors[i], UnfinishedError)}
        of_a_crash = len(unfinished) == len(tail) and _is_left_by_a_crash(unfinished.values())
        tail = [index for index in tail if index in wanted] if of_a_crash else []
        others = [index for index in faulty if index not in tail]
        if others and not self._skip:
            error = errors[others[0]]
            lost = len(unfinished) > 1 or (isinstance(error, UnfinishedError) and error.missing)
            why = f" {INCOMPLETE_COPY}" if lost and INCOMPLETE_COPY not in f"{error}" else ""
            error.args = (
                f"{error}{why} (To train without such episodes, {len(others)} of "
                f"{len({*names, *others})}: unreadable=skip, data.unreadable=skip in training.)",
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


def _is_left_by_a_crash(errors: Iterable[UnfinishedError]) -> bool:
    """Whether a killed recorder leaves such files: one of each kind, and none that is missing."""
    paths = {error.path for error in errors if error.path is not None}
    kinds = [_NUMBERS.sub("", f"{path}") for path in paths]
    return not any(error.missing for error in errors) and len(kinds) == len(set(kinds))
