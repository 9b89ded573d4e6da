"""The error shown to the user, with the checks and words that every package needs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import MISSING, fields
from typing import Any


class UserError(Exception):
    """The user's input cannot be used; scripts print it as one message and exit with code 2.

    The message names the place (file, episode, camera, field), the value found, the value expected
    and the remedy.
    """


def check_whole_number(name: str, value: object, smallest: int) -> int:
    """Return `value`; raise UserError unless it is a whole number, `smallest` or more."""
    if not isinstance(value, int) or isinstance(value, bool) or value < smallest:
        shown = repr(value) if str(value).isdigit() else value  # the text "64" is not a number
        raise UserError(f"{name}={shown}: expected a whole number, {smallest} or more")
    return value


def check_number(name: str, value: object, smallest: int, largest: int) -> None:
    """Raise UserError unless `value` is a number between these two, or one of them."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not (is_number and smallest <= value <= largest):  # type: ignore[operator]
        raise UserError(f"{name}={value}: expected a number from {smallest} to {largest}")


def check_choice(name: str, value: object, choices: Sequence[str]) -> None:
    """Raise UserError unless `value` is one of the choices, which are two or more."""
    if value not in choices:
        listed = f"{', '.join(choices[:-1])} or {choices[-1]}"
        raise UserError(f"{name}={value}: expected {listed}")


@contextmanager
def writing(what: object, remedy: str = "") -> Iterator[None]:
    """Turn an OSError into a UserError that names what cannot be written, and ends in a remedy."""
    try:
        yield
    except OSError as error:
        raise UserError(f"{what}: cannot be written ({error.strerror or error}){remedy}") from None


@contextmanager
def located(where: object) -> Iterator[None]:
    """Put the place before the message of a UserError."""
    try:
        yield
    except UserError as error:
        raise UserError(f"{where}: {error}") from None


def list_some(texts: Sequence[str], count: int = 5) -> str:
    """Join the first few texts, and say how many more there are."""
    more = [f"and {len(texts) - count} more"] if len(texts) > count else []
    return "; ".join([*texts[:count], *more])


def check_fields(name: str, plain: Mapping[str, Any], made: type[Any]) -> None:
    """Raise UserError unless `plain` has every required field of a dataclass and no others."""
    known = {field.name: field.default for field in fields(made)}
    if unknown := sorted(set(plain) - set(known)):
        listed = ", ".join(sorted(known))
        raise UserError(f"{name}: unknown fields {', '.join(unknown)}; known are {listed}")
    for field, default in known.items():
        if default is MISSING and field not in plain:
            raise UserError(f"{name}: field {field!r} is missing")
