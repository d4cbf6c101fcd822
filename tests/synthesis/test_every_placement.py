"""What is said not to exist, against every placement there is: a machine of four lanes and four banks.

`placements` is the definition: words are given banks one after another, in every way that leaves the vectors
of all accesses whole, and every instruction whose words are placed is counted by the public model.  Nothing
of the search, of footprints or of F2 is used.
"""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator, Sequence

import pytest

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, ideal_wavefronts, wavefronts
from layoutalg.arch import INSTRUCTIONS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, LayoutAlgError, ShapeError
from layoutalg.layout import Layout, product, size
from layoutalg.synthesis import Synthesis, check_certificate, refusal, synthesize
from tests.draws.synthesis_cases import TOY

BANKS = LANES = 4
OPS = ("ld.shared.b32", "ld.shared.b32", "st.shared.b32", "ld.shared.b64", "st.shared.b64", "ld.shared.b128",
       "red.shared.u32", "ld.shared.b16")  # fmt: skip

F32 = dtype("f32")

Word = int
Instruction = tuple[str, tuple[tuple[Word, int], ...]]
"""An op, and for each lane the word in storage order in which its vector starts and the byte within it."""


def instructions(shape: tuple[int, ...], order: Order, access: Access) -> set[Instruction]:
    """Every instruction of an access, in words of the storage order: the definition of an access."""
    storage, bits = storage_layout(shape, order), access.element.bits
    elems = 8 * INSTRUCTIONS[access.op].width_bytes // bits
    threads, values, *rest = (access.tv[i] for i in range(len(access.tv.shape)))  # type: ignore[arg-type]
    out: set[Instruction] = set()
    loops = [rest[0](i) for i in range(size(rest[0]))] if rest else [0]
    for loop, register, warp in itertools.product(
        loops, range(0, size(values), elems), range(0, size(threads), LANES)
    ):
        lanes = []
        for thread in range(warp, warp + LANES):
            flat = [threads(thread) + values(register + i) + loop for i in range(elems)]
            offsets = [storage(index) for index in flat]
            assert offsets == list(range(offsets[0], offsets[0] + elems)), (
                "a vector is whole in storage order"
            )
            lanes.append(divmod(offsets[0] * bits // 8, 4))
        out.add((access.op, tuple(lanes)))
    return out


def is_free(instruction: Instruction, bank: dict[Word, int]) -> bool:
    """Whether an instruction takes its ideal when words lie in these banks, vectors in rows of their own."""
    op, lanes = instruction
    addresses = [4 * (BANKS * word + bank[word]) + byte for word, byte in lanes]
    return wavefronts(op, addresses, TOY) == ideal_wavefronts(op, addresses, TOY)


def placements(
    words: int, asked: Sequence[Instruction], most: int | None = None
) -> Iterator[dict[Word, int]]:
    """Every map of words to banks on which all instructions are free, with at most `most` words per bank.

    A vector of several words starts at a multiple of its length, and its words follow each other.
    """
    tied: dict[Word, tuple[Word, int]] = {}  # word -> (first word of the widest vector around it, its length)
    for op, lanes in asked:
        length = max(1, INSTRUCTIONS[op].width_bytes // 4)
        for first, _ in lanes:
            for word in range(first, first + length):
                if tied.get(word, (0, 0))[1] < length:
                    tied[word] = first, length
    units = sorted({tied.get(word, (word, 1)) for word in range(words)})
    covered = []
    for op, lanes in asked:
        length = max(1, INSTRUCTIONS[op].width_bytes // 4)
        covered.append({word for first, _ in lanes for word in range(first, first + length)})

    @functools.cache
    def due(at: int) -> tuple[Instruction, ...]:
        """The instructions whose last words are those of unit `at`."""
        done = {w for first, n in units[: at + 1] for w in range(first, first + n)}
        before = {w for first, n in units[:at] for w in range(first, first + n)}
        return tuple(i for i, c in zip(asked, covered, strict=True) if c <= done and not c <= before)

    def place(at: int, bank: dict[Word, int]) -> Iterator[dict[Word, int]]:
        if at == len(units):
            yield dict(bank)
            return
        first, length = units[at]
        for start in range(0, BANKS, length):
            bank |= {first + i: start + i for i in range(length)}
            values = list(bank.values())
            room = most is None or all(values.count(b) <= most for b in range(BANKS))
            if room and all(is_free(instruction, bank) for instruction in due(at)):
                yield from place(at + 1, bank)
            for i in range(length):
                del bank[first + i]

    yield from place(0, {})


def drawn(rng: random.Random) -> tuple[tuple[int, int], list[Access], Order, str]:
    """A tile of at most 16 words and one to four accesses that are linear over F2."""
    element = rng.choice(("f32", "f32", "f32", "f16"))
    order: Order = rng.choice(("row", "col"))
    words = rng.choice((4, 8, 8, 16, 16))
    elements = words * 4 // dtype(element).nbytes
    rows = rng.choice([n for n in (1, 2, 4, 8) if elements % n == 0])
    shape = (rows, elements // rows) if order == "row" else (elements // rows, rows)
    storage = storage_layout(shape, order)
    place = {storage(index): index for index in range(elements)}  # flat index of each storage offset
    accesses = []
    for _ in range(rng.randint(1, 4)):
        op = rng.choice([op for op in OPS if INSTRUCTIONS[op].width_bytes >= dtype(element).nbytes])
        elems = INSTRUCTIONS[op].width_bytes // dtype(element).nbytes
        if elems > elements:
            continue
        # Strides in the flat index are those of storage offsets 2^k: a vector first, lanes anywhere.
        bits = list(range(elems.bit_length() - 1, elements.bit_length() - 1))
        rng.shuffle(bits)
        strides = [place[1 << bit] for bit in bits] + [0, 0, 0, 0]
        if rng.random() < 0.25:
            rng.shuffle(strides)
        if rng.random() < 0.3 and len(bits) > 2:
            strides[0] = place[1 << bits[0]] + place[1 << bits[2]]  # a diagonal
        count = LANES.bit_length() - 1
        lanes, loops = strides[:count], [n for n in strides[count : count + rng.randint(0, 3)] if n]
        vector = [place[1 << bit] for bit in range(elems.bit_length() - 1)]
        parts = [lanes, vector, *([loops] if loops else [])]
        tv = Layout(
            tuple((2,) * len(part) if part else 1 for part in parts),
            tuple(tuple(part) if part else 0 for part in parts),
        )
        accesses.append(Access(op, tv, dtype(element)))
    return shape, accesses, order, element


def words_of(shape: tuple[int, int], element: str) -> int:
    """Words of a tile."""
    return product(shape) * dtype(element).nbytes // 4


@pytest.mark.deep
def test_the_definition_on_known_cases() -> None:
    """A column of four words beside rows of vectors has none; two patterns of single words have one."""
    rows = Access("ld.shared.b128", Layout((4, 4), (1, 4)), F32)
    one_row = Access("ld.shared.b32", Layout((4, 1), (4, 0)), F32)
    column = Access("ld.shared.b32", Layout((4, 1), (1, 0)), F32)

    def asked(*accesses: Access) -> list[Instruction]:
        return [one for access in accesses for one in instructions((4, 4), "row", access)]

    assert not list(placements(16, asked(rows, column)))
    found = next(placements(16, asked(one_row, column), most=4))
    assert len({found[4 * i] for i in range(4)}) == 4 == len({found[i] for i in range(4)})


def check(found: Synthesis, shape: tuple[int, int], order: Order, element: str) -> str:
    """What a refutation says, held against every placement; the strongest class that it names."""
    asked = sorted({i for access in found.accesses for i in instructions(shape, order, access)})  # type: ignore[arg-type]
    words, classes = words_of(shape, element), found.certificate.classes
    if classes == ("any-placement",):
        assert next(placements(words, asked), None) is None, found
        return "any-placement"
    if any(name.startswith("any-in-place") for name in classes):
        assert next(placements(words, asked, most=words // BANKS), None) is None, found
        return "any-in-place"
    linear = next((name for name in classes if name.startswith("linear-in-place")), None)
    if linear is not None:
        unit = int(linear.partition("whole ")[2].partition("-")[0]) // 4
        for bank in linear_maps(words):
            whole = all(bank[w] % unit == w % unit and bank[w] - bank[w - w % unit] == w % unit for w in bank)
            assert not (whole and all(is_free(instruction, bank) for instruction in asked)), (found, bank)
        return "linear-in-place"
    return "others"


def linear_maps(words: int) -> Iterator[dict[Word, int]]:
    """Every F2-linear map of words to banks that gives each bank as many words."""
    bits = words.bit_length() - 1
    for images in itertools.product(range(BANKS), repeat=bits):
        bank = {0: 0}
        for bit, image in enumerate(images):
            bank |= {word | 1 << bit: at ^ image for word, at in bank.items()}
        if len(set(bank.values())) == min(BANKS, words):
            yield bank


def hunt(seed: int, rounds: int) -> dict[str, int]:
    """Refutations of random questions, each held against the definition; how many of each class."""
    rng = random.Random(seed)
    count: dict[str, int] = {}
    for _ in range(rounds):
        shape, accesses, order, element = drawn(rng)
        if not accesses:
            continue
        try:
            found = synthesize(shape, accesses, element=element, order=order, arch=TOY)
        except (AlignmentError, ShapeError):
            continue
        except LayoutAlgError as error:
            raise AssertionError((shape, accesses, order, element)) from error
        check_certificate(found)
        if found.layout is None:
            said, everywhere = refusal(found), found.certificate.classes == ("any-placement",)
            assert ("exists" in said) == everywhere == ("were not searched" not in said)
        name = "found" if found.layout is not None else check(found, shape, order, element)
        count[name] = count.get(name, 0) + 1
    return count


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(1, 40))
def test_what_is_said_not_to_exist_does_not_exist(seed: int) -> None:
    count = hunt(seed, 500)
    assert count["any-placement"] > 20 and count["found"] > 50, count
