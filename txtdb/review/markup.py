"""HTML from data: text is escaped unless it was made here."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from html import escape

# How every page begins.
PAGE_START = b"<!DOCTYPE html>"


class Markup(str):
    """A piece of HTML. Only `element` and `join` make one, so that any other text is escaped."""

    __slots__ = ()


def element(name: str, *content: str, **attributes: str) -> Markup:
    """One element with its content; a trailing underscore of an attribute's name is dropped, others become dashes."""
    given = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{given}>{join(*content)}</{name}>")


def join(*content: str) -> Markup:
    """Pieces one after the other."""
    return Markup("".join(piece if isinstance(piece, Markup) else escape(piece) for piece in content))


def content_policy(script: str, style: str) -> str:
    """A content security policy that allows one script and one style, named by digest, and nothing else."""
    allowed = f"script-src {_source(script)}; style-src {_source(style)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"
