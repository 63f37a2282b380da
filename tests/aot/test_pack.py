"""Packs: their bytes, what they belong to, and everything that can be wrong with one."""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
from click.testing import CliRunner

from codegen.aot.checking import pack_faults
from codegen.aot.folder import BuildFolder
from codegen.aot.pack import MAX_IMAGE_BYTES, open_pack, read_pack, verify_pack
from codegen.aot.pack_file import IMAGES, SEAL_LENGTH, begins_pack, seal
from codegen.aot.pack_manifest import manifest_text, read_manifest
from codegen.aot.pack_writing import pack_manifest, write_pack
from codegen.aot.result import OUT_OF_RESOURCES, TIMEOUT
from codegen.aot.sources import FOLDER, Sources
from tests.aot.tiny import PALETTE, failed, fake_pack, fake_tables, make_root, plans_of, table
from txtdb.cli import main
from txtdb.faults import FaultError

A = "attn_fwd-bf16-0-32-false-false-0-32-32-false-0-4-1"
B = "attn_fwd-bf16-0-32-false-false-0-64-32-false-0-4-1"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_root(tmp_path, "gfx942", "gfx950", "sm_90", helper=True)


@pytest.fixture
def pack(root: Path, tmp_path: Path) -> Path:
    return fake_pack(root, tmp_path / "one.pack", "gfx942", "gfx950", "sm_90")


def rules(path: Path) -> set[str]:
    return {fault.rule for fault in verify_pack(path)}


def repacked(pack: Path, change: Callable[[zipfile.ZipFile, dict[str, bytes]], None]) -> Path:
    """The pack, written again after a change of its entries, with a seal that fits."""
    with zipfile.ZipFile(pack) as archive:
        entries = {info.filename: archive.read(info) for info in archive.infolist()}
    path = pack.with_name("changed.pack")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.comment = b"0" * SEAL_LENGTH
        change(archive, entries)
        for name, data in entries.items():
            archive.writestr(name, data)
    seal(path)
    return path


def with_manifest(pack: Path, change: Callable[[dict], None]) -> Path:
    def edit(_: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
        content = json.loads(entries["manifest.json"])
        change(content)
        entries["manifest.json"] = json.dumps(content).encode()

    return repacked(pack, edit)


def test_a_pack_is_told_from_other_zip_files(pack: Path, tmp_path: Path) -> None:
    assert begins_pack(pack.read_bytes()[:100])
    for name in ("a", "manifest.json.bak", "x/manifest.json"):
        with zipfile.ZipFile(tmp_path / "precious.whl", "w") as archive:
            archive.writestr(name, "b")
        assert not begins_pack((tmp_path / "precious.whl").read_bytes()[:100])
    assert not begins_pack(b"PK")


def test_a_build_replaces_nothing_but_a_pack(tmp_path: Path) -> None:
    out = tmp_path / "precious.whl"
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", "b")
    before = out.read_bytes()
    code, text = run("build", make_root(tmp_path, "gfx942"), "--out", out, "--build", tmp_path / "build")
    assert (code, out.read_bytes()) == (2, before)
    assert "which is not replaced" in text


def test_a_pack_replaces_what_a_link_leads_to(pack: Path, tmp_path: Path) -> None:
    _, plans = plans_of(make_root(tmp_path / "again", "gfx942"), "gfx942")
    folder, link = BuildFolder(tmp_path / "build"), tmp_path / "link.pack"
    manifest = pack_manifest(*fake_tables(plans, folder))
    link.symlink_to("target.pack")
    write_pack(link, manifest, folder)
    assert link.is_symlink()
    assert verify_pack(tmp_path / "target.pack") == []
    write_pack(Path("/dev/null"), manifest, folder)
    assert not Path("/dev/null").is_file()


def test_a_sound_pack_says_how_many_images_were_not_built(tmp_path: Path) -> None:
    root, path = make_root(tmp_path, "gfx942"), tmp_path / "one.pack"
    fake_pack(root, path, "gfx942", judge=lambda plan, wanted: failed(TIMEOUT) if wanted.name == B else None)
    assert run("verify", path, root) == (0, f"{path}: sound; 1 image was not built, and is replaced\n")
    assert json.loads(run("verify", path, "--format", "json")[1])["replaced"] == 1


@pytest.mark.parametrize(("name", "near"), [("sm90", "sm_90"), ("SM-90", "sm_90"), ("GFX942", "gfx942"), ("h200", "")])
def test_an_arch_that_the_compiler_does_not_know_may_be_near_one(tmp_path: Path, name: str, near: str) -> None:
    files = {"archs.toml": f'[arch."{name}"]\n', f"{name}/attn_fwd.txtdb": table(name)}
    root = make_root(tmp_path, name, files=files)
    code, text = run("build", root, "--out", tmp_path / "x.pack", "--build", tmp_path / "build")
    assert code == 1, text
    assert f"{name}: the compiler knows no such processor" in text
    assert ("did you mean" in text, f"did you mean {near}? " in text) == (bool(near), bool(near))


def test_a_sound_pack(pack: Path) -> None:
    assert verify_pack(pack) == []


def test_names_lead_to_images(pack: Path, root: Path) -> None:
    digest = plans_of(root, "gfx942")[1][0].digest
    with open_pack(pack, digest) as opened:
        image = opened.image("gfx942/attn_fwd", A)
        assert sha256(opened.data(image)).hexdigest() == image.binary.digest
        assert opened.manifest.tables["gfx942/attn_fwd"].config(image)["BLOCK_M"] == 32
        assert image.signature.arguments[0] == ("Q", "*bf16", 16)
        assert dict(image.signature.fixed) == {"stride_bn": 1}
        with pytest.raises(FaultError, match="no image `nothing`"):
            opened.image("gfx942/attn_fwd", "nothing")
        with pytest.raises(FaultError, match="no image"):
            opened.image("gfx90a/attn_fwd", A)


def test_equal_images_of_functionals_and_archs_are_one_file(pack: Path) -> None:
    """`fake` makes the same bytes of the same config: three configs and a helper, each as hsaco and as cubin."""
    with read_pack(pack)[0] as opened:  # type: ignore[union-attr]
        assert sum(len(own.images) for own in opened.manifest.tables.values()) == 3 * 4 + 3 * 2
        assert len(opened.manifest.files) == 8
        assert len(opened.archive.namelist()) == 9


def test_equal_content_is_equal_bytes(root: Path, tmp_path: Path) -> None:
    """Another folder, another order of archs, another day."""
    one = fake_pack(root, tmp_path / "x" / "one.pack", "gfx942", "sm_90")
    copy = shutil.copytree(root, tmp_path / "elsewhere")
    two = fake_pack(copy, tmp_path / "y" / "other.pack", "sm_90", "gfx942")
    assert one.read_bytes() == two.read_bytes()


def test_an_unlike_table_is_a_fault(pack: Path, root: Path) -> None:
    own = plans_of(root, "gfx942")[1][0].digest
    other = own.replace("sha256:", "sha256:0")[:-1]
    with pytest.raises(FaultError, match="does not belong to the table"):
        open_pack(pack, own, other)
    with pytest.raises(TypeError, match="digest"):
        open_pack(pack)


def test_flipped_bytes_are_found(pack: Path, tmp_path: Path) -> None:
    """Bytes of images, of the manifest, of the directory, and those that no reader looks at."""
    data = pack.read_bytes()
    copy = tmp_path / "flipped.pack"
    for place in [*range(0, len(data), 5), *range(len(data) - 200, len(data))]:
        copy.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert verify_pack(copy), f"byte {place} of {len(data)}"


def test_a_damaged_image_is_named(pack: Path) -> None:
    def edit(_: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
        name = next(name for name in entries if name.startswith(IMAGES))
        entries[name] = b"x" + entries[name][1:]

    (fault,) = verify_pack(repacked(pack, edit))
    assert fault.rule == "pack-damaged"
    assert "image attn_fwd-" in fault.message or "image bwd_preprocess-" in fault.message


def test_every_truncated_file_is_found(pack: Path, tmp_path: Path) -> None:
    data = pack.read_bytes()
    copy = tmp_path / "short.pack"
    for length in range(0, len(data), 7):
        copy.write_bytes(data[:length])
        (fault,) = verify_pack(copy)
        assert fault.rule == ("pack-truncated" if length >= 4 else "pack-unreadable"), length


def test_a_missing_image_is_named(pack: Path) -> None:
    def edit(_: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
        del entries[next(name for name in entries if name.endswith(".hsaco"))]

    faults = verify_pack(repacked(pack, edit))
    assert {fault.rule for fault in faults} == {"pack-missing-image"}
    assert any("gfx942/" in fault.message for fault in faults)


def hostile_path(archive: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
    archive.writestr("images/../../evil.hsaco", b"x")


def absolute_path(archive: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
    archive.writestr("/etc/evil", b"x")


def stray(archive: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
    archive.writestr(f"images/{'0' * 64}.hsaco", b"x")


def duplicate(archive: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
    with pytest.warns(UserWarning, match="Duplicate"):
        for name in list(entries):
            archive.writestr(name, entries[name])
            archive.writestr(name, entries.pop(name))


def bomb(archive: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
    archive.writestr(f"images/{'0' * 64}.hsaco", bytes(MAX_IMAGE_BYTES + 1))


def other_packing(archive: zipfile.ZipFile, entries: dict[str, bytes]) -> None:
    archive.writestr(f"images/{'0' * 64}.hsaco", b"x" * 99, zipfile.ZIP_LZMA)


@pytest.mark.parametrize("change", [hostile_path, absolute_path, stray, duplicate, bomb, other_packing])
def test_what_no_honest_pack_has(pack: Path, change: Callable[[zipfile.ZipFile, dict[str, bytes]], None]) -> None:
    assert rules(repacked(pack, change)) == {"pack-hostile"}


def test_an_entry_that_unpacks_to_more_than_it_says(pack: Path) -> None:
    """The size in the directory is small; the stream behind it is not read any further."""
    path = repacked(pack, lambda archive, entries: archive.writestr(f"images/{'0' * 64}.hsaco", bytes(1 << 24)))
    data = path.read_bytes()
    path.write_bytes(data.replace((1 << 24).to_bytes(4, "little"), (100).to_bytes(4, "little")))
    assert "pack-hostile" in rules(path)


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.update(format=2),
        lambda content: content.pop("tables"),
        lambda content: content["tables"].update({"../x/y": {}}),
        lambda content: content["tables"].update(none=3),
        lambda content: content["tables"]["gfx942/attn_fwd"]["images"].update({"../evil": {}}),
        lambda content: content["tables"]["gfx942/attn_fwd"]["images"][A].update(signature=99),
        lambda content: content["tables"]["gfx942/attn_fwd"]["images"][A].update(file="../../evil.hsaco"),
        lambda content: content["tables"]["gfx942/attn_fwd"]["images"][A]["binary"].update(warps="4"),
        lambda content: content["tables"]["gfx942/attn_fwd"]["images"][A].update(config=[{}]),
        lambda content: content["tables"]["gfx942/attn_fwd"]["images"][A].update(config=[1]),
        lambda content: content["tables"]["gfx942/attn_fwd"]["replaced"].update({A: {}}),
        lambda content: content["signatures"][0]["arguments"][0].__setitem__(2, float("inf")),
        lambda content: content["signatures"][0]["arguments"][0].__setitem__(2, 0),
        lambda content: content["signatures"][0]["arguments"][0].__setitem__(1, ""),
        lambda content: content["signatures"][0]["arguments"].append(content["signatures"][0]["arguments"][0]),
    ],
)
def test_a_manifest_that_is_none(pack: Path, change: Callable[[dict], None]) -> None:
    assert rules(with_manifest(pack, change)) == {"pack-manifest"}


def test_no_manifest(pack: Path) -> None:
    assert rules(repacked(pack, lambda archive, entries: entries.pop("manifest.json"))) == {"pack-manifest"}  # type: ignore[arg-type, return-value]


def test_other_files(tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_text("no pack at all, but long enough to hold the end of one" * 9)
    assert rules(text) == {"pack-unreadable"}
    assert rules(tmp_path / "absent") == {"pack-unreadable"}
    assert rules(tmp_path) == {"pack-unreadable"}


def test_a_manifest_comes_back(root: Path, tmp_path: Path) -> None:
    _, plans = plans_of(root, "gfx942")

    def judge(plan, wanted):
        return failed(TIMEOUT) if wanted.name == B else None

    manifest = pack_manifest(*fake_tables(plans, BuildFolder(tmp_path / "build"), judge))
    assert read_manifest(manifest_text(manifest).encode()) == manifest


def test_a_replaced_image_answers_with_the_other_and_its_config(root: Path, tmp_path: Path) -> None:
    def judge(plan, wanted):
        return failed(OUT_OF_RESOURCES) if wanted.name == B else None

    pack = fake_pack(root, tmp_path / "two.pack", "gfx942", judge=judge)
    assert verify_pack(pack) == []
    with read_pack(pack)[0] as opened:  # type: ignore[union-attr]
        image = opened.image("gfx942/attn_fwd", B)
        substitute = opened.manifest.tables["gfx942/attn_fwd"].replaced[B]
        assert (image.name, image.origin.config[0]) == (A, 32)
        assert (substitute.status, substitute.cells) == (OUT_OF_RESOURCES, ((1024, 256), (1024, 1024)))


def test_an_image_that_left_the_build_folder_is_no_empty_file(root: Path, tmp_path: Path) -> None:
    _, plans = plans_of(root, "gfx942")
    folder = BuildFolder(tmp_path / "build")
    manifest = pack_manifest(*fake_tables(plans, folder))
    path = tmp_path / "some.pack"
    path.write_bytes(b"as before")
    shutil.rmtree(tmp_path / "build" / "images")
    with pytest.raises(FileNotFoundError, match="no longer in the build folder"):
        write_pack(path, manifest, folder)
    assert path.read_bytes() == b"as before"
    assert [entry.name for entry in tmp_path.iterdir() if entry.name.startswith(".some")] == []


def run(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(main, ["aot", *map(str, words)])
    return done.exit_code, done.output


def test_verify_against_its_database(pack: Path, root: Path) -> None:
    assert run("verify", pack, root) == (0, f"{pack}: sound\n")


def test_verify_lists_what_the_pack_was_not_built_for(tmp_path: Path) -> None:
    pack = fake_pack(make_root(tmp_path / "narrow", "gfx942", "sm_90"), tmp_path / "narrow.pack", "gfx942", "sm_90")
    wider = make_root(tmp_path / "wider", "gfx942", "sm_90", helper=True)
    missing = ["gfx942/bwd_preprocess", "sm_90/bwd_preprocess"]
    assert run("verify", pack, wider) == (0, f"not in this pack: {', '.join(missing)}\n{pack}: sound\n")
    assert json.loads(run("verify", pack, wider, "--format", "json")[1])["absent"] == missing


def test_verify_fails_on_an_unlike_table(pack: Path, root: Path) -> None:
    (root / "gfx942" / "attn_fwd.txtdb").write_text(table("gfx942", palette={**PALETTE, "b": "64 16 false 0 4 1"}))
    code, output = run("verify", pack, root)
    assert code == 1
    assert "[pack-unlike-table]" in output
    assert "[pack-missing-image]" in output
    assert "64-16-false-0-4-1" in output


def test_verify_fails_on_a_table_that_is_gone(pack: Path, root: Path) -> None:
    text = (root / "schema" / "attn_fwd.toml").read_text()
    (root / "schema" / "attn_fwd.toml").write_text(text.replace("[arch.sm_90]\n", ""))
    code, output = run("verify", pack, root, "--format", "json")
    assert code == 1
    assert "sm_90/attn_fwd: the database has no such table" in output


def edited_kernels(folder: Path, name: str, old: str, new: str) -> Sources:
    """The kernels with an edit of one file."""
    shutil.copytree(FOLDER, folder)
    text = (folder / name).read_text(encoding="utf-8")
    assert old in text
    (folder / name).write_text(text.replace(old, new), encoding="utf-8")
    return Sources(folder)


@pytest.mark.parametrize(
    ("old", "new", "stale"),
    [("def attn_fwd(", "# a comment\ndef attn_fwd(", 0), ("tl.exp2(", "tl.exp(", 3)],
)
def test_a_pack_of_kernels_that_have_changed_is_not_that_of_the_database(
    pack: Path, root: Path, tmp_path: Path, old: str, new: str, stale: int
) -> None:
    kernels = edited_kernels(tmp_path / "kernels", "forward.py", old, new)
    _, plans = plans_of(root, "gfx942", "gfx950", "sm_90")
    with read_pack(pack)[0] as opened:  # type: ignore[union-attr]
        faults = list(pack_faults(opened, plans, kernels))
    assert [fault.rule for fault in faults] == ["pack-stale-kernel"] * stale
    assert all("attn_fwd: the kernel has changed since 2 functionals: " in fault.message for fault in faults)


def test_verify_says_what_is_no_file(tmp_path: Path) -> None:
    assert run("verify", tmp_path / "absent")[0] == 2
    assert run("list", tmp_path / "absent")[0] == 2


def test_list_stats_and_extract(pack: Path, tmp_path: Path) -> None:
    listed = json.loads(run("list", pack, "--format", "json")[1])
    assert len(listed) == 18
    assert run("list", pack)[1].count("\n") == 18
    stats = json.loads(run("stats", pack, "--format", "json")[1])
    assert (stats["images"], stats["files"], stats["dedup_ratio"]) == (18, 8, 2.25)
    assert stats["pack_bytes"] == pack.stat().st_size
    assert run("extract", pack, "--out", tmp_path / "all")[0] == 0
    files = sorted(path.relative_to(tmp_path / "all").as_posix() for path in (tmp_path / "all").rglob("*.*"))
    assert len(files) == 18
    assert f"gfx942/{A}.hsaco" in files
    assert f"sm_90/{A}.cubin" in files
    assert run("extract", pack, A, "--out", tmp_path / "one")[0] == 0
    assert len(list((tmp_path / "one").rglob("*.*"))) == 3
    assert run("extract", pack, "nothing", "--out", tmp_path / "none")[0] == 2
