"""Texts that try to become markup, wherever a database lets a text through."""

from __future__ import annotations

import json

from tests.build import F1, patch
from tests.review.cases import Files

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
MARKS = "`@everyone` [link](javascript:alert(1)) |pipe| **bold** &lt;b&gt; ${title} \u2028 \u202e"


def hostile_files() -> Files:
    """A patch whose name, reason and origin, pins whose reason, and evidence whose content are hostile."""
    name = "0010-<img src=x onerror=alert(1)>&quot;'`|"
    directives = (f"origin hand {HOSTILE}", f"why {HOSTILE} {MARKS}")
    pins = (
        '[[pin]]\niface = "attn_fwd"\nfunctional = { dtype = "fp16", causal = 0, head_dim = 64 }\n'
        f"at = {{ seqlen_q = 64, seqlen_k = 128 }}\nreason = {json.dumps(HOSTILE)}\nuntil = 2030-01-01\n"
        "config = { BLOCK_M = 64, PRE_LOAD_V = true, num_warps = 4, num_stages = 1 }\n"
    )
    return {
        f"gfxB/attn_fwd.{name}.dbpatch": patch("gfxB", {F1: ["64 b . c"]}, directives=directives),
        "gfxB/evidence/<svg onload=alert(1)>.json": json.dumps({"evidence": 1, HOSTILE: HOSTILE}),
        "gfxB/pins.toml": pins,
    }
