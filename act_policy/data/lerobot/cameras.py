"""Which cameras of a LeRobotDataset can be used, and why the others cannot.

RGB is used as it is, the alpha channel of RGBA is dropped, gray is repeated in three channels.
"""

from collections.abc import Mapping
from contextlib import suppress

from act_policy.data.dataset import DEPTH
from act_policy.data.lerobot.images import (
    content_of,
    find_image,
    first_value,
    is_by_name,
)
from act_policy.data.lerobot.metadata import Feature, Metadata
from act_policy.data.video.index import read_header
from act_policy.errors import UserError
from act_policy.images.decode import DeepImageError, decode_rgb
from act_policy.types import Camera


def sort_cameras(
    metadata: Metadata, keys: Mapping[str, str]
) -> tuple[dict[str, Camera], dict[str, str]]:
    """Return the cameras that can be used, and why each of the others cannot, by name.

    The first image is looked at: files do not always say that their images have 16 bits.

    Args:
        metadata: of the dataset.
        keys: camera name -> feature.
    """
    usable: dict[str, Camera] = {}
    unusable: dict[str, str] = {}
    for name, key in keys.items():
        found = _camera(name, metadata.features[key])
        if isinstance(found, Camera):
            found = _look_deeper(metadata, key) or found
        if isinstance(found, Camera):
            usable[name] = found
        else:
            unusable[name] = found
    return usable, unusable


def _camera(name: str, feature: Feature) -> Camera | str:
    """Return the camera with its size, or why its description rules it out."""
    if not feature.is_image:
        return f"it holds {feature.dtype}, not images"
    if feature.is_depth:
        return DEPTH
    if _is_deep(feature.pixels):
        return f"its video has the pixel format {feature.pixels}, of more than 8 bits gray: depth"
    sizes = feature.shape
    if len(sizes) not in (2, 3) or not all(isinstance(n, int) and n > 0 for n in sizes):
        return f"its shape is {list(sizes)}, which is no height, width and channels"
    channels, height, width = _sizes(feature)
    if channels not in (1, 3, 4):
        return f"its images have {channels} channels; expected 3 (RGB), 4 (RGBA) or 1 (gray)"
    return Camera(name, height, width)


def channels_of(feature: Feature) -> int:
    """Return the number of channels of a camera that can be used."""
    return _sizes(feature)[0]


def _sizes(feature: Feature) -> tuple[int, int, int]:
    """Return channels, height and width."""
    if len(feature.shape) == 2:
        return 1, feature.shape[0], feature.shape[1]
    one, two, three = feature.shape
    # Names of the axes are often wrong or missing; then the axis that can be the channels decides.
    names = feature.names if isinstance(feature.names, list) else []
    first = str(names[0]).startswith("channel") if names else False
    if not feature.shape[0 if first else 2] <= 4:
        first = not first
    return (one, two, three) if first else (three, one, two)


def _look_deeper(metadata: Metadata, key: str) -> str:
    """Look at the first image, or the header of the first video; say what rules the camera out."""
    if metadata.features[key].dtype == "video":
        for path in dict.fromkeys(entry.videos[key].path for entry in metadata.episodes):
            with suppress(UserError):  # reported with the episode it belongs to
                pixels = read_header(path).stream.pixels
                deep = _is_deep(pixels)
                return f"its video is {pixels}, more than 8 bits gray: depth" if deep else ""
        return ""
    with suppress(Exception):  # a broken file is reported with its episode
        value = first_value(metadata, key)
        if is_by_name(value) and find_image(metadata.folder, value["path"]) is None:
            return (
                f"its images are in files of their own, such as {value['path']}, which are not in "
                f"{metadata.folder}: copy them there, too"
            )
        if isinstance(value, list):
            return "its images are lists of numbers; expected encoded ones, such as PNG"
        try:
            decode_rgb(content_of(value, metadata.folder))
        except DeepImageError as error:
            return f"its images have more than 8 bits per pixel ({error}), as depth has"
    return ""


def _is_deep(pixels: str) -> bool:
    """Whether a video's pixels are gray of more than 8 bits, as "gray16le" and "gray12le" are."""
    return pixels.startswith(("gray", "y1")) and pixels not in ("gray", "gray8")
