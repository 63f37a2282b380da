"""Typed records: values, schemas, arch facts, and a file's cells as arrays."""
