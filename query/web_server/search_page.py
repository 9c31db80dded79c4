"""The search page and its content security policy."""

from __future__ import annotations

import base64
import re
from hashlib import sha256
from importlib.resources import files

from fastapi.responses import HTMLResponse


class SearchPage:
    """The page, and its policy with the hashes of the page's style and script."""

    def __init__(self) -> None:
        self.html = (files("query.web_server") / "search_page.html").read_text(encoding="utf-8")
        self.policy = "; ".join(
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

    async def answer(self) -> HTMLResponse:
        """The page as a response, with its policy."""
        return HTMLResponse(self.html, headers={"Content-Security-Policy": self.policy, "Cache-Control": "no-cache"})


def _hashes(html: str, tag: str) -> str:
    elements = re.findall(rf"<{tag}>(.*?)</{tag}>", html, re.DOTALL)
    return " ".join(f"'sha256-{base64.b64encode(sha256(element.encode()).digest()).decode()}'" for element in elements)
