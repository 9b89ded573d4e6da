"""Encode messages between a policy server and its clients: msgpack with arrays, as openpi's.

    array     {b"__ndarray__": True, b"data": bytes in C order, b"dtype": "<f4", b"shape": [k, a]}
    scalar    {b"__npgeneric__": True, b"data": number, b"dtype": "<f4"}

Every byte that arrives may be hostile: only numbers, text, lists and dictionaries are decoded,
never an object and never code. Nothing is unpickled.

Source: openpi, packages/openpi-client/src/openpi_client/msgpack_numpy.py.
"""

import math
import re
from typing import Any

import msgpack
import numpy as np

_KINDS = "biufSU"  # truth values, integers, floats, text; openpi refuses V, O and c as well
_DTYPE = re.compile(r"[<>|=]?[biufSU]\d{1,4}")
_ARRAY, _SCALAR = b"__ndarray__", b"__npgeneric__"
_ARRAY_KEYS = {_ARRAY, b"data", b"dtype", b"shape"}
_SCALAR_KEYS = {_SCALAR, b"data", b"dtype"}

REQUEST_KEY = "request"
"""A client's number for a request, which the answer repeats."""

# An observation has a dozen entries; a message of many tiny ones would take up to 60 times its
# size in memory. An array of numbers is one entry.
MOST_ITEMS = 4096
MOST_DIMENSIONS = 8


class WireError(ValueError):
    """Bytes that are not a message of this protocol, or values that cannot become one."""


def pack(value: Any) -> bytes:
    """Encode plain values and numpy arrays; `unpack` is the inverse.

    Raises:
        WireError: a value that is none of them, such as an object or an array of objects.
    """
    try:
        packed: bytes = msgpack.packb(value, default=_describe)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise WireError(f"a value cannot be sent: {error}") from None
    return packed


def unpack(message: bytes) -> Any:
    """Decode one message; its arrays are read-only views of their bytes.

    Raises:
        WireError: it is cut off, is not msgpack, holds a type other than those of `pack`, or an
            array whose bytes, dtype and shape do not fit each other.
    """
    # One count for the whole message, beside msgpack's own for each list and dictionary.
    count = 0

    def counted(items: Any) -> Any:
        nonlocal count
        count += 1 + len(items)
        if count > MOST_ITEMS:
            raise WireError(f"more than {MOST_ITEMS} entries in one message")
        return items

    try:
        return msgpack.unpackb(
            message,
            object_hook=lambda items: _rebuild(counted(items)),
            list_hook=counted,
            max_array_len=MOST_ITEMS,
            max_map_len=MOST_ITEMS,
            max_ext_len=0,
            strict_map_key=True,  # keys are text or bytes
        )
    except WireError:
        raise
    except Exception as error:  # msgpack has a class for each way bytes can be wrong
        reason = str(error) or type(error).__name__
        raise WireError(f"not a message of this protocol: {reason}") from None


def _describe(value: Any) -> Any:
    """The dictionary that stands for an array or a numpy scalar."""
    if not isinstance(value, np.ndarray | np.generic):
        raise TypeError(f"{type(value).__name__} is not a number, text, list, dictionary or array")
    if value.dtype.kind not in _KINDS:
        raise TypeError(f"an array of dtype {value.dtype}")
    if isinstance(value, np.ndarray):
        return {
            _ARRAY: True,
            b"data": value.tobytes(),
            b"dtype": value.dtype.str,
            b"shape": value.shape,
        }
    return {_SCALAR: True, b"data": value.item(), b"dtype": value.dtype.str}


def _rebuild(items: dict[Any, Any]) -> Any:
    """The array or scalar that a dictionary stands for, else the dictionary."""
    if _ARRAY in items:
        return _array(items)
    if _SCALAR in items:
        return _scalar(items)
    return items


def _array(items: dict[Any, Any]) -> np.ndarray:
    if set(items) != _ARRAY_KEYS or items[_ARRAY] is not True:
        raise WireError("an array has other fields than data, dtype and shape")
    data, dtype, shape = items[b"data"], _dtype(items[b"dtype"]), items[b"shape"]
    if not isinstance(data, bytes):
        raise WireError(f"an array's data is {type(data).__name__}, expected bytes")
    if (
        not isinstance(shape, list)
        or len(shape) > MOST_DIMENSIONS
        or not all(type(size) is int and 0 <= size < 2**31 for size in shape)
    ):
        raise WireError(f"an array's shape is {str(shape)[:100]}, expected a list of sizes")
    if (expected := math.prod(shape) * dtype.itemsize) != len(data):
        raise WireError(
            f"an array of {dtype} {tuple(shape)} has {len(data)} bytes, expected {expected}"
        )
    return np.frombuffer(data, dtype).reshape(shape)


def _scalar(items: dict[Any, Any]) -> np.generic:
    if set(items) != _SCALAR_KEYS or items[_SCALAR] is not True:
        raise WireError("a numpy scalar has other fields than data and dtype")
    value, dtype = items[b"data"], _dtype(items[b"dtype"])
    if type(value) is not {"b": bool, "i": int, "u": int, "f": float}.get(dtype.kind):
        raise WireError(f"a numpy scalar of {dtype} holds {type(value).__name__}")
    scalar: np.generic = dtype.type(value)
    return scalar


def _dtype(name: Any) -> np.dtype[Any]:
    """Only the short names that numpy writes itself: no records, no objects, no aliases."""
    if not isinstance(name, str) or not _DTYPE.fullmatch(name):
        raise WireError(
            f"an array's dtype is {str(name)[:40]!r}, expected one such as '<f4' or '|u1'"
        )
    return np.dtype(name)
