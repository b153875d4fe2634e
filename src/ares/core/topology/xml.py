"""XML from tools on this machine, without what can make a small text large."""

from typing import Final
from xml.etree.ElementTree import Element, ParseError, fromstring

_CHARS_MAX: Final = 16 << 20


def read_xml(text: str) -> Element | None:
    """None when it is not XML, or declares entities: no tool does, and they can grow without bound."""
    if len(text) > _CHARS_MAX or "<!ENTITY" in text or "<" not in text:
        return None
    try:
        return fromstring(text[text.index("<") :])
    except (ParseError, ValueError):
        return None
