"""What this capability adds."""

REPORTS = {
    "html": {
        "class": "pytest_msdump.capabilities.html.page:HtmlReport",
        "file": "index.html",
        "begins": '<meta name="generator" content="pytest-msdump">',
        "after": "csv",
    },
}
