"""Kernel images ahead of time: compiled in worker processes, packed, recorded beside the tables, and checked.

Only `worker` and `compile`, which run in processes of their own, import the compiler.
"""

from codegen.aot.build import Compilation, Workshop, compile_specs
from codegen.aot.folder import BuildFolder
from codegen.aot.pack import Pack, open_pack, read_pack, verify_pack
from codegen.aot.resources import Record, read_resources, update_resources
from codegen.aot.result import Resources, Result
from codegen.aot.sources import Sources
from codegen.aot.spec import Spec, make_spec
from codegen.aot.target import Target, target_of

__all__ = [
    "BuildFolder",
    "Compilation",
    "Pack",
    "Record",
    "Resources",
    "Result",
    "Sources",
    "Spec",
    "Target",
    "Workshop",
    "compile_specs",
    "make_spec",
    "open_pack",
    "read_pack",
    "read_resources",
    "target_of",
    "update_resources",
    "verify_pack",
]
