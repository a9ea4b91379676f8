"""A run that does not use the plugin pays nothing for it and sees nothing of it."""

from __future__ import annotations

import sys

HEAVY = ("numpy", "scipy", "rich")
# All that pytest's start pays for where nothing is compared.
DORMANT = {
    "errors",
    "lazy_names",
    "plugin",
    "plugin.fixtures",
    "plugin.hooks",
    "plugin.session",
    "plugin.sources",
    "settings",
    "settings.keywords",
    "settings.options",
}


def test_a_dormant_run_imports_nothing_heavy(pytester):
    pytester.makepyfile(
        f"""
        import sys

        def test_nothing_heavy_is_loaded(pytestconfig):
            assert pytestconfig.pluginmanager.hasplugin("msdump")
            assert not [name for name in {HEAVY!r} if name in sys.modules]
            assert "pytest_msdump.pipeline" not in sys.modules
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_dormant_run_loads_what_declares_options_and_fixtures_and_no_more(pytester):
    pytester.makepyfile(
        f"""
        import sys

        def test_loaded():
            loaded = {{name.partition(".")[2] for name in sys.modules if name.split(".")[0] == "pytest_msdump"}}
            assert loaded == {{"", *{DORMANT!r}}}
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


def test_a_dormant_run_refuses_an_unknown_language(pytester):
    pytester.makepyfile("def test_something(): pass")
    result = pytester.runpytest_subprocess("-o", "msdump_lang=tlh")
    assert result.ret == 4
    result.stderr.fnmatch_lines(["*msdump_lang: there is no language 'tlh'*"])


def test_a_dormant_run_prints_nothing_of_ours(pytester):
    pytester.makepyfile("def test_something(): pass")
    with_plugin = pytester.runpytest_subprocess()
    for line in with_plugin.stdout.lines:
        assert "msdump" not in line or line.startswith("plugins:") or "test_a_dormant_run" in line
    assert not (pytester.path / "msdump-report").exists()


def test_p_no_msdump_switches_everything_off(pytester):
    pytester.makepyfile("def test_something(): pass")
    (pytester.path / "msdump.toml").write_text("[msdump]\nnonsense = 1\n", "utf-8")
    pytester.runpytest_subprocess("-p", "no:msdump").assert_outcomes(passed=1)


def test_importing_the_package_is_cheap(pytester):
    code = f"import pytest_msdump, sys; sys.exit(any(name in sys.modules for name in {(*HEAVY, 'pytest')!r}))"
    assert pytester.run(sys.executable, "-c", code).ret == 0
