"""Tests for other packages to inherit: the laws that readers, reports and definitions of operators keep."""
