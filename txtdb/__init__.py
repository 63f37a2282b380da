"""Tuning databases of GPU kernels as text: tables, patch layers, checks, dispatch tables."""

from txtdb.faults import Fault, FaultError, Severity, Span
from txtdb.layers.database import Database, load, open_database
from txtdb.layers.resolved import (
    NO_KERNEL,
    UNSUPPORTED,
    Absent,
    Config,
    Explanation,
    LookupFault,
    ResolvedTable,
)

__version__ = "0.1.0"

__all__ = [
    "NO_KERNEL",
    "UNSUPPORTED",
    "Absent",
    "Config",
    "Database",
    "Explanation",
    "Fault",
    "FaultError",
    "LookupFault",
    "ResolvedTable",
    "Severity",
    "Span",
    "__version__",
    "load",
    "open_database",
]
