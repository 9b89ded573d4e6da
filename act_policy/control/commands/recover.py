"""Make episodes of what killed runs recorded, and a LeRobotDataset of all episodes."""

from collections.abc import Callable, Sequence

from act_policy.control.recording.lerobot import finish, is_unfinished, write_lerobot
from act_policy.control.recording.recording import Recorded, recover
from act_policy.errors import UserError


def recover_command(folder: str, lerobot: str | None, say: Callable[[str], None]) -> int:
    """Recover a folder of recordings, print the episodes and return 0.

    A run that was to be a LeRobotDataset becomes one in its own folder.
    """
    if is_unfinished(folder):
        if lerobot is not None:
            raise UserError(f"{folder}: becomes a LeRobotDataset itself; leave lerobot out")
        finish_lerobot(folder, say)
        return 0
    recovered = recover(folder)
    say_recorded(recovered, "recovered", say)
    if not recovered:
        say(f"{folder}: nothing to recover")
    if lerobot is not None:
        say(write_lerobot(folder, lerobot))
    return 0


def finish_lerobot(folder: str, say: Callable[[str], None]) -> None:
    """Write what a run recorded as a LeRobotDataset, and say so; raises UserError."""
    recovered, said = finish(folder)
    say_recorded(recovered, "recovered", say)
    say(said)


def say_recorded(episodes: Sequence[Recorded], how: str, say: Callable[[str], None]) -> None:
    """Print a line per episode that was recorded or recovered."""
    for path, steps, moved in episodes:
        uneven = f"; {moved} repeated or left out, as the loop was not even" if moved else ""
        say(f"{how} {path}: {steps} steps{uneven}")
