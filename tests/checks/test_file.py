"""Files of checks: what is read, what is refused and where, and what the checks come to."""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import GlobalReport, SharedReport, analyze
from layoutalg.checks import load_checks, read_checks, run_checks
from layoutalg.checks.file import KINDS
from layoutalg.checks.toml_lines import toml_lines
from layoutalg.errors import LayoutAlgError, ParseError, ResourceError
from layoutalg.limits import Most
from layoutalg.notation import parse
from tests.sweeps import each

SWIZZLED, PLAIN, PADDED = "Sw<3,3,3> o 0 o (64,64):(64,1)", "(64,64):(64,1)", "(64,64):(72,1)"


def outcome(text: str, **more: Any) -> Any:
    """The outcome of a file of one check."""
    (found,) = run_checks(read_checks(text), **more)
    return found


def of_layout(layout: str, limit: str, dtype: str = "f16") -> tuple[str, str]:
    """Status and first reason of a limit on a layout."""
    found = outcome(f"[[layout]]\ntile = {layout!r}\ndtype = {dtype!r}\nlimits = [{limit!r}]")
    return found.status, found.failures[0].why if found.failures else ""


# --- what checks come to -------------------------------------------------------------------------------


@each("layout", (SWIZZLED, PLAIN, PADDED))
@each("access", ("ldmatrix.x4", "st.shared.b128", "ld.shared.b32@col", "ld.global.b128", "LDG.64"))
def test_numbers_of_an_access_are_those_of_the_analysis(layout: str, access: str) -> None:
    found = outcome(
        f"[[access]]\ntile = {layout!r}\naccess = {access!r}\ndtype = 'f16'\nlimits = ['instructions >= 1']"
    )
    report = analyze(parse(layout), access, "f16")  # type: ignore[arg-type]
    if isinstance(report, SharedReport):
        wanted: dict[str, int | Fraction] = {
            "wavefronts": report.total,
            "ideal": report.ideal_total,
            "excess": report.excess,
            "ways": report.ways,
            "worst": report.worst,
        }
    else:
        assert isinstance(report, GlobalReport)
        wanted = {
            "sectors": report.sectors,
            "ideal": report.ideal,
            "lines": report.lines,
            "efficiency": Fraction(report.useful_bytes, report.moved_bytes),
            "worst_base": report.worst_alignment,
        }
    assert found.numbers == wanted | {"instructions": report.instructions}


@each(
    "limit, passes",
    [
        ("ways <= 8", True), ("ways<=7", False), ("ways < 8", False), ("ways == 8", True), ("ways = 8", True),
        ("ways >= 8.0", True), ("ways > 8", False), ("wavefronts <= ideal", False), ("conflict-free", False),
        ("ideal <= wavefronts", True), ("wavefronts <= 51200%", True), ("wavefronts <= 511.5", False),
    ],
)  # fmt: skip
def test_limits_of_an_access(limit: str, passes: bool) -> None:
    found = outcome(
        f"[[access]]\ntile = '{PLAIN}'\naccess = 'ldmatrix.x4'\ndtype = 'f16'\nlimits = ['{limit}']"
    )
    assert found.status == ("passed" if passes else "failed")
    assert [failure.limit for failure in found.failures] == ([] if passes else [limit])


@each(
    "layout, limit, why",
    [
        (SWIZZLED, "bijective", ""),
        (PADDED, "bijective", "does not fill [0,4096): it never takes the offset 64"),
        (PADDED, "injective", ""),
        ("(4,8):(1,2)", "injective", "coordinates 2 and 4 share the offset 2"),
        ("Sw<1,0,3> o 0 o (4,8):(1,2)", "injective", "coordinates 2 and 4 share the offset"),
        (PADDED, "extra_bytes <= 1008", ""),
        (PADDED, "extra_bytes < 1008", "extra_bytes is 1008, and the limit is extra_bytes < 1008"),
        ("(8,8):(0,1)", "extra_bytes == 0", ""),
        (PLAIN, "legal for TMA", ""),
        (PADDED, "legal for TMA", "none: tma.layout"),
        (SWIZZLED, "legal for wgmma A", ""),
        (PADDED, "legal for wgmma B", "wgmma."),
        (SWIZZLED, f"equals {SWIZZLED}", ""),
        ("((8,8),64):((64,512),1)", f"equals {PLAIN}", ""),
        (SWIZZLED, f"equals {PLAIN}", "at the flat index 1 it is 72, and (64,64):(64,1) is 64"),
        (SWIZZLED, "equals (64,32):(32,1)", "it has 4096 coordinates, and (64,32):(32,1) has 2048"),
    ],
)
def test_limits_of_a_layout(layout: str, limit: str, why: str) -> None:
    status, said = of_layout(layout, limit)
    assert status == ("failed" if why else "passed"), said
    assert why in said


BOX = "box = '(64,64)'\nmode = '128B'\ntensor = '(4096,1024)"


@each(("kind", "keys", "broken"), [
    ("tma", f"{BOX}:(1024,1)'\ntile = '{SWIZZLED}'", ""),
    ("tma", f"{BOX}:(1025,1)'\ntile = '{SWIZZLED}'", "tma.stride"),
    ("tma", f"{BOX}:(1024,1)'\ntile = '{PLAIN}'", "tma.layout"),
    ("wgmma", f"tile = '{SWIZZLED}'\noperand = 'A'\nmajor = 'K'", ""),
    ("wgmma", f"tile = '{SWIZZLED}'\noperand = 'A'\nmajor = 'MN'", "wgmma."),
    ("memory", f"tile = '{PADDED}'\nop = 'cp.async.cg.16'", ""),
    ("memory", f"tile = '{PADDED}'\nop = 'cp.async.cg.16'\nsource = '(64,64):(100,1)'",
     "copy.source_aligned"),
    ("memory", f"tile = '{PADDED}'\nop = 'cp.async.cg.8'", "copy.cache"),
    ("memory", "tile = '(64,64):(68,1)'\nop = 'ldmatrix.x4'", "matrix.aligned"),
    ("memory", f"tile = '{PADDED}'\nop = 'ld.shared.v4.f32'\nalignment = 4", "vector."),
])  # fmt: skip
def test_what_is_legal(kind: str, keys: str, broken: str) -> None:
    found = outcome(f"[[{kind}]]\n{keys}\ndtype = 'f16'")
    assert found.status == ("failed" if broken else "passed"), found.failures
    assert not broken or (broken in found.failures[0].why and found.failures[0].limit == "legal")


@pytest.mark.deep
def test_index_functions(tmp_path: Path) -> None:
    (tmp_path / "swz.cuh").write_text(
        "__device__ int swz(int r, int c) { return r * 64 + (c ^ (r % 8 * 8)); }\n"
        "__device__ int plain(int r, int c) { return r * 64 + c; }\n"
        "__device__ int zero(int r, int c) { return r / (c - c); }\n"
    )
    text = f"[tiles]\na = '{SWIZZLED}'\n" + "".join(
        f"[[function]]\nfile = 'swz.cuh'\nfunction = '{name}'\ntile = 'a'\n"
        for name in ("swz", "plain", "zero", "gone")
    )
    found = run_checks(read_checks(text, folder=tmp_path))
    assert [one.status for one in found] == ["passed", "failed", "failed", "unanswered"]
    assert "it returns 64 instead of 72" in found[1].failures[0].why
    assert "SIGFPE (a division by zero)" in found[2].failures[0].why
    assert "gone" in found[3].failures[0].why


def test_what_is_not_answered_does_not_pass() -> None:
    found = outcome("[[access]]\ntile = '(64,64):(65,1)'\naccess = 'ld.shared.b128'\nlimits = ['ways <= 1']")
    assert found.status == "unanswered" and not found.numbers
    assert "16" in found.failures[0].why


def test_a_list_of_accesses_is_a_check_for_each_and_defaults_are_shared() -> None:
    file = read_checks(
        f"[defaults]\ndtype = 'f16'\narch = 'A100'\n[tiles]\na = '{SWIZZLED}'\n"
        "[[access]]\ntile = 'a'\naccess = ['ldmatrix.x4', 'st.shared.b128']\nlimits = ['conflict-free']\n"
        "[[access]]\nname = 'mine'\ntile = 'a'\naccess = ['LDS.32', 'STS.32']\narch = 'sm_90'\n"
        "limits = ['ways <= 4']\n"
    )
    assert [check.name for check in file.checks] == [
        "a, ldmatrix.x4", "a, st.shared.b128", "mine, LDS.32", "mine, STS.32",
    ]  # fmt: skip
    assert [check.values["arch"].name for check in file.checks] == ["sm_80", "sm_80", "sm_90", "sm_90"]
    assert {str(check.values["dtype"]) for check in file.checks} == {"f16"}


# --- what is refused, and where ------------------------------------------------------------------------

ACCESS = "[[access]]\ntile = '8:1'\naccess = 'LDS.32'\n"


def _refused() -> Iterator[tuple[str, str]]:
    """The rows of refused.txt."""
    text = Path(__file__).with_name("refused.txt").read_text(encoding="utf-8")
    for line in text.splitlines()[2:]:
        file, _, part = line.partition(" => ")
        yield file.replace("; ", "\n"), part


REFUSED = [
    *_refused(),
    ("\n\n[tile]\na = '4:1'", "line 3: unknown table 'tile': did you mean 'tiles'?"),
    ("a = " + "[" * 5000, "layoutalg.toml is not TOML"),
    ("tiles = 3\n" + ACCESS, "line 1, tiles: this is not a table: write [tiles]"),
    ("[tiles]\na = '4:1'\nb = '(4'\n" + ACCESS, "line 3, b: cannot read '(4'"),
    ("[tiles]\n' ' = '4:1'\n" + ACCESS, "line 2,  : ' ' is no name"),
    ("[tiles]\na = 'LinearLayout(register=[1,2], lane=[4])'\n" + ACCESS, "line 2, a: "),
    ("[defaults]\nwarps = 3\n" + ACCESS, "line 2: unknown key 'warps': accepted are baseline, dtype, arch"),
    (ACCESS, "line 1: a check needs the key limits: a list of texts"),
    (ACCESS.replace("LDS.32", "ldmatrx.x4"),
     "line 3, access: unknown instruction 'ldmatrx.x4': did you mean 'ldmatrix.x4'?"),
    (ACCESS.replace("'LDS.32'", "[]"), "line 3, access: the list is empty"),
    (ACCESS.replace("8:1", "b"), "line 2, tile: cannot read 'b'"),
    ("[tiles]\nabc = '4:1'\n" + ACCESS.replace("8:1", "abd"),
     "line 4, tile: unknown tile 'abd': did you mean 'abc'?"),
    (ACCESS.replace("tile", "tiel"), "line 2: unknown key 'tiel': did you mean 'tile'?"),
    (ACCESS + "name = 'a\\u0007'".replace("'", '"'),
     "line 4, name: the text has characters that cannot be shown"),
    (ACCESS + f"name = '{'n' * (Most.LINE.number + 1)}'", "characters of a text"),
    (2 * (ACCESS + "limits = ['ways <= 1']\n"),
     "line 5, name: the check of line 1 is called '8:1, LDS.32' as well"),
    ('[[function]]\nfile = "a\\u0000"\ntile = "4:1"',
     "line 2, file: the text has characters that cannot be shown"),
]  # fmt: skip


@each("text, part", REFUSED, ids=lambda v: str(v)[:50])
def test_a_file_that_is_not_understood(text: str, part: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_checks(text)
    assert part in str(caught.value), str(caught.value)
    assert str(caught.value).startswith("layoutalg.toml")
    if ", line " in str(caught.value):
        line = int(str(caught.value).split(", line ")[1].split(",")[0].split(":")[0])
        assert text.count("\n", 0, caught.value.position) + 1 == line


def test_limits_of_sizes(tmp_path: Path) -> None:
    path = tmp_path / "layoutalg.toml"
    path.write_bytes(b"#" * (Most.TEXT.number + 1))
    with pytest.raises(ResourceError, match=r"size of layoutalg\.toml in bytes"):
        load_checks(path)
    path.write_bytes(b"[tiles]\na = '\xff'")
    with pytest.raises(ParseError, match=r"layoutalg\.toml is not UTF-8 text: line 2, byte 6 of it"):
        load_checks(path)
    (tmp_path / "big.cu").write_bytes(b" " * (Most.TEXT.number + 1))
    (tmp_path / "bad.cu").write_bytes(b"\n\n\xff")
    for name, part in (("big.cu", "in bytes: 1048577 asked"), ("bad.cu", "bad.cu is not UTF-8 text: line 3")):
        with pytest.raises(ParseError, match=part):
            read_checks(f"[[function]]\nfile = '{name}'\ntile = '4:1'", folder=tmp_path)


def test_pyproject_holds_the_same(tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    path.write_text(
        "[project]\nname = 'x'\n[tool.layoutalg.tiles]\na = '4:1'\n\n[[tool.layoutalg.layout]]\ntile = 'a'\n"
        "limits = ['injective']\n"
    )
    (check,) = load_checks(path).checks
    assert (check.name, check.line, check.limits[0].line) == ("a", 6, 8)
    path.write_text("[tool.layoutalg.tiles]\na = '4:'\n")
    with pytest.raises(ParseError, match=r"pyproject\.toml, line 2, a: cannot read"):
        load_checks(path)
    path.write_text("tool = 3\n")
    with pytest.raises(ParseError, match=r"pyproject\.toml, line 1, tool: this is not a table"):
        load_checks(path)


def test_every_kind_says_what_it_accepts() -> None:
    for kind in KINDS.values():
        assert kind.name.isidentifier() and kind.what
        for field in kind.fields:
            assert field.what and field.key.isidentifier(), field
            assert not (field.required and field.default is not None), field


# --- lines ---------------------------------------------------------------------------------------------


def paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The paths of all values of a table."""
    if path:
        yield path
    parts: Any = (
        value.items() if isinstance(value, Mapping) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, part in parts:
        yield from paths(part, (*path, key))


TOML = '''\
a = 1 # [no] = "table"
b.c = "]#\\" = x"
"d.e" = \'\'\'
x = 1
[not.a.table]\'\'\'

[f]
g = [ # one
  "1", [2, 3],
  { h = """a"""", i = \'#\' },
]
[[k]]
l = 2020-01-01T00:00:00Z
[[k]]
[k.m]
n = -1.5e3
[[k.o]]
p = {}
[[k.o]]
q.r = [[], [ ]]
'''


def test_every_value_of_a_text_has_its_line() -> None:
    lines = toml_lines(TOML)
    assert set(paths(tomllib.loads(TOML))) == set(lines)
    wanted = {
        ("a",): 1, ("b", "c"): 2, ("d.e",): 3, ("f",): 7, ("f", "g", 1, 0): 9, ("f", "g", 2, "i"): 10,
        ("k", 0): 12, ("k", 0, "l"): 13, ("k", 1): 14, ("k", 1, "m"): 15, ("k", 1, "m", "n"): 16,
        ("k", 1, "o", 1): 19, ("k", 1, "o", 1, "q", "r", 1): 20,
    }  # fmt: skip
    assert {path: lines[path] for path in wanted} == wanted


KEYS = st.sampled_from(["a", "b", "c-d", "tile", "'x y'", '"q\\"#"'])
SCALARS = st.sampled_from(
    ["1", "-2.5", "true", "'#]'", '"}\\\\"', '"""\n"a""""', "'''\n''x'''", "1979-05-27 07:32:00"]
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda parts: "[\n " + ", # ]\n".join(parts) + "\n]")
        | st.lists(inner.filter(lambda v: "\n" not in v), max_size=1).map(
            lambda parts: "{" + ", ".join(f"k{n} = {v}" for n, v in enumerate(parts)) + "}"
        )
    ),
    max_leaves=6,
)
STATEMENTS = st.lists(
    st.builds("{} = {}\n".format, KEYS, VALUES)
    | KEYS.map("[{}]\n".format)
    | KEYS.map("[[ {} ]] # x\n".format)
    | st.builds("[{}.{}]\n".format, KEYS, KEYS)
    | st.builds("{} . {} = {}\n".format, KEYS, KEYS, VALUES),
    max_size=8,
).map("".join)


@given(STATEMENTS)
def test_lines_of_any_text(text: str) -> None:
    try:
        value = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    assert set(paths(value)) == set(toml_lines(text))


@given(st.text(st.sampled_from("[]{}=.,'\"#ab \n\\"), max_size=30))
def test_no_text_is_more_than_refused(text: str) -> None:
    with contextlib.suppress(LayoutAlgError):
        read_checks(text)


def test_the_guide_names_every_key_quantity_and_property() -> None:
    text = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
    for kind in KINDS.values():
        part = re.search(rf"^### `\[\[{kind.name}\]\]`: {kind.what}$(.*?)(^### |\Z)", text, re.M | re.S)
        assert part is not None, kind.name
        values = {field.key: field.default for field in kind.fields}
        named = {field.key for field in kind.fields}
        for access in ("ldmatrix.x4", "ld.global.b32") if kind.name == "access" else ("",):
            values["access"] = access
            named |= set(kind.quantities(values))
            named |= {name + "LAYOUT" * name.endswith(" ") for name in kind.properties(values)}
        named -= {"arch", "dtype"}  # stated once, in front of the kinds
        assert not [name for name in named if f"| `{name}` |" not in part[1]], kind.name
