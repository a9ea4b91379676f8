"""A run that does not use the plugin pays nothing for it and sees nothing of it."""

from __future__ import annotations

import re
import sys

import pytest

HEAVY = ("numpy", "scipy", "rich")


@pytest.mark.e2e
def test_a_dormant_run_imports_nothing_heavy(pytester):
    pytester.makepyfile(
        f"""
        import sys

        def test_nothing_heavy_is_loaded(pytestconfig):
            assert pytestconfig.pluginmanager.hasplugin("msdump")
            assert not [name for name in {HEAVY!r} if name in sys.modules]
            assert "pytest_msdump.core.compare" not in sys.modules
        """
    )
    pytester.runpytest_subprocess().assert_outcomes(passed=1)


@pytest.mark.e2e
def test_a_dormant_run_prints_and_writes_what_it_does_without_the_plugin(pytester):
    pytester.makepyfile("def test_something(): pass")
    seen = []
    for more in ((), ("-p", "no:msdump")):
        result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *more)
        result.assert_outcomes(passed=1)
        lines = [re.sub(r"\d+\.\d+s", "", line) for line in result.stdout.lines]
        # pytester keeps a folder for each run.
        files = {path.name for path in pytester.path.iterdir() if not path.name.startswith("runpytest-")}
        # pytest lists the plugins that it has loaded.
        seen.append(([line for line in lines if not line.startswith("plugins:")], result.stderr.lines, files))
    with_plugin, without = seen
    assert with_plugin == without


@pytest.mark.e2e
def test_p_no_msdump_switches_everything_off(pytester):
    pytester.makepyfile("def test_something(): pass")
    (pytester.path / "msdump.toml").write_text("[msdump]\nnonsense = 1\n", "utf-8")
    pytester.runpytest_subprocess("-p", "no:msdump").assert_outcomes(passed=1)


@pytest.mark.e2e
def test_importing_the_package_is_cheap(pytester):
    code = f"import pytest_msdump, sys; sys.exit(any(name in sys.modules for name in {(*HEAVY, 'pytest')!r}))"
    assert pytester.run(sys.executable, "-c", code).ret == 0
