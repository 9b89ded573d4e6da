"""What is wrong with single episodes of a dataset, and what is done about it."""

from collections.abc import Callable, Collection, Mapping, Sequence

from act_policy.errors import UserError

Wanted = Callable[[Mapping[int, str]], Collection[int]]
"""Which of the episodes there are, names by index, are used; it may refuse with a UserError."""


class UnfinishedError(UserError):
    """A file is missing, cut short or unreadable: what a killed recording or copy leaves."""


class Faults:
    """Collects the faults of episodes while a dataset is opened; `settle` then decides.

    Args:
        unreadable: "stop" at any fault, or "skip" the episodes that have one.
        wanted: chooses the episodes that are used; faults of the others do not matter.
    """

    def __init__(self, unreadable: str, wanted: Wanted | None = None) -> None:
        if unreadable not in ("stop", "skip"):
            raise UserError(f"unreadable must be stop or skip, found {unreadable!r}")
        self._skip = unreadable == "skip"
        self._wanted: Wanted = wanted or set
        self._errors: dict[int, UserError] = {}

    def add(self, episode: int, error: UserError) -> None:
        """Note a fault of an episode; the first one counts."""
        self._errors.setdefault(episode, error)

    def named(self, names: dict[int, str]) -> dict[str, str]:
        """What is wrong with each episode that has a fault, by its name."""
        return {
            names.get(number, f"episode {number}"): f"{error}"
            for number, error in sorted(self._errors.items())
        }

    def settle(self, names: dict[int, str]) -> tuple[list[int], list[str]]:
        """Which episodes are kept, and what a person must be told of those that are not.

        The last episodes of a dataset are left out where their recording was cut short, whatever
        was chosen: a killed recorder leaves them so.

        Args:
            names: of all episodes, by their number, in order.

        Raises:
            UserError: an episode has a fault and is not to be skipped, or none is without.
        """
        wanted = set(self._wanted(names))
        whole = [number for number in names if number not in self._errors]
        kept = [number for number in whole if number in wanted]
        if not self._errors:
            return kept, []
        faulty = [n for n in self._errors if n in wanted or n not in names]
        if not kept:
            raise self._errors[faulty[0]]
        tail = [number for number in names if number > whole[-1]]
        cut_short = [n for n in tail if isinstance(self._errors[n], UnfinishedError)]
        tail = [n for n in tail if n in wanted] if cut_short == tail else []
        others = [number for number in faulty if number not in tail]
        if others and not self._skip:
            error = self._errors[others[0]]
            raise type(error)(
                f"{error} (To train without such episodes: unreadable=skip, data.unreadable=skip "
                "in training.)"
            )
        notes = []
        if tail:
            notes.append(
                f"the recording ended before its last {self._count(tail)} whole; the dataset is "
                f"read up to {names[whole[-1]]}, the last whole episode. "
                f"Found: {self._errors[tail[0]]}"
            )
        if others:
            notes.append(
                f"{len(others)} of {len({*names, *others})} episodes are left out "
                "(unreadable=skip): " + self._listed(others, names)
            )
        return kept, notes

    @staticmethod
    def _count(episodes: Sequence[int]) -> str:
        return "episode was" if len(episodes) == 1 else f"{len(episodes)} episodes were"

    def _listed(self, episodes: Sequence[int], names: dict[int, str], most: int = 10) -> str:
        # An episode of which nothing is there has no name either.
        shown = [
            f"{names.get(number, f'episode {number}')}: {self._errors[number]}"
            for number in episodes[:most]
        ]
        more = [f"and {len(episodes) - most} more"] if len(episodes) > most else []
        return "; ".join(shown + more)
