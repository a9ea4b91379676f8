"""Dump configurations: what MindSpore or CANN would make of one, in sentences; and new ones."""
