"""The documentation site: Sphinx reads the Markdown pages as they are on GitHub.

``.ci/run docs`` builds it twice: English from ``docs/``, and Chinese from ``docs/zh/`` into ``zh/`` below the English
site.

    sphinx-build -W --keep-going docs site
    sphinx-build -W --keep-going -D language=zh_CN -c docs docs/zh site/zh

What this file adds to MyST: tables of the program (`tables`), links to files outside of the pages, which become links
to the repository, the contents as the navigation, and the switch between the languages.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from os.path import relpath
from pathlib import Path
from typing import Any

import tomllib
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

DOCS = Path(__file__).parent
ROOT = DOCS.parent
CHINESE = DOCS / "zh"
sys.path.insert(0, str(DOCS))

from tables import expand  # noqa: E402 - found by the line above

_PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]

project = "pytest-msdump"
author = "The pytest-msdump authors"
release = _PROJECT["version"]
# The first address that the package gives of its repository.
REPOSITORY = _PROJECT.get("urls", {}).get("Repository", "https://github.com/pytest-msdump/pytest-msdump").rstrip("/")

extensions = ["myst_parser", "sphinx.ext.autodoc", "numpydoc"]
exclude_patterns = ["_build", "_static", "_templates"]
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
# `english:` stands for a page of the other site while a page is read; see `_release_links`.
myst_url_schemes = {"http": None, "https": None, "mailto": None, "english": None}
# Console blocks hold what programs print, which no lexer has rules for.
suppress_warnings = ["misc.highlighting_failure"]

# Names in docstrings stand in single backticks, and most are parameters: shown as code, not looked up. So there is no
# ``-n`` either, which would ask for a page of each type of numpy and of each private name in a signature.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "none"
numpydoc_show_class_members = False

_TITLES = {"en": f"pytest-msdump {release}", "zh_CN": f"pytest-msdump {release} 文档"}


def setup(app: Sphinx) -> None:
    """Register what this file adds."""
    app.connect("config-inited", _choose_language)
    app.connect("source-read", _prepare)
    app.connect("doctree-read", _release_links)
    app.connect("html-page-context", _offer_other_language)


def _choose_language(app: Sphinx, config: Config) -> None:
    config["html_title"] = _TITLES[config.language]
    if app.srcdir != CHINESE:
        config["exclude_patterns"].append("zh")
    else:
        config["html_theme_options"]["source_directory"] = "docs/zh/"


# -- pages as they are read --------------------------------------------------------------------------------------------

_FENCE = re.compile(r"^(`{3,}).*?^\1$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")


def _prepare(app: Sphinx, docname: str, content: list[str]) -> None:
    """Give a page its tables, links that lead somewhere on the site, and the index its navigation."""
    page = Path(app.srcdir, docname).with_suffix(".md")
    text = expand(content[0], app.config.language)
    text = outside_fences(text, lambda part: _LINK.sub(lambda link: f"]({_target(link[1], page, app)})", part))
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


def _target(link: str, page: Path, app: Sphinx) -> str:
    """Return where a link of a page leads on the site: what is no page of it is a file of the repository."""
    path, hash_sign, anchor = link.partition("#")
    if "//" in link or not path:
        return link
    file = (page.parent / path).resolve()
    if file.is_relative_to(app.srcdir) and file.suffix == ".md":
        return link
    if file.is_relative_to(DOCS) and not file.is_relative_to(CHINESE) and file.suffix == ".md":
        return f"english:{path.removesuffix('.md')}.html{hash_sign}{anchor}"
    kind = "tree" if file.is_dir() else "blob"
    return f"{REPOSITORY}/{kind}/main/{file.relative_to(ROOT).as_posix()}{hash_sign}{anchor}"


def _release_links(_app: Sphinx, tree: nodes.document) -> None:
    """Make relative links of those to a page of the English site, which this build does not know."""
    for node in tree.findall(nodes.reference):
        if node.get("refuri", "").startswith("english:"):
            node["refuri"] = node["refuri"].removeprefix("english:")


def navigation(contents: str) -> str:
    """Return a toctree for each section of the contents, of the pages that it links to."""
    trees = ["", "```{toctree}", ":hidden:", "", "contents", "```"]
    for section in re.split(r"^## ", contents, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        pages = [link for link in _LINK.findall(body) if link.endswith(".md") and not link.startswith("..")]
        if pages:
            trees += ["", "```{toctree}", ":hidden:", f":caption: {title}", "", *pages, "```"]
    return "\n".join([*trees, ""])


# -- the switch --------------------------------------------------------------------------------------------------------


def _offer_other_language(app: Sphinx, name: str, _template: str, context: dict[str, Any], _tree: object) -> None:
    """Tell the template where this page is in the other language, or else that language's landing page."""
    is_chinese = app.srcdir == CHINESE
    here, there, folder = ("zh", ".", DOCS) if is_chinese else (".", "zh", CHINESE)
    counterpart = name if (folder / f"{name}.md").exists() else "index"
    context["other_language"] = {
        "url": relpath(f"{there}/{counterpart}.html", f"{here}/{name}/.."),
        "name": "English" if is_chinese else "中文",
        "code": "en" if is_chinese else "zh-CN",
    }
