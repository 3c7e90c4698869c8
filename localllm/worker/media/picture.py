"""One picture: from the bytes of a file to RGB, with every limit checked in the header before a pixel is decoded.

Runs in `decoding_child` only: Pillow's decoders are native code that reads what strangers send.
"""

from __future__ import annotations

import io
import warnings

import numpy as np
from PIL import Image, UnidentifiedImageError

FORMATS = ("JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "AVIF", "PPM")
"""Never all of Pillow's: some start other programs (EPS) or were seldom looked at."""
NAMES = "JPEG, PNG, WebP, GIF, BMP, TIFF, AVIF and PNM"
MAX_ASPECT = 50
"""Longest picture by its short side; what is longer is padded. libmtmd ends the process where a side becomes 0."""
MAX_MADE_PIXELS = 16 * 10**6
"""More than any projector reads; what is larger is reduced to this."""
TOO_MUCH_MEMORY = "needs too much memory to be decoded (setting media_decode_mb); make it smaller"
LOW_SIDE = 512
"""Longest side with detail `low`."""


class Unreadable(Exception):
    """The file cannot be read; the message continues "the picture ..."."""


def read_picture(data: bytes, *, max_pixels: int, is_low: bool) -> tuple[int, int, bytes]:
    """Width, height, and 3 bytes a pixel: upright, the first frame, over white. Raises `Unreadable`."""
    warnings.simplefilter("ignore")  # of broken metadata, and Pillow's own limit of pixels
    Image.MAX_IMAGE_PIXELS = None
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as file:
            return _made(file, max_pixels, is_low)
    except UnidentifiedImageError:
        raise Unreadable(f"is of no format that is read here ({NAMES})") from None
    except MemoryError:
        raise Unreadable(TOO_MUCH_MEMORY) from None
    except Unreadable:
        raise
    except Exception as error:  # noqa: BLE001  a plugin may raise anything on a broken file
        raise Unreadable(f"is broken: {error}") from None


def _made(file: Image.Image, max_pixels: int, is_low: bool) -> tuple[int, int, bytes]:
    width, height = file.size
    if width < 1 or height < 1:
        raise Unreadable("has no pixels")
    if width * height > max_pixels:
        raise Unreadable(
            f"is {width} x {height}, which are {width * height / 10**6:.1f} megapixels; at most {max_pixels / 10**6:g} "
            "are read (setting max_megapixels); make it smaller"
        )
    scale = min(1.0, (MAX_MADE_PIXELS / (width * height)) ** 0.5)
    if is_low:
        scale = min(scale, LOW_SIDE / max(width, height))
    wanted = max(1, round(width * scale)), max(1, round(height * scale))
    file.draft("RGB", wanted)  # a JPEG is decoded at a reduced scale
    file.load()
    image: Image.Image = file
    if image.mode in ("L", "RGB", "RGBA", "CMYK") and (factor := min(image.width // wanted[0], 64)) > 1:
        image = image.reduce(factor)  # before anything that would copy all of it
    image = _opaque(image)
    if image.size != wanted and scale < 1:
        image = image.resize(wanted, Image.Resampling.LANCZOS, reducing_gap=2.0)
    image = padded(_upright(image, file))
    return image.width, image.height, image.tobytes()


def _opaque(image: Image.Image) -> Image.Image:
    """RGB; what is transparent shows white."""
    if image.mode.startswith("I;16") or image.mode in ("I", "F"):
        return _from_grey_levels(image)
    if image.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        colors = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(colors, mask=colors.getchannel("A"))
        return white
    return image.convert("RGB")


def _from_grey_levels(image: Image.Image) -> Image.Image:
    """16 and 32 bits a pixel; Pillow would clip them at 255."""
    levels = np.nan_to_num(np.asarray(image, np.float32))
    top = 65535.0 if image.mode != "F" and levels.size and levels.max() > 255 else 255.0
    if image.mode == "F" and levels.size and levels.max() <= 1:
        top = 1.0
    return Image.fromarray(np.clip(levels * (255 / top), 0, 255).astype(np.uint8), "L").convert("RGB")


def _upright(image: Image.Image, file: Image.Image) -> Image.Image:
    """As the camera was held."""
    turned = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }.get(file.getexif().get(0x0112, 1))
    return image if turned is None else image.transpose(turned)


def padded(image: Image.Image) -> Image.Image:
    """White beside a strip, see `MAX_ASPECT`."""
    least = -(-max(image.size) // MAX_ASPECT)
    size = max(image.width, least), max(image.height, least)
    if size == image.size:
        return image
    made = Image.new("RGB", size, "white")
    made.paste(image, ((size[0] - image.width) // 2, (size[1] - image.height) // 2))
    return made
