"""Checks of a whole database: a table of rules, the findings they make, the baseline and the reports."""
