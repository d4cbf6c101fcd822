"""Names in generated text: identifiers, and none that CUDA C++ or the text itself has taken.

Every record that holds a name checks it when it is made, whoever makes it, so that nothing but identifiers
reaches CUDA text.

Source: ISO C++20 and C++26, table 5, and ISO C23, 6.4.1 (keywords); GCC manual, "Alternate Keywords" and
"System-specific Predefined Macros"; ISO C23, annex B, and POSIX.1-2017, "Headers" (macros); CUDA C++
Programming Guide, "C++ Language Extensions" and "Mathematical Functions"; cuda_runtime.h and its headers.
"""

from __future__ import annotations

import functools
import re

from layoutalg.errors import IRError

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,62}\Z")

_WORDS = frozenset(
    {
        "NULL", "alignas", "alignof", "and", "and_eq", "asm", "assert", "auto", "bitand", "bitor",
        "blockDim", "blockIdx", "block_x", "block_y", "block_z", "bool", "break", "case", "catch",
        "char", "char16_t", "char32_t", "char8_t", "class", "co_await", "co_return", "co_yield", "compl",
        "concept", "const", "const_cast", "consteval", "constexpr", "constinit", "continue",
        "contract_assert", "decltype",
        "default", "delete", "do", "double", "dynamic_cast", "else", "enum", "explicit", "export", "extern",
        "false", "float", "for", "friend", "goto", "gridDim", "half", "if", "inline", "int", "long", "main",
        "mutable", "namespace", "new", "noexcept", "not", "not_eq", "nullptr", "operator", "or", "or_eq",
        "private", "protected", "public", "register", "reinterpret_cast", "requires", "restrict", "return",
        "short",
        "signed", "sizeof", "smem", "static", "static_assert", "static_cast", "std", "struct", "switch",
        "template", "this", "threadIdx", "thread_local", "throw", "tid", "true", "try", "typedef", "typeid",
        "typename", "typeof", "typeof_unqual", "u16", "u32", "u64", "u8", "union", "unsigned",
        "using", "virtual", "void", "volatile",
        "warpSize", "wchar_t", "while", "xor", "xor_eq",
    }
)  # fmt: skip
"""Keywords of C and C++, and names that the printed text uses itself."""

_MACROS = re.compile(
    r"""
    i386 | linux | unix
    | ([SU]?CHAR | U?SHRT | U?INT | U?L?LONG | U?LONG_LONG | BOOL)_(MAX|MIN|WIDTH) | (CHAR|LONG|WORD)_BIT
    | (BC_(BASE|DIM|SCALE|STRING) | AIO_PRIO_DELTA | CHARCLASS_NAME | COLL_WEIGHTS | DELAYTIMER | EXPR_NEST
      | FILENAME | FOPEN | HOST_NAME | IOV | LINE | LOGIN_NAME | MB_LEN | MQ_PRIO | NAME | NGROUPS
      | NL_(ARG|LANG|MSG|N|SET|TEXT) | PATH | RAND | RE_DUP | RTSIG | SEM_VALUE | SSIZE | TMP | TTY_NAME
      | XATTR_(LIST|NAME|SIZE) | PTHREAD_KEYS)_?MAX | MAX_(CANON|INPUT) | MB_CUR_MAX
    | M_(1_PI | 2_PI | 2_SQRTPI | E | LN10 | LN2 | LOG10E | LOG2E | PI | PI_2 | PI_4 | SQRT1_2 | SQRT2)
      (l | f(16|32x?|64x?|128)?)?
    | (ADJ | CLOCK | MOD | STA)_[A-Z_]+ | CLOCKS_PER_SEC | TIMER_ABSTIME | TIME_UTC | TMP_MAX
    | FD_(CLR|ISSET|SET|SETSIZE|ZERO) | FP_[A-Z]+\w* | HUGE_VAL(_?[FL]\w*)? | INFINITY | NANF? | SNAN[FL]?\w*
    | (BIG|LITTLE|PDP)_ENDIAN | BYTE_ORDER | BUFSIZ | EOF | EXIT_(FAILURE|SUCCESS)
    | L_(ctermid|cuserid|tmpnam)
    | MATH_ERR(EXCEPT|NO) | MAXFLOAT | NFDBITS | NZERO | PIPE_BUF | PTHREAD_[A-Z_]+ | P_tmpdir
    | RENAME_[A-Z]+ | SEEK_(CUR|DATA|END|HOLE|SET) | W(IF)?(CONTINUED|EXITED|STOPPED|SIGNALED)
    | W(EXITSTATUS|NOHANG|NOWAIT|STOPSIG|TERMSIG|UNTRACED)
    | assert_perror | (be|le)(16|32|64)toh | hto(be|le)(16|32|64) | issubnormal | math_errhandling | offsetof
    | is(alnum|alpha|ascii|blank|cntrl|digit|graph|lower|print|punct|space|upper|xdigit)_l
    | (is|to)ascii(_l)? | std(err|in|out) | strn?dupa
    """,
    re.VERBOSE,
)
"""Macros that a compiler defines by itself in its own dialect, and those of what cuda_runtime.h includes."""

_FUNCTIONS = re.compile(
    r"""
    ( a?(cos|sin|tan)h?(pi)? | atan2 | cbrt | ceil | copysign | cyl_bessel_i[01] | erfc?(inv|x)?
    | exp(2|10|m1)? | fabs | fdim | fdivide | floor | fma | f?max | f?min | fmod | frexp | hypot | ilogb
    | ldexp | lgamma | ll?r(int|ound) | log(10|1p|2|b)? | modf | nan | nearbyint | nextafter
    | norm([34]d|cdf(inv)?)? | pow | rcbrt | remainder | remquo | rhypot | rint | rnorm([34]d)? | round
    | r?sqrt | scalbl?n | sincos(pi)? | tgamma | trunc )[fl]?
    | (l|ll|u|ul|ull)?(abs|max|min) | isnan | isinf | isfinite | signbit | byte_perm | umulhi | mulhi
    | saturate | abort | alloca | clock(64)? | exit | free | malloc | mem(cpy|move|set|cmp) | printf | puts
    | rand | time | nanosleep | prof_trigger | atomic[A-Z]\w* | make_\w+
    | (tex|surf)(1D|2D|3D|Cubemap)\w*
    | cuda[A-Z]\w* | CUDA\w* | cu[A-Z]\w* | CU[A-Za-z_]\w* | NV_\w+ | WARP_SZ | libraryPropertyType
    | MAJOR_VERSION | MINOR_VERSION | PATCH_LEVEL
    | (u?(char|short|int|long|longlong)|float|double)[1-4](_\w+)? | dim3
    | (size|ptrdiff|clock|time)_t | u?int(8|16|32|64|max|ptr)_t | va_list | nv_bfloat16\d? | half2 | bfloat16
    """,
    re.VERBOSE,
)
"""Functions, types and macros that CUDA C++ declares before any text."""

_BESSEL = frozenset({"j0", "j1", "jn", "y0", "y1", "yn"})
"""Functions whose names a variable may well have; a kernel would be another function of that name."""

BUILT_IN = frozenset({"tid", "block_x", "block_y", "block_z"})
"""Variables that the printed text declares."""


def check_name(name: str, what: str = "variable") -> str:
    """Return `name` if it may appear in generated text: an identifier that CUDA C++ has not taken.

    `what` it names matters for kernels, which are functions.  Raises IRError otherwise.

    >>> check_name("tile"), check_name("y1")
    ('tile', 'y1')
    """
    why = _why_not(name, what) if isinstance(name, str) else _NO_NAME
    if why:
        raise IRError("name", name, f"{name!r} cannot name something in CUDA text: {why}")
    return name


_NO_NAME = "a letter, then letters, digits or _"


@functools.lru_cache(4096)
def _why_not(name: str, what: str) -> str:
    if not _NAME.match(name) or "__" in name:
        return _NO_NAME
    if (
        name in _WORDS
        or _FUNCTIONS.fullmatch(name)
        or _MACROS.fullmatch(name)
        or (what == "kernel" and name in _BESSEL)
    ):
        return "it has a meaning there"
    return ""


def check_variable(name: str) -> None:
    """Raise IRError unless a variable may have a name: one that may be given, or one of BUILT_IN.

    >>> check_variable("tid")
    """
    if name not in BUILT_IN:
        check_name(name)
