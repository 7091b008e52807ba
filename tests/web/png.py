"""Reading a picture of the page's."""

from __future__ import annotations

import struct
import zlib

import numpy as np
from numpy.typing import NDArray


def read_png(image: bytes) -> NDArray[np.uint8]:
    """The cells of an image with a palette, every checksum of which is right."""
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    chunks, at = {}, 8
    while at < len(image):
        (size,) = struct.unpack(">I", image[at : at + 4])
        kind, data = image[at + 4 : at + 8], image[at + 8 : at + 8 + size]
        assert struct.unpack(">I", image[at + 8 + size : at + 12 + size]) == (zlib.crc32(kind + data),)
        chunks[kind] = data
        at += 12 + size
    columns, rows = struct.unpack(">II", chunks[b"IHDR"][:8])
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, columns + 1)
    assert not lines[:, 0].any()
    assert lines.max() < len(chunks[b"tRNS"]) == len(chunks[b"PLTE"]) // 3
    return lines[:, 1:]
