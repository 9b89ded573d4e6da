"""The codec: openpi's bytes exactly, everything else refused."""

import contextlib
import pickle
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from act_policy.control.policies.wire import MOST_ITEMS, WireError, pack, unpack

# Written by openpi_client.msgpack_numpy.packb (0.1.2) for EXAMPLE.
GOLDEN = bytes.fromhex(
    "87a5737461746584c40b5f5f6e6461727261795f5fc3c40464617461c4080000003f000000c0c40564747970"
    "65a33c6634c40573686170659102a6696d6167657381a863616d5f6869676884c40b5f5f6e6461727261795f"
    "5fc3c40464617461c406000301040205c4056474797065a37c7531c405736861706593030102a670726f6d70"
    "74a77069636b207570a47374657083c40d5f5f6e7067656e657269635f5fc3c4046461746107c40564747970"
    "65a33c6938a4646f6e6583c40d5f5f6e7067656e657269635f5fc3c40464617461c2c4056474797065a37c62"
    "31a5656d70747984c40b5f5f6e6461727261795f5fc3c40464617461c400c4056474797065a33c6638c40573"
    "68617065920003a5706c61696e9501cb4004000000000000c0c3c4056279746573"
)
EXAMPLE: dict[str, Any] = {
    "state": np.array([0.5, -2.0], np.float32),
    "images": {"cam_high": np.arange(6, dtype=np.uint8).reshape(1, 2, 3).transpose(2, 0, 1)},
    "prompt": "pick up",
    "step": np.int64(7),
    "done": np.bool_(False),
    "empty": np.zeros((0, 3)),
    "plain": [1, 2.5, None, True, b"bytes"],
}

NUMBERS = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="?"),
    hnp.floating_dtypes(endianness="?"),
)
DTYPES = NUMBERS | hnp.unicode_string_dtypes(endianness="?", min_len=1, max_len=4)
ARRAYS = hnp.arrays(DTYPES, hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False),
    st.text(max_size=10),
    st.binary(max_size=10),
)
PLAIN = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=20,
)


def array(**fields: Any) -> bytes:
    """An array as it is written, with some fields replaced; None leaves one out."""
    whole = {"data": b"\0" * 8, "dtype": "<f4", "shape": [2], "__ndarray__": True, **fields}
    packed: bytes = msgpack.packb({k.encode(): v for k, v in whole.items() if v is not None})
    return packed


def test_the_bytes_are_openpis() -> None:
    assert pack(EXAMPLE) == GOLDEN


def test_messages_of_openpi_are_read() -> None:
    found = unpack(GOLDEN)
    assert set(found) == set(EXAMPLE)
    np.testing.assert_array_equal(found["state"], EXAMPLE["state"])
    np.testing.assert_array_equal(found["images"]["cam_high"], EXAMPLE["images"]["cam_high"])
    assert found["images"]["cam_high"].dtype == np.uint8
    assert (found["prompt"], found["plain"]) == (EXAMPLE["prompt"], EXAMPLE["plain"])
    assert isinstance(found["step"], np.int64)
    assert found["step"] == 7
    assert found["empty"].shape == (0, 3)
    assert not found["state"].flags.writeable


def test_the_public_package_agrees() -> None:
    openpi = pytest.importorskip(
        "openpi_client.msgpack_numpy", reason="pip install --no-deps openpi-client"
    )
    assert openpi.packb(EXAMPLE) == GOLDEN
    np.testing.assert_array_equal(openpi.unpackb(pack(EXAMPLE))["state"], EXAMPLE["state"])


@given(ARRAYS)
def test_arrays_round_trip(values: np.ndarray) -> None:
    found = unpack(pack(values))
    assert found.dtype == values.dtype
    assert found.shape == values.shape
    assert found.tobytes() == values.tobytes()


@given(hnp.arrays(NUMBERS, ()).map(lambda values: values[()]))
def test_scalars_round_trip(value: np.generic) -> None:
    found = unpack(pack(value))
    # np.float64 is a float of Python's, and travels as one, with openpi as well.
    assert value.dtype == np.float64 or found.dtype == value.dtype
    assert found == value or (found != found and value != value)


@given(PLAIN)
def test_plain_values_round_trip(value: Any) -> None:
    assert unpack(pack(value)) == value


@given(st.binary(max_size=200))
def test_random_bytes_are_decoded_or_refused(data: bytes) -> None:
    with contextlib.suppress(WireError):
        unpack(data)


@given(st.data())
def test_changed_bytes_are_decoded_or_refused(data: st.DataObject) -> None:
    changed = bytearray(GOLDEN)
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(WireError):
        unpack(bytes(changed))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        pytest.param(b"", "incomplete", id="nothing"),
        pytest.param(GOLDEN[:-1], "incomplete", id="cut off"),
        pytest.param(GOLDEN + b"\0", "extra data", id="too long"),
        pytest.param(pickle.dumps({"state": 1}), "not a message", id="pickle"),
        pytest.param(b"\xa2\xff\xfe", "utf-8", id="not text"),
        pytest.param(b"\xc1", "FormatError", id="reserved"),
        pytest.param(msgpack.packb(msgpack.ExtType(1, b"x")), "max_ext_len", id="extension"),
        pytest.param(msgpack.packb(msgpack.Timestamp(1)), "max_ext_len", id="time"),
        pytest.param(msgpack.packb({1: 2}), "map key", id="number as key"),
        pytest.param(b"\x91" * 100_000, "StackError", id="deep"),
        pytest.param(b"\xdd\xff\xff\xff\xff", "exceeds", id="four billion entries said"),
        pytest.param(msgpack.packb([0] * (MOST_ITEMS + 1)), "exceeds", id="long list"),
        pytest.param(msgpack.packb([[0] * 1000] * 5), "entries", id="many lists"),
        pytest.param(msgpack.packb([{}] * 4000 + [[]] * 90), "entries", id="many empty ones"),
        pytest.param(array(dtype="|O"), "dtype is '|O'", id="objects"),
        pytest.param(array(dtype="<c8"), "dtype is '<c8'", id="complex"),
        pytest.param(array(dtype="|V8"), "dtype is '|V8'", id="void"),
        pytest.param(array(dtype="<f4,<f4"), "dtype", id="record"),
        pytest.param(array(dtype=[["a", "<f8"]]), "dtype", id="record list"),
        pytest.param(array(dtype="float32"), "dtype", id="alias"),
        pytest.param(array(dtype="<f5"), "f5", id="no such float"),
        pytest.param(array(dtype="<U0"), "", id="no size"),
        pytest.param(array(shape=[3]), "8 bytes, expected 12", id="too few bytes"),
        pytest.param(array(shape=[1]), "8 bytes, expected 4", id="too many bytes"),
        pytest.param(array(shape=[-2]), "shape", id="negative"),
        pytest.param(array(shape=[2.0]), "shape", id="float shape"),
        pytest.param(array(shape=[True, 2]), "shape", id="bool shape"),
        pytest.param(array(shape=8), "shape", id="shape no list"),
        pytest.param(array(shape=[2] + [1] * 8), "shape", id="nine dimensions"),
        pytest.param(array(shape=[2**62, 4]), "shape", id="overflow"),
        pytest.param(array(data="text"), "str", id="data no bytes"),
        pytest.param(array(data=None), "other fields", id="no data"),
        pytest.param(array(extra=1), "other fields", id="another field"),
        pytest.param(array(__ndarray__=1), "other fields", id="mark no truth"),
        pytest.param(
            msgpack.packb({b"__npgeneric__": True, b"data": 300, b"dtype": "|i1"}),
            "300",
            id="scalar too large",
        ),
        pytest.param(
            msgpack.packb({b"__npgeneric__": True, b"data": "1.5", b"dtype": "<f4"}),
            "holds str",
            id="scalar from text",
        ),
    ],
)
def test_refused(data: bytes, reason: str) -> None:
    with pytest.raises(WireError) as error:
        unpack(data)
    assert reason in str(error.value)
    assert len(str(error.value)) < 400


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        np.array([object()]),
        np.array([1j]),
        np.zeros(2, "i4,i4"),
        np.datetime64("2020-01-01"),
        2**70,
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_that_cannot_be_sent_are_refused(value: Any) -> None:
    with pytest.raises(WireError, match="cannot be sent"):
        pack({"state": value})


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(WireError):
        pack(loop)
