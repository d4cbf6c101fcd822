"""The accesses of sgemm_v1.cu to sgemm_v8.cu: column-major, M = N = 256, K = 64, block (0, 0).

A at (i, j) is element i + M j, B is i + K j, C is i + M j; each turn of the loop over tiles moves A by a
tile's columns and B by its rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tests.corpus.measure import Access, Source

M = N = 256
K = 64
VALUES = {"M": M, "N": N, "K": K}
F32 = 4

Place = Callable[..., tuple[int, int]]
"""(row, column) of a thread."""


def a(i: int, j: int) -> int:
    return F32 * (i + M * j)


def b(i: int, j: int) -> int:
    return F32 * (i + K * j)


def across(i: int, j: int) -> int:
    """A shared tile of 32 columns, row-major."""
    return F32 * (32 * i + j)


def down(rows: int) -> Callable[[int, int], int]:
    """A shared tile of so many rows, column-major."""
    return lambda i, j: F32 * (i + rows * j)


def v1() -> Source:
    def place(t: int) -> tuple[int, int]:
        return t % 32, t // 32

    return source(1, (32, 32), [
        Access("sum += A(tx, k)", "ld.global.b32", "A", lambda t, k: a(place(t)[0], k), (range(K),)),
        Access("sum += A(tx, k)", "ld.global.b32", "B", lambda t, k: b(k, place(t)[1]), (range(K),)),
        Access("C(tx, ty) = ", "ld.global.b32", "C", lambda t: a(*place(t))),
        Access("C(tx, ty) = ", "st.global.b32", "C", lambda t: a(*place(t))),
    ])  # fmt: skip


def scalar(version: int, block: tuple[int, ...], names: tuple[str, str], plain: bool) -> Source:
    """Versions 2 to 4: an element per thread; `plain` tiles are column-major, others row-major."""
    row, col = names
    tile = down(32) if plain else across
    tiles, inner = range(0, K, 32), range(32)

    def place(t: int) -> tuple[int, int]:
        return t % 32, t // 32

    b_store, b_read = f"sB({col}, {row}) = B(", f"sB({col}, k);"
    return source(version, block, [
        Access(f"sA({row}, {col}) = A(", "ld.global.b32", "A",
               lambda t, k0: a(place(t)[0], k0 + place(t)[1]), (tiles,)),
        Access(f"sA({row}, {col}) = A(", "st.shared.b32", "sA", lambda t, k0: tile(*place(t)), (tiles,)),
        Access(b_store, "ld.global.b32", "B", lambda t, k0: b(k0 + place(t)[0], place(t)[1]), (tiles,)),
        Access(b_store, "st.shared.b32", "sB", lambda t, k0: tile(*place(t)[::-1]), (tiles,)),
        Access(b_read, "ld.shared.b32", "sA", lambda t, k0, k: tile(place(t)[0], k), (tiles, inner)),
        Access(b_read, "ld.shared.b32", "sB", lambda t, k0, k: tile(place(t)[1], k), (tiles, inner)),
        Access(f"C({row}, {col}) = ", "ld.global.b32", "C", lambda t: a(*place(t))),
        Access(f"C({row}, {col}) = ", "st.global.b32", "C", lambda t: a(*place(t))),
    ])  # fmt: skip


def four_rows(t: int) -> tuple[int, int]:
    """Versions 5 and 6: the first of four rows, and the column."""
    return 4 * (t % 8), t // 8


def v5() -> Source:
    tile = down(32)
    tiles, inner = range(0, K, 32), range(32)
    found = []
    for i in range(4):
        row = "row" if i == 0 else f"row + {i}"

        def at(t: int, i: int = i) -> tuple[int, int]:
            return four_rows(t)[0] + i, four_rows(t)[1]

        def transposed(t: int, i: int = i) -> int:
            return tile(four_rows(t)[1], four_rows(t)[0] + i)

        found += [
            Access(f"sA({row}, col) = ", "ld.global.b32", "A",
                   lambda t, k0, at=at: a(at(t)[0], k0 + at(t)[1]), (tiles,)),
            Access(f"sA({row}, col) = ", "st.shared.b32", "sA", lambda t, k0, at=at: tile(*at(t)), (tiles,)),
            Access(f"sB(col, {row}) = ", "ld.global.b32", "B",
                   lambda t, k0, at=at: b(k0 + at(t)[0], at(t)[1]), (tiles,)),
            Access(f"sB(col, {row}) = ", "st.shared.b32", "sB",
                   lambda t, k0, to=transposed: to(t), (tiles,)),
            Access(f"sum[{i}] += sA({row}, k)", "ld.shared.b32", "sA",
                   lambda t, k0, k, at=at: tile(at(t)[0], k), (tiles, inner)),
            Access(f"C({row}, col) = ", "ld.global.b32", "C", lambda t, at=at: a(*at(t))),
            Access(f"C({row}, col) = ", "st.global.b32", "C", lambda t, at=at: a(*at(t))),
        ]  # fmt: skip
    found.append(
        Access(
            "b = sB(col, k);",
            "ld.shared.b32",
            "sB",
            lambda t, k0, k: tile(four_rows(t)[1], k),
            (tiles, inner),
        )
    )
    return source(5, (256,), found)


def staged(place_a: Place, place_b: Place, rows: int, depth: int, stores: str = "bv") -> list[Access]:
    """Versions 6 to 8: a vector of A stored as it is, a vector of B element by element, transposed."""
    tile, tiles = down(rows), range(0, K, depth)
    row_a, col_a, row_b, col_b = (
        ("row", "col", "row", "col") if rows == 32 else ("row_a", "col_a", "row_b", "col_b")
    )
    found = [
        Access(f"&A({row_a}, {col_a})", "ld.global.b128", "A",
               lambda t, k0: a(place_a(t)[0], k0 + place_a(t)[1]), (tiles,)),
        Access(f"&B({row_b}, {col_b})", "ld.global.b128", "B",
               lambda t, k0: b(k0 + place_b(t)[0], place_b(t)[1]), (tiles,)),
        Access(f"STORE4(&sA({row_a}, {col_a})", "st.shared.b128", "sA",
               lambda t, k0: tile(*place_a(t)), (tiles,)),
    ]  # fmt: skip
    for i, part in enumerate("xyzw"):
        found.append(
            Access(f"= {stores}.{part};", "st.shared.b32", "sB",
                   lambda t, k0, i=i: tile(place_b(t)[1], place_b(t)[0] + i), (tiles,))
        )  # fmt: skip
    return found


def v6() -> Source:
    tile = down(32)
    tiles, inner = range(0, K, 32), range(32)
    return source(6, (256,), [
        *staged(four_rows, four_rows, 32, 32),
        Access("b = sB(col, k);", "ld.shared.b32", "sB",
               lambda t, k0, k: tile(four_rows(t)[1], k), (tiles, inner)),
        Access("LOAD4(av, &sA(row, k))", "ld.shared.b128", "sA",
               lambda t, k0, k: tile(four_rows(t)[0], k), (tiles, inner)),
        Access("LOAD4(cv, &C(row, col))", "ld.global.b128", "C", lambda t: a(*four_rows(t))),
        Access("STORE4(&C(row, col), cv)", "st.global.b128", "C", lambda t: a(*four_rows(t))),
    ])  # fmt: skip


def v7() -> Source:
    tile = down(64)
    tiles, inner = range(0, K, 16), range(16)

    def corner(t: int) -> tuple[int, int]:
        return 4 * (t % 16), 4 * (t // 16)

    found = staged(lambda t: (4 * (t % 16), t // 16), lambda t: (4 * (t % 4), t // 4), 64, 16)
    found += [
        Access("LOAD4(av, &sA(row_c, k))", "ld.shared.b128", "sA",
               lambda t, k0, k: tile(corner(t)[0], k), (tiles, inner)),
        Access("LOAD4(bv, &sB(col_c, k))", "ld.shared.b128", "sB",
               lambda t, k0, k: tile(corner(t)[1], k), (tiles, inner)),
    ]  # fmt: skip
    for j in range(4):
        for verb, op in (("LOAD4", "ld"), ("STORE4", "st")):
            text = f"LOAD4(cv[{j}], &C" if verb == "LOAD4" else f", cv[{j}])"
            found.append(
                Access(text, f"{op}.global.b128", "C", lambda t, j=j: a(corner(t)[0], corner(t)[1] + j))
            )
    return source(7, (256,), found)


def v8() -> Source:
    tile = down(128)
    tiles, inner, columns = range(0, K, 8), range(8), range(8)

    def corner(t: int) -> tuple[int, int]:
        return 8 * (t % 16), 8 * (t // 16)

    found = staged(lambda t: (4 * (t % 32), t // 32), lambda t: (4 * (t % 2), t // 2), 128, 8, "b_low")
    for high, name in ((0, "low"), (4, "high")):
        at = f"row_c{' + 4' if high else ''}"
        found += [
            Access(f"LOAD4(a_{name}, &sA({at}, k))", "ld.shared.b128", "sA",
                   lambda t, k0, k, high=high: tile(corner(t)[0] + high, k), (tiles, inner)),
            Access(f"LOAD4(b_{name}, &sB(", "ld.shared.b128", "sB",
                   lambda t, k0, k, high=high: tile(corner(t)[1] + high, k), (tiles, inner)),
            Access(f"LOAD4(cv, &C({at}, col_c + j))", "ld.global.b128", "C",
                   lambda t, j, high=high: a(corner(t)[0] + high, corner(t)[1] + j), (columns,)),
            Access(f"STORE4(&C({at}, col_c + j), cv)", "st.global.b128", "C",
                   lambda t, j, high=high: a(corner(t)[0] + high, corner(t)[1] + j), (columns,)),
        ]  # fmt: skip
    return source(8, (256,), found)


def source(version: int, block: tuple[int, ...], accesses: Sequence[Access]) -> Source:
    return Source(f"sgemm_v{version}.cu", f"sgemm_v{version}", block, VALUES, accesses)


SOURCES = (
    v1(),
    scalar(2, (32, 32), ("tx", "ty"), plain=False),
    scalar(3, (1024,), ("row", "col"), plain=False),
    scalar(4, (1024,), ("row", "col"), plain=True),
    v5(), v6(), v7(), v8(),
)  # fmt: skip
