"""Pictures that the demo model is shown, and what it is asked about them: shapes, and handwritten digits.

Shapes are drawn large and scaled down, as a picture from a file is. Digits are scikit-learn's (8x8 pixels, 1,797 of
them, from UCI's Optical Recognition of Handwritten Digits); those held out of training are the last fifth.
Knows nothing of networks.
"""

from __future__ import annotations

import math
import random
from functools import cache
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFilter

Split = Literal["train", "held_out"]
Point = tuple[float, float]
Rgb = tuple[int, int, int]

SHAPES = ("circle", "square", "triangle", "star", "heart")
COLORS: dict[str, Rgb] = {
    "red": (220, 30, 35),
    "green": (30, 150, 50),
    "blue": (35, 70, 210),
    "yellow": (245, 215, 35),
    "purple": (130, 40, 150),
    "black": (15, 15, 15),
    "white": (248, 248, 248),
}
NUMBERS = ("no", "one", "two", "three", "four", "five")
CANVAS = 192
"""Side of what is drawn."""

SEE = (
    "What do you see?", "What is this?", "What is in this picture?", "What is in the picture?", "What can you see?",
    "Describe the picture.", "Describe this picture.", "Describe this image.", "What does the picture show?",
    "What is that?", "What's this?", "Tell me what you see.",
)  # fmt: skip
WHICH_SHAPE = ("What shape is it?", "What shape is this?", "Which shape is it?", "What shape do you see?")
WHICH_COLOR = ("What color is it?", "What colour is it?", "Which color is it?", "What color is the {shape}?")
HOW_MANY = ("How many are there?", "How many shapes are there?", "How many {shape}s are there?", "How many do you see?")
WHICH_DIGIT = ("Which digit is it?", "What digit is this?", "What number is this?", "Which number do you see?",
    "What digit do you see?", "Read the digit.")  # fmt: skip


class Scene(NamedTuple):
    """What a picture shows: `number` equal shapes, or a digit."""

    shape: str
    color: str
    number: int
    digit: int | None = None


class Question(NamedTuple):
    """One of the tasks, in words, and its only right answer."""

    task: str
    asked: str
    answer: str


TASKS = ("what: a shape", "what: several", "what: a digit", "which shape", "which color", "how many", "which digit")


def draw(rng: random.Random, split: Split) -> tuple[Scene, Image.Image]:
    """A random picture, every other a digit."""
    return draw_digit(rng, split) if rng.random() < 0.5 else draw_shapes(rng)


def questions(scene: Scene, rng: random.Random) -> list[Question]:
    """A question of each task that the scene has."""
    if scene.digit is not None:
        return [
            Question("what: a digit", rng.choice(SEE), f"I see the digit {scene.digit}."),
            Question("which digit", rng.choice(WHICH_DIGIT), f"It is a {scene.digit}."),
        ]
    number, some = NUMBERS[scene.number], "" if scene.number == 1 else "s"
    what = "what: a shape" if scene.number == 1 else "what: several"
    of_it = [scene.shape, scene.color]
    are = "is" if scene.number == 1 else "are"
    return [
        Question(what, rng.choice(SEE), f"I see {number if some else 'a'} {scene.color} {scene.shape}{some}."),
        Question("which shape", rng.choice(WHICH_SHAPE), f"It is a {of_it[0]}."),
        Question("which color", rng.choice(WHICH_COLOR).format(shape=scene.shape), f"It is {of_it[1]}."),
        Question("how many", rng.choice(HOW_MANY).format(shape=scene.shape), f"There {are} {number}."),
    ]


def draw_shapes(rng: random.Random, scene: Scene | None = None) -> tuple[Scene, Image.Image]:
    """One to five equal shapes that do not touch, of one colour on a background of another."""
    count = 1 if rng.random() < 0.4 else rng.randint(2, 5)
    scene = scene or Scene(rng.choice(SHAPES), rng.choice(list(COLORS)), count)
    paper = _paper(rng, scene.color)
    picture = Image.new("RGB", (CANVAS, CANVAS), paper)
    pen = ImageDraw.Draw(picture)
    ink = _near(rng, COLORS[scene.color], 12)
    radius = CANVAS * (rng.uniform(0.2, 0.42) if scene.number == 1 else rng.uniform(0.135, 0.165))
    for center in _places(rng, scene.number, radius):
        _shape(pen, scene.shape, center, radius * rng.uniform(0.92, 1), rng, ink)
    return scene, _worn(rng, picture)


def _paper(rng: random.Random, color: str) -> Rgb:
    """White, black, grey or pale, unlike the ink."""
    while True:
        level = rng.choice((255, 250, 240, 200, 128, 0, 30))
        paper = _near(rng, (level, level, level), 10)
        if rng.random() < 0.25:
            paper = _near(rng, rng.choice([(200, 225, 245), (250, 230, 205), (215, 240, 210), (60, 60, 80)]), 10)
        if sum(abs(a - b) for a, b in zip(paper, COLORS[color], strict=True)) > 190:
            return paper


def _near(rng: random.Random, color: Rgb, by: int) -> Rgb:
    red, green, blue = (max(0, min(255, part + rng.randint(-by, by))) for part in color)
    return red, green, blue


def _places(rng: random.Random, count: int, radius: float) -> list[Point]:
    """Centers at least two radii and a gap apart."""
    while True:
        found: list[Point] = []
        for _ in range(60):
            at = rng.uniform(radius + 4, CANVAS - radius - 4), rng.uniform(radius + 4, CANVAS - radius - 4)
            if all(math.dist(at, other) > 2.2 * radius + 6 for other in found):
                found.append(at)
            if len(found) == count:
                return found


def _shape(pen: ImageDraw.ImageDraw, shape: str, at: Point, radius: float, rng: random.Random, ink: Rgb) -> None:
    x, y = at
    if shape == "circle":
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), fill=ink)
        return
    turn = math.radians(rng.uniform(-12, 12))
    shapes: dict[str, list[Point]] = {
        "square": [(45 + 90 * k, 1.0) for k in range(4)],
        "triangle": [(-90 + 120 * k, 1.0) for k in range(3)],
        "star": [(-90 + 36 * k, (1.0, 0.42)[k % 2]) for k in range(10)],
        "heart": [_heart(math.tau * k / 40) for k in range(40)],
    }
    pen.polygon(
        [
            (
                x + radius * far * math.cos(math.radians(angle) + turn),
                y + radius * far * math.sin(math.radians(angle) + turn),
            )
            for angle, far in shapes[shape]
        ],
        fill=ink,
    )


def _heart(at: float) -> Point:
    """A point of its outline as an angle in degrees and a distance from the middle."""
    x, y = 16 * math.sin(at) ** 3, -(13 * math.cos(at) - 5 * math.cos(2 * at) - 2 * math.cos(3 * at) - math.cos(4 * at))
    return math.degrees(math.atan2(y, x)), math.hypot(x, y) / 17


@cache
def digits() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """All digits: float64 [1797, 8, 8] from 0 (paper) to 16 (ink), and which they are, int64 [1797]."""
    from sklearn.datasets import load_digits

    every = load_digits()
    return every.images, every.target


def draw_digit(rng: random.Random, split: Split, number: int | None = None) -> tuple[Scene, Image.Image]:
    """A digit, upright, dark on light or light on dark, in some place; `number`: which of the data set."""
    images, targets = digits()
    border = len(images) * 4 // 5
    if number is None:
        number = rng.randrange(border) if split == "train" else rng.randrange(border, len(images))
    ink = Image.fromarray((images[number] * 255 / 16).astype(np.uint8))
    side = round(CANVAS * rng.uniform(0.55, 0.98))
    ink = ink.resize(
        (side, side), rng.choice((Image.Resampling.BICUBIC, Image.Resampling.NEAREST, Image.Resampling.BILINEAR))
    )
    canvas = Image.new("L", (CANVAS, CANVAS), 0)
    canvas.paste(ink, (rng.randint(0, CANVAS - side), rng.randint(0, CANVAS - side)))
    if split == "train":
        canvas = _leaning(rng, canvas)
    if rng.random() < 0.5:
        dark, light = rng.randint(0, 60), rng.randint(200, 255)
    else:
        dark, light = rng.randint(200, 255), rng.randint(0, 50)
    grey = np.asarray(canvas, np.float32) / 255
    grey = light + (dark - light) * grey
    picture = Image.fromarray(grey.clip(0, 255).astype(np.uint8)).convert("RGB")
    return Scene("", "", 1, int(targets[number])), _worn(rng, picture) if split == "train" else picture


def _leaning(rng: random.Random, picture: Image.Image) -> Image.Image:
    """Turned, sheared and stretched a little, so that 1,437 digits are more."""
    turn, shear = math.radians(rng.uniform(-10, 10)), rng.uniform(-0.15, 0.15)
    wide, high = rng.uniform(0.85, 1.2), rng.uniform(0.85, 1.2)
    a, b = wide * math.cos(turn), wide * (math.sin(turn) + shear)
    d, e = -high * math.sin(turn), high * math.cos(turn)
    middle = CANVAS / 2
    shift = middle - a * middle - b * middle, middle - d * middle - e * middle
    return picture.transform(
        picture.size, Image.Transform.AFFINE, (a, b, shift[0], d, e, shift[1]), Image.Resampling.BILINEAR
    )


def _worn(rng: random.Random, picture: Image.Image) -> Image.Image:
    """Blurred or noisy, sometimes."""
    if rng.random() < 0.2:
        picture = picture.filter(ImageFilter.GaussianBlur(rng.uniform(0.5, 2)))
    if rng.random() < 0.2:
        noise = np.random.default_rng(rng.randrange(2**32)).normal(0, rng.uniform(2, 14), (CANVAS, CANVAS, 3))
        picture = Image.fromarray((np.asarray(picture, np.float32) + noise).clip(0, 255).astype(np.uint8))
    return picture
