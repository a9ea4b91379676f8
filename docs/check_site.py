"""Check the links of the built site: ``python docs/check_site.py SITE``.

Every link to a page, an anchor or a file of the repository must lead to one, and a picture lies on the site. Of links
to other sites only the form is checked: nothing is fetched.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

__all__ = ["problems"]

ROOT = Path(__file__).parent.parent


class _Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.pictures: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        self.pictures |= {named.get("src") or ""} if tag == "img" else set()
        self.anchors.update(value for name in ("id", "name") if (value := named.get(name)))
        self.links += [value for name in ("href", "src") if (value := named.get(name))]


@cache
def _read(file: Path) -> _Page:
    return _Page(file.read_text(encoding="utf-8"))


def problems(site: Path, repository: str) -> list[str]:
    """Return a line for each link of the site that leads nowhere; `repository` is the address of our own files."""
    return [
        f"{page.relative_to(site)}: {link}: {problem}"
        for page in sorted(site.rglob("*.html"))
        for link in dict.fromkeys(_read(page).links)
        for problem in _problems(page, link, repository)
    ]


def _problems(page: Path, link: str, repository: str) -> Iterator[str]:
    address = urlsplit(link)
    files = f"{repository}/"
    if link.startswith(files) and link in _read(page).pictures:
        yield "shows a page of the repository, which is no picture"
    elif link.startswith(files):
        kind, _, path = link.removeprefix(files).partition("/main/")
        path = unquote(urlsplit(path).path)
        if kind not in ("blob", "tree", "edit") or not (ROOT / path).exists():
            yield f"there is no {path or kind} in the repository"
    elif address.scheme == "mailto" or (address.scheme in ("http", "https") and address.netloc and " " not in link):
        return
    elif address.scheme or address.netloc:
        yield "no address"
    else:
        file = page.parent / unquote(address.path) if address.path else page
        if not file.exists():
            yield f"there is no {unquote(address.path)}"
        elif address.fragment and file.suffix == ".html" and unquote(address.fragment) not in _read(file).anchors:
            yield f"{file.name} has no anchor {address.fragment}"


if __name__ == "__main__":
    from conf import REPOSITORY

    found = problems(Path(sys.argv[1]).resolve(), REPOSITORY)
    print("\n".join(found) or "every link leads somewhere; links to other sites were not fetched")
    raise SystemExit(bool(found))
