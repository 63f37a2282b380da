"""The names of kernel images."""

from __future__ import annotations

from codegen.names import MAX_NAME, fnv1a, joined_name, pieces


def test_a_name_is_made_of_its_values():
    assert (
        joined_name("attn_fwd", pieces(["bf16", 0, 128, False]), pieces([64, True]))
        == "attn_fwd-bf16-0-128-false-64-true"
    )


def test_a_minus_sign_is_no_separator():
    assert pieces([-1, 2]) == "m1-2"
    assert pieces([1, -2]) == "1-m2"


def test_a_config_without_binary_fields_adds_nothing():
    assert joined_name("f", pieces([16]), pieces([])) == "f-16"


def test_the_hash_is_fnv1a():
    # The two values of the definition's authors (Fowler, Noll, Vo) for the empty text and for `a`.
    assert fnv1a(b"") == 0xCBF29CE484222325
    assert fnv1a(b"a") == 0xAF63DC4C8601EC8C


def test_a_long_name_keeps_its_start_and_ends_with_its_digest():
    text = "f-" + "x" * 94
    assert joined_name("f", "x" * 94) == text
    longer = joined_name("f", "x" * 95)
    assert len(longer) == MAX_NAME == 96
    assert longer == f"f-{'x' * 77}-{fnv1a(b'f-' + b'x' * 95):016x}"
    assert joined_name("f", "x" * 94 + "y") != longer
