"""Elements of SVG and HTML, text that is safe to show, and estimates of how wide text is.

Charts and pages are trees of elements, so markup in a text of the input is always escaped.
"""
import unicodedata
import xml.etree.ElementTree as ElementTree

MAX_TEXT = 120  # characters of one text of the input


def element(parent, tag, text=None, /, **attributes):
    """Adds an element to `parent`, or makes a root without one. `class_` becomes "class", and
    `stroke_width` becomes "stroke-width"; attributes that are None are left out."""
    shown = {name.rstrip("_").replace("_", "-"): number(value) if is_number(value) else value
             for name, value in attributes.items() if value is not None}
    if parent is None:
        node = ElementTree.Element(tag, shown)
    else:
        node = ElementTree.SubElement(parent, tag, shown)
    node.text = text
    return node


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number(value):
    """A coordinate: two digits behind the point at most."""
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def to_text(root):
    """Well-formed XML that browsers also read as HTML: no element is closed in its own tag."""
    return ElementTree.tostring(root, encoding="unicode", short_empty_elements=False)


UNSAFE = ("Cc", "Cf", "Cs", "Cn")  # categories of Unicode


def safe_text(value, limit=MAX_TEXT):
    """A text of the input without control characters, unpaired surrogates and marks that change
    the direction of writing. XML allows no control characters, and the others break a page."""
    kept = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(c) in UNSAFE else c
                   for c in value[:limit + 1])
    return kept if len(kept) <= limit else kept[:limit - 1] + "…"


NARROW = set("iljtfr.,:;'|!()[] -")
BROAD = set("mwMW@%—")


def text_width(text, size=12):
    """Estimates the width in pixels, for fonts as wide as DejaVu Sans."""
    width = 0.0
    for c in text:
        if c in NARROW:
            width += 0.4
        elif c in BROAD or unicodedata.east_asian_width(c) in ("W", "F"):
            width += 1.02
        elif c.isupper() or ord(c) > 0x2000:
            width += 0.78
        else:
            width += 0.64
    return width * size


def fit(text, width, size=12):
    """The text, or as much of its beginning as fits, with an ellipsis."""
    if text_width(text, size) <= width:
        return text
    while text and text_width(text + "…", size) > width:
        text = text[:-1]
    return text + "…"
