"""Sections of the HTML reports on an evaluation."""
