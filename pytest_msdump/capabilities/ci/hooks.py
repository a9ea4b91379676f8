"""What this capability adds."""

NEEDS = ("causes",)

REPORTS = {
    "md": {
        "class": "pytest_msdump.capabilities.ci.markdown:MarkdownReport",
        "file": "summary.md",
        "begins": "## msdump: ",
    },
    "github": {
        "class": "pytest_msdump.capabilities.ci.annotations:GithubReport",
        "file": "",
        "of_run": True,
        "after": "md",
    },
    "gitlab": {
        "class": "pytest_msdump.capabilities.ci.annotations:GitlabReport",
        "file": "gl-code-quality.json",
        "begins": "msdump",
        "of_run": True,
        "after": "github",
    },
}
