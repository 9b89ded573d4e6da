"""The one error that speaks to the user."""


class UserError(Exception):
    """What the user gave cannot be used; scripts print it as one message and exit with code 2.

    The message names where (file, episode, camera, field), what was found, what was expected and
    what to do.
    """
