"""Make episodes of what killed runs recorded, and a LeRobotDataset of all episodes."""

from collections.abc import Callable, Sequence

from act_policy.control.recording.lerobot import write_lerobot
from act_policy.control.recording.recording import Recorded, recover


def recover_command(folder: str, lerobot: str | None, say: Callable[[str], None]) -> int:
    """Recover a folder of recordings, print the episodes and return 0."""
    recovered = recover(folder)
    say_recorded(recovered, "recovered", say)
    if not recovered:
        say(f"{folder}: nothing to recover")
    if lerobot is not None:
        say(write_lerobot(folder, lerobot))
    return 0


def say_recorded(episodes: Sequence[Recorded], how: str, say: Callable[[str], None]) -> None:
    """Print a line per episode that was recorded or recovered."""
    for path, steps, moved in episodes:
        uneven = f"; {moved} repeated or left out, as the loop was not even" if moved else ""
        say(f"{how} {path}: {steps} steps{uneven}")
