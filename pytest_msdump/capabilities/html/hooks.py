"""What this capability adds."""

NEEDS = ("causes",)

OFFERS = {"page": "pytest_msdump.capabilities.html.page", "spread": "pytest_msdump.capabilities.html.spread"}

REPORTS = {
    "html": {
        "class": "pytest_msdump.capabilities.html.page:HtmlReport",
        "file": "index.html",
        "begins": '<meta name="generator" content="pytest-msdump">',
        "after": "csv",
    },
}
