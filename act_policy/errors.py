"""The one error that speaks to the user, and the check that every package needs."""


class UserError(Exception):
    """What the user gave cannot be used; scripts print it as one message and exit with code 2.

    The message names where (file, episode, camera, field), what was found, what was expected and
    what to do.
    """


def check_whole_number(name: str, value: object, smallest: int) -> int:
    """Return `value`; UserError unless it is a whole number, `smallest` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
        raise UserError(f"{name}={value}: expected a whole number, {smallest} or more")
    return value
