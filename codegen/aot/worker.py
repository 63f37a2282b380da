"""The program that compiles: `python -m codegen.aot.worker`, one line of JSON in, one out, until the input ends.

    {"ask": "compiler", "targets": [[back end, processor]…]}  →  {"compilers": [name…]}
    {"ask": "kernels"}  →  {"content": the digest of the kernels' sources}, with the kernels imported
    {"ask": "image", "spec": {…}, "file": "where to write the image"}  →  {"result": {…}}

Replies go to what was standard output at the start. Whatever the compiler prints goes to standard error.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from codegen.aot.compile import compile_spec, compiler_id
from codegen.aot.sources import Sources


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """The reply to a request. Raises OSError when the image cannot be written."""
    if request["ask"] == "compiler":
        return {"compilers": [compiler_id(backend, processor) for backend, processor in request["targets"]]}
    if request["ask"] == "kernels":
        own = Sources()
        for module in sorted({kernel.module for kernel in own.kernels.values()}):
            import_module(module)
        return {"content": own.content}
    compiled = compile_spec(request["spec"])
    if compiled.data:
        Path(request["file"]).write_bytes(compiled.data)
    return {"result": compiled.result.json()}


def main() -> None:
    """Answer requests until there are no more."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    for line in sys.stdin:
        replies.write(json.dumps(answer(json.loads(line))) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
