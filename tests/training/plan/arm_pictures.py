"""An arm like an SO-101 at a table: where its joints put it, and pictures of it.

Lengths are metres: x points away from the base, y to its left, z up from the table. Joints are in
LeRobot's order and units: degrees, and for the gripper 0 (closed) to 100 (open).
"""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw

from act_policy.types import Camera

SHOULDER_HEIGHT, UPPER_ARM, FOREARM, HAND = 0.12, 0.116, 0.135, 0.10
BLOCK, BIN, BIN_HEIGHT = 0.03, 0.08, 0.02
OPENING = 0.07  # between the fingers at 100
HELD = 100 * BLOCK / OPENING
"""Where a block stops the gripper."""

BLOCK_COLOURS = ((215, 40, 35), (40, 160, 60), (45, 80, 215))
ARM_COLOUR, HAND_COLOUR, BIN_COLOUR, SHADOW = (205, 150, 40), (70, 70, 80), (120, 80, 150), 95
WRIST = "wrist"
VIEWS = {  # from where, towards where, and the focal length in heights of the image
    "front": ((0.62, 0.0, 0.42), (0.11, 0.0, 0.05), 1.35),
    "left": ((0.25, 0.55, 0.40), (0.14, 0.0, 0.03), 1.4),
    "right": ((0.25, -0.55, 0.40), (0.14, 0.0, 0.03), 1.4),
    "top": ((0.16, 0.0, 0.75), (0.14, 0.0, 0.0), 1.5),
}
TABLE_SIZE, TABLE_PIXEL = 1.8, 0.002
NOISE = 8


class Arm(NamedTuple):
    """Where the arm is.

    points: (..., 4, 3), shoulder, elbow, wrist and fingertip.
    hand: (..., 3, 3), the directions to the tip and in which the fingers open, and the third.
    """

    points: np.ndarray
    hand: np.ndarray


class Scene(NamedTuple):
    """What a camera may see: joints (6,), blocks (n, 4) as x, y, z and turn, and the bin (2,)."""

    joints: np.ndarray
    blocks: np.ndarray
    bin: np.ndarray


def locate_arm(joints: np.ndarray) -> Arm:
    """Compute where joints (..., 6) put the arm."""
    pan, lift, elbow, flex, roll = np.moveaxis(np.radians(joints[..., :5]), -1, 0)
    right = np.pi / 2
    elevations = np.stack([right - lift, -lift - elbow, -lift - elbow - flex], -1)
    ahead = np.stack([np.cos(pan), np.sin(pan), np.zeros_like(pan)], -1)
    links = np.cos(elevations)[..., None] * ahead[..., None, :]
    links[..., 2] = np.sin(elevations)
    steps = links * np.array([UPPER_ARM, FOREARM, HAND])[:, None]
    shoulder = np.broadcast_to([0.0, 0.0, SHOULDER_HEIGHT], ahead.shape)
    points = np.cumsum(np.concatenate([shoulder[..., None, :], steps], -2), -2)
    forward = links[..., 2, :]
    left = np.stack([-np.sin(pan), np.cos(pan), np.zeros_like(pan)], -1)
    up = np.cross(forward, left)
    turned = np.cos(roll)[..., None] * left + np.sin(roll)[..., None] * up
    return Arm(points, np.stack([forward, turned, np.cross(forward, turned)], -2))


def reach(tip: np.ndarray, elevation: float, roll: float) -> np.ndarray:
    """Compute the five joints, without the gripper, that put the fingertip there."""
    distance = np.hypot(tip[0], tip[1]) - HAND * np.cos(elevation)
    height = tip[2] - HAND * np.sin(elevation) - SHOULDER_HEIGHT
    straight = np.hypot(distance, height)
    bend = np.arccos((straight**2 - UPPER_ARM**2 - FOREARM**2) / (2 * UPPER_ARM * FOREARM))
    inner = np.arctan2(FOREARM * np.sin(bend), UPPER_ARM + FOREARM * np.cos(bend))
    upper = np.arctan2(height, distance) + inner
    forearm = upper - bend
    angles = [np.arctan2(tip[1], tip[0]), np.pi / 2 - upper, bend - np.pi / 2, forearm - elevation]
    return np.append(np.degrees(angles), roll)


class View(NamedTuple):
    """A camera: its place (3,), its axes (right, down, ahead) (3, 3), focal length and size."""

    place: np.ndarray
    axes: np.ndarray
    focal: float
    size: tuple[int, int]

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the pixels (..., 2) in which points (..., 3) are seen, and their depths (...)."""
        seen = (points - self.place) @ self.axes.T
        depth = np.maximum(seen[..., 2], 1e-3)
        middle = np.array([self.size[1], self.size[0]]) / 2
        return self.focal * seen[..., :2] / depth[..., None] + middle, seen[..., 2]


def find_view(camera: Camera, arm: Arm) -> View:
    """Say where a camera is and where it looks; the one at the wrist moves with the arm."""
    if camera.name == WRIST:
        forward, side, up = arm.hand
        place = arm.points[3] - 0.08 * forward + 0.06 * up
        ahead = arm.points[3] + 0.01 * forward - place
        down, focal = -up, 0.8
    else:
        place, target, focal = (np.array(value) for value in VIEWS[camera.name])
        ahead, down = target - place, np.array([0.0, 0.0, -1.0])
        if np.hypot(*ahead[:2]) < 0.1 * abs(ahead[2]):  # seen from above, x points upwards
            down = np.array([-1.0, 0.0, 0.0])
    ahead = ahead / np.linalg.norm(ahead)
    side = np.cross(down, ahead)
    side /= np.linalg.norm(side)
    axes = np.stack([side, np.cross(ahead, side), ahead])
    return View(place, axes, float(focal) * camera.height, (camera.height, camera.width))


def draw(camera: Camera, scene: Scene, seed: int) -> np.ndarray:
    """Draw what a camera sees, uint8 (h, w, 3), with noise by the seed."""
    arm = locate_arm(scene.joints)
    view = find_view(camera, arm)
    image = _draw_table(view) if camera.name == WRIST else _draw_fixed_table(camera).copy()
    canvas = ImageDraw.Draw(image)
    _draw_shadow(canvas, view, arm)
    faces = _find_faces(_list_boxes(scene, arm, camera.name == WRIST), view)
    pixels, depth = view.project(faces.corners)
    order = np.argsort(-depth.mean(axis=1))
    for face in order[depth[order].min(axis=1) > 0.01]:
        corners = [(x, y) for x, y in pixels[face].tolist()]
        canvas.polygon(corners, fill=tuple(faces.colours[face].tolist()))
    top, left = np.random.default_rng(seed).integers(0, 64, 2)
    return np.asarray(image) + _noise(*view.size)[top:, left:][: view.size[0], : view.size[1]]


class Box(NamedTuple):
    """Its middle (3,), the directions of its edges (3, 3), their lengths, and its colour."""

    middle: np.ndarray
    axes: np.ndarray
    size: tuple[float, float, float]
    colour: tuple[int, int, int]


class Faces(NamedTuple):
    """Corners (n, 4, 3) in space and colours (n, 3)."""

    corners: np.ndarray
    colours: np.ndarray


def _list_boxes(scene: Scene, arm: Arm, at_wrist: bool) -> list[Box]:
    """List all that may be seen; first the bin, which alone is open."""
    spot = np.array([*scene.bin, BIN_HEIGHT / 2])
    boxes = [Box(spot, np.eye(3), (BIN, BIN, BIN_HEIGHT), BIN_COLOUR)]
    for block, colour in zip(scene.blocks, BLOCK_COLOURS, strict=False):
        c, s = np.cos(block[3]), np.sin(block[3])
        axes = np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]])
        boxes.append(Box(block[:3], axes, (BLOCK,) * 3, colour))
    if not at_wrist:  # a camera there sees the hand alone
        base, pan = np.stack([np.zeros(3), arm.points[0]]), np.radians(scene.joints[0])
        left = np.array([-np.sin(pan), np.cos(pan), 0])  # across every link
        for ends, width in ((base, 0.06), (arm.points[:2], 0.045), (arm.points[1:3], 0.035)):
            ahead = ends[1] - ends[0]
            length = float(np.linalg.norm(ahead))
            axes = np.stack([ahead / length, left, np.cross(ahead / length, left)])
            boxes.append(Box(ends.mean(axis=0), axes, (length + 0.02, width, width), ARM_COLOUR))
    forward, across, _ = arm.hand
    palm, tip = arm.points[2] + 0.025 * forward, arm.points[3]
    boxes.append(Box(palm, arm.hand, (0.05, OPENING + 0.02, 0.03), HAND_COLOUR))
    apart = OPENING * scene.joints[5] / 200 + 0.004
    for way in (-apart, apart):
        middle = tip - 0.02 * forward + way * across
        boxes.append(Box(middle, arm.hand, (0.055, 0.008, 0.02), HAND_COLOUR))
    return boxes


NORMALS = np.concatenate([np.eye(3), -np.eye(3)])
CORNERS = np.array(
    [
        [n + y * np.roll(n, 1) + x * np.roll(n, 2) for y, x in ((1, 1), (1, -1), (-1, -1), (-1, 1))]
        for n in NORMALS
    ]
)
"""Of the faces of a cube from -1 to 1, the normals (6, 3) and the corners (6, 4, 3)."""


def _find_faces(boxes: list[Box], view: View) -> Faces:
    """Find the faces that look at the camera, brighter where they look upwards."""
    middles, axes, sizes, colours = (np.array(each) for each in zip(*boxes, strict=True))
    normals = NORMALS @ axes
    halves = axes * sizes[..., None] / 2
    corners = middles[:, None, None] + (CORNERS.reshape(24, 3) @ halves).reshape(-1, 6, 4, 3)
    seen = ((view.place - corners.mean(axis=2)) * normals).sum(-1) > 0
    seen[0] = normals[0, :, 2] < 0.5  # the open bin's inside is seen, too
    light = 0.7 + normals @ [0.1, -0.05, 0.25]
    shades = (light[..., None] * colours[:, None]).astype(int)
    return Faces(corners[seen], shades[seen])


def _draw_shadow(canvas: ImageDraw.ImageDraw, view: View, arm: Arm) -> None:
    """Draw the hand's shadow, which tells its height above the table."""
    turn = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    ring = 0.022 * np.stack([np.cos(turn), np.sin(turn), np.zeros(12)], -1)
    pixels, depth = view.project(arm.points[3] * [1, 1, 0] + ring)
    if depth.min() > 0.01:
        canvas.polygon([(x, y) for x, y in pixels.tolist()], fill=(SHADOW,) * 3)


@lru_cache(maxsize=8)
def _draw_fixed_table(camera: Camera) -> Image.Image:
    return _draw_table(find_view(camera, locate_arm(np.zeros(6))))


def _draw_table(view: View) -> Image.Image:
    """Draw the table's pattern in perspective."""
    shift = -view.axes @ view.place
    middle = [[view.focal, 0, view.size[1] / 2], [0, view.focal, view.size[0] / 2], [0, 0, 1]]
    seen = middle @ np.column_stack([view.axes[:, 0], view.axes[:, 1], shift])
    half = TABLE_SIZE / 2 / TABLE_PIXEL
    pattern = np.array([[1 / TABLE_PIXEL, 0, half], [0, 1 / TABLE_PIXEL, half], [0, 0, 1]])
    back = pattern @ np.linalg.inv(seen)
    numbers = (back / back[2, 2]).reshape(-1)[:8].tolist()
    size = view.size[1], view.size[0]
    return _table().transform(size, Image.Transform.PERSPECTIVE, numbers, fillcolor=(150, 155, 160))


@lru_cache(maxsize=1)
def _table() -> Image.Image:
    """Draw a wooden table: boards with a grain, lighter and darker."""
    rng = np.random.default_rng(0)
    pixels = round(TABLE_SIZE / TABLE_PIXEL)
    grain = Image.fromarray(rng.integers(0, 256, (pixels // 40, pixels // 2), np.uint8))
    smooth = np.asarray(grain.resize((pixels, pixels), Image.Resampling.BICUBIC), np.float32)
    boards = np.repeat(rng.uniform(-12, 12, -(-pixels // 60)), 60)[:pixels]
    light = (smooth - 128) * 0.12 + boards
    return Image.fromarray((light[..., None] + [172, 158, 138]).clip(16, 239).astype(np.uint8))


@lru_cache(maxsize=8)
def _noise(height: int, width: int) -> np.ndarray:
    """Return noise, larger than an image; no colour is so dark or bright that it wraps around."""
    rng = np.random.default_rng(1)
    noise = rng.integers(-NOISE, NOISE + 1, (height + 64, width + 64, 3))
    return noise.astype(np.uint8)
