"""Resolved tables → dispatch tables in C++ and Python, and the manifest of kernel images."""
