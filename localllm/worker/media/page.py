"""A page of a PDF as a picture, through the extra package pypdfium2. Runs in `decoding_child` only."""

from __future__ import annotations

import importlib.util

from localllm.worker.media.picture import LOW_SIDE, MAX_ASPECT, Unreadable, padded

MAX_SIDE = 2048
"""Pixels of the longest side: 175 dots per inch of A4, more than most projectors read."""
NEEDS = 'is a page of a PDF, which is read if pypdfium2 is installed: pip install "localllm[documents]"'


def read_page(data: bytes, page: int, *, max_pixels: int, is_low: bool) -> tuple[int, int, bytes]:
    """Width, height, and 3 bytes a pixel, over white. `page`: from 1. Raises `Unreadable`."""
    if importlib.util.find_spec("pypdfium2") is None:
        raise Unreadable(NEEDS)
    import pypdfium2

    try:
        with pypdfium2.PdfDocument(data) as document:
            if not 1 <= page <= len(document):
                raise Unreadable(f"is page {page} of a PDF that has {len(document)}")
            shown = document[page - 1]
            width, height = shown.get_size()
            scale = _scale(width, height, max_pixels, LOW_SIDE if is_low else MAX_SIDE)
            image = padded(shown.render(scale=scale, rev_byteorder=True).to_pil().convert("RGB"))
            shown.close()
    except (pypdfium2.PdfiumError, ValueError) as error:
        raise Unreadable(f"is a page of a PDF that cannot be shown: {error}") from None
    return image.width, image.height, image.tobytes()


def _scale(width: float, height: float, max_pixels: int, side: int) -> float:
    """Pixels for each point."""
    longest, shortest = max(width, height), min(width, height)
    if not shortest > 0 or longest > 10**6 or longest / shortest > MAX_ASPECT:
        raise Unreadable(f"is a page of {width:g} x {height:g} points, which is not shown")
    return float(min(side / longest, (max_pixels / (width * height)) ** 0.5))
