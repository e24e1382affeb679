"""What every drawing of the charts must be, whatever it was drawn from."""

import re
from xml.etree import ElementTree

from hypothesis import strategies as st

SVG = "{http://www.w3.org/2000/svg}"

HOSTILE = (
    "<script>alert(1)</script>",
    "\"' onload='alert(1)' x=\"",
    "]]><!--<style>*{display:none}</style>",
    "\x00\x08\x1b[31m\ud800\ufffe\u202e\u2066\nline\ttab",
    "x" * 10_000,
    "&<>\"'" * 2_000,
    "𝔸漢" * 5_000,
    "a" + "\u0301" * 5_000,
    "",
)

hostile_text = st.one_of(st.sampled_from(HOSTILE), st.text(alphabet=st.characters(), max_size=40))
any_float = st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True), st.floats(0.1, 10.0))


def check_drawing(drawing: str) -> ElementTree.Element:
    """The root, if the drawing is well formed, runs nothing, says what it shows, and draws inside its view box."""
    assert len(drawing.encode()) <= 60_000
    root = ElementTree.fromstring(drawing)
    assert root.tag == f"{SVG}svg"
    for part in root.iter():
        assert part.tag.removeprefix(SVG) in {"svg", "title", "desc", "g", "a", "path", "circle", "rect", "text"}
        for name in part.attrib:
            assert not name.startswith("on")
            assert name not in {"style", "id"}
    links = list(root.iter(f"{SVG}a"))
    assert root.get("role") == ("group" if links else "img")
    assert all(link.get("href") and link.get("aria-label") for link in links)
    assert root[0].tag == f"{SVG}title"
    assert root[1].tag == f"{SVG}desc"
    assert root[1].text
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for x, y in marks_of(root):
        assert -1 <= x <= width + 1
        assert -1 <= y <= height + 1
    return root


def marks_of(root: ElementTree.Element) -> list[tuple[float, float]]:
    """Where circles, boxes, texts and the absolute starts of paths lie. Slanted names start in their translation."""
    found: list[tuple[float, float]] = []
    for part in root.iter():
        if "transform" in part.attrib:
            x, y = re.findall(r"-?[\d.]+", part.attrib["transform"])[:2]
            found.append((float(x), float(y)))
        for across, down in (("cx", "cy"), ("x", "y")):
            if across in part.attrib:
                found.append((float(part.attrib[across]), float(part.attrib[down])))
        if part.tag == f"{SVG}rect":
            found.append(
                (
                    float(part.attrib["x"]) + float(part.attrib["width"]),
                    float(part.attrib["y"]) + float(part.attrib["height"]),
                )
            )
        found += [(float(x), float(y)) for x, y in re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", part.get("d", ""))]
        found += [(float(x), 0.0) for x in re.findall(r"H(-?[\d.]+)", part.get("d", ""))]
        found += [(0.0, float(y)) for y in re.findall(r"V(-?[\d.]+)", part.get("d", ""))]
    return found


def texts_of(root: ElementTree.Element, kind: str = "text") -> list[str]:
    return [part.text or "" for part in root.iter(f"{SVG}{kind}")]


def of_class(root: ElementTree.Element, kind: str) -> list[ElementTree.Element]:
    return [part for part in root.iter() if kind in part.get("class", "").split()]
