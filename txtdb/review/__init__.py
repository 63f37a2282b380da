"""The review of a change: its cells with what a reviewer asks about each of them, as data, a page and Markdown."""
