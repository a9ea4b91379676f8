"""The documentation site: Sphinx reads the Markdown pages as they are on GitHub.

``.ci/run docs`` builds it twice, in English and, below that, in Chinese: with the pages of ``docs/zh/`` in the place of
those that they translate, and the English ones where there is no translation.

    sphinx-build -W --keep-going docs site
    sphinx-build -W --keep-going -D language=zh_CN docs site/zh

What this file adds to MyST: tables of the program (`tables`), links to files outside of the pages, which become links
to the repository, names above files that a page shows, the contents as the navigation, whose sections fold, and the
switch between the languages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from os.path import relpath
from pathlib import Path
from typing import Any

import tomllib
from sphinx.application import Sphinx
from sphinx.locale import _ as usual_words

DOCS = Path(__file__).parent
ROOT = DOCS.parent
CHINESE = DOCS / "zh"
sys.path.insert(0, str(DOCS))

from tables import expand  # noqa: E402 - found by the line above

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "pytest-msdump"
author = "The pytest-msdump authors"
release = _PROJECT["version"]
html_title = project
# The first address that the package gives of its repository.
REPOSITORY = _PROJECT.get("urls", {}).get("Repository", "https://github.com/pytest-msdump/pytest-msdump").rstrip("/")

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_static", "_templates", "zh"]
templates_path = ["_templates"]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_theme = "furo"
html_copy_source = False
# Flags and quoted words stay as they are typed.
smartquotes = False
html_show_sphinx = False
html_show_copyright = False
html_theme_options = {"source_repository": REPOSITORY, "source_branch": "main", "source_directory": "docs/"}

# As GitHub names them: lower case, hyphens.
myst_heading_anchors = 5
# Console blocks hold what programs print, which no lexer has rules for.
suppress_warnings = ["misc.highlighting_failure"]

# Names in docstrings stand in single backticks, and most are parameters: shown as code, not looked up. So there is no
# ``-n`` either, which would ask for a page of each type of numpy and of each private name in a signature.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

# What the theme says in English only.
_THEME_WORDS = {
    "Back to top": "回到顶部",
    "Edit this page": "编辑本页",
    "Home": "首页",
    "Next": "下一页",
    "On this page": "本页内容",
    "Previous": "上一页",
    "Skip to content": "跳到正文",
    "View this page": "查看源文件",
}


def setup(app: Sphinx) -> None:
    """Register what this file adds."""
    app.connect("source-read", _prepare)
    app.connect("html-page-context", _offer_other_language)
    # Behind the theme, which makes the navigation of a page at this event.
    app.connect("html-page-context", _fold_navigation, priority=900)


# -- pages as they are read --------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
# A fence that a comment names as a file, see tests/docs_pages.py.
_NAMED_FENCE = re.compile(r"^<!-- (?:file|project): (\S+) -->\n(`{3,})(\w+)$", re.MULTILINE)


def _prepare(app: Sphinx, docname: str, content: list[str]) -> None:
    """Give a page its translation, its tables, links that lead somewhere on the site, and the index its navigation."""
    page = DOCS / f"{docname}.md"
    if app.config.language == "zh_CN" and (CHINESE / f"{docname}.md").exists():
        page = CHINESE / f"{docname}.md"
        app.env.note_dependency(page)
        content[0] = page.read_text(encoding="utf-8")
    text = _NAMED_FENCE.sub(r"\2{code-block} \3\n:caption: \1\n", expand(content[0], app.config.language))
    text = outside_fences(
        text, lambda part: _LINK.sub(lambda link: f"]({_target(link[1], page, app.config.language)})", part)
    )
    if docname == app.config.root_doc:
        text += navigation((page.parent / "contents.md").read_text(encoding="utf-8"))
    content[0] = text


def outside_fences(text: str, change: Callable[[str], str]) -> str:
    """Return the text with all of it changed but its fenced blocks."""
    parts, end = [], 0
    for fence in _FENCE.finditer(text):
        parts += [change(text[end : fence.start()]), fence[0]]
        end = fence.end()
    return "".join([*parts, change(text[end:])])


def _target(link: str, page: Path, language: str) -> str:
    """Return where a link of a page leads on the site: what is no page of it is a file of the repository."""
    path, hash_sign, anchor = link.partition("#")
    if "//" in link or not path:
        return link
    file = (page.parent / path).resolve()
    if file.is_relative_to(DOCS) and file.suffix == ".md":
        name = file.relative_to(CHINESE if file.is_relative_to(CHINESE) else DOCS)
        if language == "zh_CN" and (CHINESE / name).exists():
            # The headings of a translation are those of the original, in other words.
            anchor = dict(zip(_anchors(DOCS / name), _anchors(CHINESE / name), strict=True)).get(anchor, anchor)
        return f"/{name.as_posix()}{hash_sign}{anchor}"
    if file.is_relative_to(DOCS / "_static"):
        return f"/{file.relative_to(DOCS).as_posix()}"
    kind = "tree" if file.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{file.relative_to(ROOT).as_posix()}{hash_sign}{anchor}"


def _anchors(page: Path) -> list[str]:
    """The anchors of a page's headings, in order."""
    titles = re.findall(r"^#+ (.+)$", _FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return [re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles]


def navigation(contents: str) -> str:
    """Return a toctree for each section of the contents, titled as in these, which are in the language of the site.

    Which pages there are, and their order, is in the English contents, which a test holds complete.
    """
    titles = {path.removeprefix("../"): title for title, path in re.findall(r"\[(.+?)\]\(([^)\s]+\.md)\)", contents)}
    sections = re.split(r"^## ", (DOCS / "contents.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    trees = ["", "```{toctree}", ":hidden:", "", "contents", "```"]
    for caption, section in zip(re.findall(r"^## (.+)$", contents, re.MULTILINE), sections, strict=True):
        pages = [link for link in _LINK.findall(section) if link.endswith(".md")]
        entries = [f"{titles[page]} <{page}>" if page in titles else page for page in pages]
        trees += ["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *entries, "```"]
    return "\n".join([*trees, ""])


_SECTION = re.compile(r'<p class="caption"[^>]*><span class="caption-text">(.*?)</span></p>\s*(<ul.*?>)')


def _fold_navigation(app: Sphinx, name: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Make each section of the navigation one that folds; that of the page is open, on the landing page the first."""
    before, *sections = re.split(r'(?=<p class="caption")', context.get("furo_navigation_tree", ""))
    is_landing = name == app.config.root_doc
    for number, section in enumerate(sections):
        is_open = number == 0 if is_landing else "current-page" in section
        opening = f"<details{' open' if is_open else ''}><summary class='caption'>"
        before += _SECTION.sub(rf"{opening}\1</summary>\2", section) + "</details>"
    context["furo_navigation_tree"] = before


# -- the switch --------------------------------------------------------------------------------------------------------


def _offer_other_language(app: Sphinx, name: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Tell the template where this page is in the other language, or else that language's landing page."""
    is_chinese = app.config.language == "zh_CN"
    is_translated = (CHINESE / f"{name}.md").exists()
    here, there = ("zh", ".") if is_chinese else (".", "zh")
    counterpart = name if is_translated or (is_chinese and (DOCS / f"{name}.md").exists()) else "index"
    context["other_language"] = {
        "url": relpath(f"{there}/{counterpart}.html", f"{here}/{name}/.."),
        "name": "English" if is_chinese else "中文",
        "code": "en" if is_chinese else "zh-CN",
    }
    if is_chinese:
        context["_"] = context["gettext"] = lambda text: _THEME_WORDS.get(text) or usual_words(text)
        if is_translated:
            context["theme_source_directory"] = "docs/zh/"
