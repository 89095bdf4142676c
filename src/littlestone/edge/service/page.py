"""The page: the published rule on a wall, live. One HTML file that asks no other server for
anything; a browser runs this script and this style and no other, whatever the data holds."""

import base64
import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter
from starlette.responses import HTMLResponse, Response

router = APIRouter()


class Page(NamedTuple):
    """The file, and what a browser may do with it."""

    text: str
    policy: str


@cache
def the_page() -> Page:
    """The page; it holds nothing of the learner, which the script asks for."""
    edge = files("littlestone.edge")
    own = edge.joinpath("service")
    sheets = edge.joinpath("colours.css"), own.joinpath("page.css")
    style = "".join(sheet.read_text("utf-8") for sheet in sheets)
    script = own.joinpath("page.js").read_text("utf-8")
    text = own.joinpath("page.html").read_text("utf-8")
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )
    return Page(text.replace("{style}", style).replace("{script}", script), policy)


def _hash(text: str) -> str:
    """How a policy names a text that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@router.get("/", include_in_schema=False)
async def page() -> Response:
    """The page."""
    text, policy = the_page()
    return HTMLResponse(text, headers={"Content-Security-Policy": policy})
