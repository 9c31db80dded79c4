"""The search page, made of the files of ``page/``, and its content security policy."""

import base64
import gzip
import json
import re
from hashlib import sha256
from importlib.resources import files

from fastapi import Request
from fastapi.responses import Response

_SCRIPTS = ("words", "address", "settings", "search", "hits", "reading", "start")
"""Files of the page's script, in their order."""


class SearchPage:
    """The page as one file, and its policy with the hashes of the page's style and script.

    Attributes:
        sentences: what the page says, by language and by the sentence's name; ``stop`` are words of grammar, which are
            not marked in passages.
    """

    def __init__(self) -> None:
        folder = files("query.web_server") / "page"
        self.sentences: dict[str, dict[str, str]] = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
        script = "".join((folder / f"{name}.js").read_text(encoding="utf-8") for name in _SCRIPTS)
        data = json.dumps(self.sentences, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
        html = (folder / "page.html").read_text(encoding="utf-8")
        html = html.replace("<style></style>", f"<style>{(folder / 'page.css').read_text(encoding='utf-8')}</style>")
        html = html.replace("<script></script>", f"<script>{script}</script>")
        self.html = html.replace('id="sentences"></script>', f'id="sentences">{data}</script>')
        self._packed = gzip.compress(self.html.encode(), mtime=0)
        policy = "; ".join(
            (
                "default-src 'none'",
                f"style-src {_hashes(self.html, 'style')}",
                f"script-src {_hashes(self.html, 'script')}",
                "connect-src 'self'",
                "img-src data:",
                "form-action 'self'",
                "base-uri 'none'",
                "frame-ancestors 'none'",
                "require-trusted-types-for 'script'",
            )
        )
        self._headers = {"Content-Security-Policy": policy, "Cache-Control": "no-cache", "Vary": "Accept-Encoding"}

    async def answer(self, request: Request) -> Response:
        """The page as a response with its policy, compressed where the browser reads that."""
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.html, headers=self._headers, media_type="text/html")
        return Response(self._packed, headers={**self._headers, "Content-Encoding": "gzip"}, media_type="text/html")


def _hashes(html: str, tag: str) -> str:
    elements = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(sha256(element.encode()).digest()).decode()}'" for element in elements)
