"""shrink: a screenshot as a PNG of at most 256 colours, a third of the browser's own in size.

The browser reads its picture and picks the colours, so that no library for pictures is needed; written after the PNG
specification (W3C, third edition), section 11.2.
"""

import base64
import struct
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Page

_TO_PALETTE = """
async encoded => {
  const bytes = Uint8Array.from(atob(encoded), character => character.charCodeAt(0));
  const picture = await createImageBitmap(new Blob([bytes], {type: "image/png"}));
  const canvas = new OffscreenCanvas(picture.width, picture.height).getContext("2d");
  canvas.drawImage(picture, 0, 0);
  const pixels = new Uint32Array(canvas.getImageData(0, 0, picture.width, picture.height).data.buffer);
  const counts = new Map();
  for (const pixel of pixels) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const palette = [...counts].sort((a, b) => b[1] - a[1]).slice(0, 256).map(([pixel]) => pixel);
  const places = new Map(palette.map((pixel, place) => [pixel, place]));
  const parts = pixel => [pixel & 255, pixel >> 8 & 255, pixel >> 16 & 255];
  const nearest = pixel => {
    const [r, g, b] = parts(pixel);
    let best = 0, least = Infinity;
    palette.forEach((other, place) => {
      const [x, y, z] = parts(other), distance = (r - x) ** 2 + (g - y) ** 2 + (b - z) ** 2;
      if (distance < least) [best, least] = [place, distance];
    });
    return best;
  };
  const indexed = new Uint8Array(pixels.length);
  pixels.forEach((pixel, at) => {
    let place = places.get(pixel);
    if (place === undefined) places.set(pixel, place = nearest(pixel));
    indexed[at] = place;
  });
  let text = "";
  for (let at = 0; at < indexed.length; at += 32768)
    text += String.fromCharCode(...indexed.subarray(at, at + 32768));
  return {width: picture.width, height: picture.height, palette: palette.flatMap(parts), indexed: btoa(text)};
}
"""


def shrink(blank: "Page", picture: bytes) -> bytes:
    """`blank`: a page at about:blank, whose rules allow scripts."""
    found = blank.evaluate(_TO_PALETTE, base64.b64encode(picture).decode())
    width, height = found["width"], found["height"]
    indexed = base64.b64decode(found["indexed"])
    lines = b"".join(b"\0" + indexed[at : at + width] for at in range(0, width * height, width))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        (
            _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)),
            _chunk(b"PLTE", bytes(found["palette"])),
            _chunk(b"IDAT", zlib.compress(lines, 9)),
            _chunk(b"IEND", b""),
        )
    )


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
