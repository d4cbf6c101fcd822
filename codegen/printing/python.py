"""Launchers in Python, for arrays of PyTorch or CuPy: a module with the kernels' text and one function.

    launch(src, dst, m=..., n=...)          buffers in the order of the record, integers and scalars by name

It raises ValueError, which names the kernel, the argument, its value and what is accepted: a type; a shape
and strides, except modes of one element; an alignment; the current GPU; memory that no other buffer has; and
of integers the range that the kernels are proved for.  It compiles the text for the current GPU once;
allocates scratch memory; encodes tensor maps, once per address; and launches all kernels on the library's
current stream through the CUDA driver, each with its attributes.  The module needs the library, NVRTC and the
driver alone.

    softmax_f32_e2233db3(src)               of PyTorch besides: an operator, named as the first kernel

Its schema has the buffers that are read, which it may update, and the numbers that these do not show; what is
written alone is a new array.  It has an implementation for CUDA, which is `launch`, and one that makes shapes
and types, so that torch.compile takes it whole.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations
from keyword import iskeyword
from types import MappingProxyType

from layoutalg.codegen.expr import Const, FloorDiv, Var, render, simplify
from layoutalg.codegen.printing.record import LaunchBuffer, LaunchRecord, Step, map_enumerators
from layoutalg.codegen.program import LARGE_CLUSTER, SCRATCH, Parameter, TensorMapParam, text
from layoutalg.errors import UnsupportedError


@dataclass(frozen=True, slots=True)
class Library:
    """Spellings of a library of arrays for what a launch needs of it, as lines of Python.

    `types` are its names of the element types that NumPy does not have; the others have NumPy's names.
    """

    imports: str
    describe: str
    current: str
    scratch: str
    types: Mapping[str, tuple[str, ...]]


LIBRARIES: Mapping[str, Library] = MappingProxyType(
    {
        "torch": Library(
            "import torch",
            """\
    if not isinstance(array, torch.Tensor):
        _refuse(f"{name} is a {type(array).__name__}: a tensor on a GPU is accepted")
    if not array.is_cuda:
        _refuse(f"{name} is on {array.device}: a tensor on a GPU is accepted")
    if array.layout != torch.strided:
        _refuse(f"{name} is {array.layout}: a tensor of torch.strided is accepted")
    if array.is_neg() or (array.is_complex() and array.is_conj()):
        _refuse(f"{name} is negated or conjugated when it is read: a tensor that is resolved is accepted")
    if array.requires_grad and torch.is_grad_enabled():
        _refuse(f"{name} records gradients: it is accepted inside torch.no_grad(), or detached")
    kind, device = str(array.dtype).removeprefix("torch."), array.device.index
    return array.data_ptr(), kind, array.element_size(), tuple(array.shape), tuple(array.stride()), device
""",
            """\
    return torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream
""",
            "torch.empty({bytes}, dtype=torch.uint8, device='cuda')",
            {"bf16": ("bfloat16",), "e4m3": ("float8_e4m3fn",), "e5m2": ("float8_e5m2",)},
        ),
        "cupy": Library(
            "import cupy",
            """\
    if not isinstance(array, cupy.ndarray):
        _refuse(f"{name} is a {type(array).__name__}: an array on a GPU is accepted")
    kind, width = array.dtype.name if array.dtype.isnative else array.dtype.str, array.itemsize
    strides = tuple(d / width if d % width else d // width for d in array.strides)
    return array.data.ptr, kind, width, array.shape, strides, array.device.id
""",
            """\
    return cupy.cuda.Device().id, cupy.cuda.get_current_stream().ptr
""",
            "cupy.empty({bytes}, dtype=cupy.uint8)",
            {
                "bf16": ("uint16", "bfloat16"),
                "e4m3": ("uint8", "float8_e4m3fn"),
                "e5m2": ("uint8", "float8_e5m2"),
            },
        ),
    }
)
"""The libraries by name."""

_COMMON = '''\
def _refuse(what):
    raise ValueError(f"{KERNEL}: {what}")


def _describe(name, array):
    """Address, type, bytes of an element, shape, strides in elements, and the number of the GPU."""
DESCRIBE

def _current():
    """The number of the current GPU and its current stream."""
CURRENT

def _integer(name, value, least, most, multiple):
    """An int that the kernels are made for."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        _refuse(f"{name} = {value!r}: an int is accepted")
    if not least <= number <= most or number % multiple:
        by = f", a multiple of {multiple}," if multiple > 1 else ""
        accepted = f"{least} to {most}{by}" if least < most else least
        _refuse(f"{name} = {number}: {accepted} is accepted")
    return number


def _float(name, value):
    """A number that a float of 32 bits holds."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        _refuse(f"{name} = {value!r}: a number is accepted")
    try:
        number = ctypes.c_float(value).value
    except OverflowError:
        number = math.inf
    if (math.isinf(number) and value not in (math.inf, -math.inf)) or (number == 0 and value != 0):
        _refuse(f"{name} = {value!r}: a number that a float of 32 bits holds is accepted")
    return number


def _modes(shape, strides):
    """Extents and strides without modes of one element; strides of no elements count for nothing."""
    return [(n, d if all(shape) else 0) for n, d in zip(shape, strides) if n != 1]


def _buffer(name, array, device, types, shape, strides, width, needed, align):
    """The address of an array as kernels are made for it; without a shape, of one that is long enough."""
    address, kind, bytes_each, extents, steps, where = _describe(name, array)
    if where != device:
        _refuse(f"{name} is on GPU {where}: an array on the current one, {device}, is accepted")
    if types and kind not in types:
        _refuse(f"{name} is {kind}: {' or '.join(types)} is accepted")
    if bytes_each != width:
        _refuse(f"{name} has elements of {bytes_each} bytes: {width} are accepted")
    if shape is None:
        span = 1 + sum((n - 1) * d for n, d in zip(extents, steps)) if all(extents) else 0
        if min(steps, default=0) < 0 or span * width < needed:
            has = f"{name} has shape {extents}, strides {steps}"
            _refuse(f"{has}: {needed} bytes from its start on are needed")
    elif _modes(extents, steps) != _modes(shape, strides):
        _refuse(f"{name} has shape {extents}, strides {steps}: shape {shape}, strides {strides} is accepted")
    if address % align:
        _refuse(f"{name} starts at {address:#x}: a multiple of {align} is accepted")
    return address


def _apart(name, start, count, other, begin, length):
    if start < begin + length and begin < start + count:
        _refuse(f"{name} overlaps {other}: buffers that lie apart are accepted")


class _Attribute(ctypes.Structure):
    _fields_ = [
        ("id", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60),
    ]


class _Config(ctypes.Structure):
    _fields_ = [
        ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(_Attribute)), ("count", ctypes.c_uint),
    ]


def _checked(status):
    if status:
        raise RuntimeError(f"{KERNEL}: the CUDA driver or NVRTC reports error {status}")


def _nvrtc():
    spec = importlib.util.find_spec("nvidia")
    folders = [pathlib.Path(p) for p in spec.submodule_search_locations or ()] if spec else []
    found = [p for folder in folders for p in sorted(folder.glob("*/lib/libnvrtc.so*"), reverse=True)]
    found += sorted(pathlib.Path("/usr/local/cuda/lib64").glob("libnvrtc.so*"), reverse=True)
    return ctypes.CDLL(str(found[0]) if found else "libnvrtc.so")


def _capability(device):
    """The compute capability of a GPU, as 90."""
    driver, major, minor = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_int()
    _checked(driver.cuDeviceGetAttribute(ctypes.byref(major), 75, device))
    _checked(driver.cuDeviceGetAttribute(ctypes.byref(minor), 76, device))
    return 10 * major.value + minor.value


@functools.cache
def _function(name, device, shared_bytes, large):
    """A kernel of the text, compiled for this GPU and loaded, with what it has to be allowed."""
    driver, nvrtc = ctypes.CDLL("libcuda.so.1"), _nvrtc()
    capability, program = _capability(device), ctypes.c_void_p()
    letter = "a" if capability >= 90 else ""
    flags = [f"--gpu-architecture=sm_{capability}{letter}".encode(), b"--std=c++17"]
    _checked(nvrtc.nvrtcCreateProgram(ctypes.byref(program), SOURCE.encode(), b"kernels.cu", 0, None, None))
    _checked(nvrtc.nvrtcCompileProgram(program, len(flags), (ctypes.c_char_p * len(flags))(*flags)))
    size = ctypes.c_size_t()
    _checked(nvrtc.nvrtcGetCUBINSize(program, ctypes.byref(size)))
    image = ctypes.create_string_buffer(size.value)
    _checked(nvrtc.nvrtcGetCUBIN(program, image))
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _checked(driver.cuModuleLoadData(ctypes.byref(module), image))
    _checked(driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode()))
    if shared_bytes:
        _checked(driver.cuFuncSetAttribute(function, 8, shared_bytes))
    if large:
        _checked(driver.cuFuncSetAttribute(function, 14, 1))
    return function


def _launch(name, device, stream, grid, block, shared_bytes, attribute, arguments, large=False):
    """Launch one kernel; attribute 6 is programmatic stream serialization, 2 a cooperative launch."""
    given = _Attribute(attribute, 0, 1)
    config = _Config(grid, block, shared_bytes, stream, ctypes.pointer(given), 1 if attribute else 0)
    places = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))
    function = _function(name, device, shared_bytes, large)
    _checked(ctypes.CDLL("libcuda.so.1").cuLaunchKernelEx(ctypes.byref(config), function, places, None))
'''

_GPU = '''

def _gpu(device, least, alone):
    """Refuse a GPU of another compute capability than one that is needed, alone or at least."""
    found = _capability(device)
    if found < least or (alone and found != least):
        _refuse(f"the GPU is sm_{found}: sm_{least}{'' if alone else ' and later'} is accepted")
'''

_MAPS = '''

@functools.lru_cache(maxsize=256)
def _tensor_map(name, start, element, dims, strides, box, steps, swizzle, promotion, fill):
    """The image of a tensor map, 128 bytes at a multiple of as many, which nobody changes."""
    memory = ctypes.create_string_buffer(255)
    image = (ctypes.c_char * 128).from_buffer(memory, -ctypes.addressof(memory) % 128)
    u64, u32 = ctypes.c_uint64 * len(dims), ctypes.c_uint32 * len(dims)
    status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        image, element, len(dims), ctypes.c_void_p(start), u64(*dims), u64(*strides), u32(*box),
        u32(*steps), 0, swizzle, promotion, fill,
    )
    if status:
        _refuse(f"cuTensorMapEncodeTiled of {name} reports error {status}")
    return image
'''

_NAMES = """\
import ctypes
import functools
import importlib.util
import math
import numbers
import operator
import pathlib

"""

_C_TYPES = {"u32": "c_uint32", "u64": "c_uint64", "float": "c_float"}


def python_launcher(record: LaunchRecord, source: str, library: str) -> str:
    """A Python module that launches the kernels of `source` on arrays of a library, of LIBRARIES.

    Raises UnsupportedError where the first kernel has the name of something else of the module.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.printing import launch_record
    >>> from layoutalg.codegen.program import launch_sequence
    >>> one = launch_record("nothing", launch_sequence([KernelBuilder("empty", threads=32).build()]), {})
    >>> "def launch():" in python_launcher(one, "", "torch")
    True
    """
    chosen = LIBRARIES[library]
    body = _COMMON.replace("DESCRIBE", chosen.describe).replace("CURRENT", chosen.current)
    body += _GPU if any(any(_needs(step)) for step in record.steps) else ""
    body += _MAPS if any(step.terms.maps for step in record.steps) else ""
    kernel = record.steps[0].kernel
    taken = re.findall(
        rf"^(?:def|class|import) {kernel}\b|^{kernel} = ", f"{_NAMES}{chosen.imports}\n{body}", re.M
    )
    if taken or iskeyword(kernel):
        raise UnsupportedError(f"the name {kernel}: something else of the module has it")
    return "\n".join(
        [
            f'"""Launches {record.problem} on arrays of {library}; see `launch`."""', "",
            *_NAMES.splitlines(),
            chosen.imports, "", f'KERNEL = "{kernel}"', f"SOURCE = {_quoted(source)}", "", "",
            *body.splitlines(), "", "", *_function(record, chosen), "",
            *(_operator(record, chosen) if library == "torch" else ()),
        ]
    )  # fmt: skip


def _quoted(source: str) -> str:
    """The text as a literal over several lines."""
    escaped = source.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return f'"""\\\n{escaped}"""'


def _function(record: LaunchRecord, library: Library) -> Iterator[str]:
    names = [b.name for b in record.given]
    values = [_keyword(p) for p in record.parameters]
    kinds = {name: kind for step in record.steps for name, kind in step.types.items()}
    yield f"def launch({', '.join([*names, *(['*', *values] if values else [])])}):"
    yield '    """Launch on the current stream.  Raises ValueError for what is not accepted.'
    yield ""
    yield from (f"    {b.name}: {b.view}{', written' if b.written else ''}" for b in record.given if b.view)
    yield '    """'
    yield "    device, stream = _current()"
    for least, alone in dict.fromkeys(needed for step in record.steps for needed in _needs(step)):
        yield f"    _gpu(device, {least}, {alone})"
    for p in record.parameters:
        if kinds[p.name] == "float":
            yield f'    {p.name} = _float("{p.name}", {p.name})'
        else:
            yield f'    {p.name} = _integer("{p.name}", {p.name}, {p.least}, {p.most}, {p.multiple})'
    for c in record.conditions:
        yield f'    if not ({render(c)}):\n        _refuse("{text(c)} is needed")'
    for b in record.given:
        yield f"    {b.name}_bytes = {render(b.bytes)}"
        yield f"    {b.name}_start = _buffer("
        yield f'        "{b.name}", {b.name}, device, {", ".join(map(str, _stated(b, library)))},'
        yield f"        {b.name}_bytes, {b.align_bytes},"
        yield "    )"
    for a, b in combinations(record.given, 2):
        if a.written or b.written:
            yield f'    _apart("{a.name}", {a.name}_start, {a.name}_bytes,'
            yield f'           "{b.name}", {b.name}_start, {b.name}_bytes)'
    for b in record.buffers:
        if b.name == SCRATCH:
            yield f"    scratch = {library.scratch.format(bytes=render(b.bytes))}"
            yield '    scratch_start = _describe("scratch", scratch)[0]'
    for step in record.steps:
        yield from _launch(step)


def _operator(record: LaunchRecord, library: Library) -> Iterator[str]:
    """The operator of a record whose arrays are stated; none where no array is given to it."""
    made = [b for b in record.given if b.written and not b.read and b.view]
    asked = [b for b in record.given if b not in made]
    if not asked or not all(b.view for b in record.given):
        return
    name, shown = record.steps[0].kernel, _shown(asked, made)
    numbers = [p.name for p in record.parameters if p.kind == "scalar" or p.least != p.most]
    kinds = {name: kind for step in record.steps for name, kind in step.types.items()}
    more = [x for x in numbers if x not in shown]
    types = [f"Tensor(a{n}!) {b.name}" if b.written else f"Tensor {b.name}" for n, b in enumerate(asked)]
    types += [f"{'float' if kinds[x] == 'float' else 'int'} {x}" for x in more]
    results = ", ".join(["Tensor"] * len(made))
    schema = f"({', '.join(types)}) -> " + (results if len(made) == 1 else f"({results})")
    given, updated = ", ".join([*(b.name for b in asked), *more]), tuple(b.name for b in asked if b.written)
    yield from ("", f"def _made({given}):", '    """The numbers of a launch and the new arrays, by name."""')
    for b in asked:
        rank = len(b.view.shape) if b.view else 0
        yield f"    if {b.name}.dim() != {rank}:"
        has = f"{b.name} has shape {{tuple({b.name}.shape)}}"
        yield f'        _refuse(f"{has}: {rank} modes are accepted")'
    yield from (f"    {x} = {value}" for x, value in shown.items() if x in numbers)
    yield f"    numbers = dict({', '.join(f'{x}={x}' for x in numbers)})"
    yield "    return numbers, {"
    for b in made:
        (kind, *_), shape, strides, _ = _stated(b, library)
        yield f'        "{b.name}": torch.empty_strided('
        yield f"            {shape}, {strides}, dtype=torch.{kind}, device={asked[0].name}.device"
        yield "        ),"
    yield from ("    }", "", "")
    back = ", ".join(f'made["{b.name}"]' for b in made)
    yield f'@torch.library.custom_op("layoutalg::{name}", mutates_args={updated}, device_types="cuda",'
    yield f'                         schema="{schema}")'
    yield f"def {name}({given}):"
    yield '    """Launch, as `launch` does; return what is new."""'
    yield f"    numbers, made = _made({given})"
    yield f"    launch({', '.join(f'{b.name}={b.name}' for b in asked)}, **made, **numbers)"
    yield from ([f"    return {back}"] if made else [])
    yield from ("", "", f"@{name}.register_fake", f"def _({given}):")
    yield f"    made = _made({given})[1]"
    yield from (f"    return {back or None}", "")


def _shown(asked: Iterable[LaunchBuffer], made: Iterable[LaunchBuffer]) -> dict[str, str]:
    """The integers that arrays show, as Python reads them off: an extent or a stride of a given array, or
    the stride of a mode without gaps behind it, of an array that is made."""
    shown: dict[str, str] = {}
    for b in asked:
        views = [("shape[{}]", b.view.shape), ("stride({})", b.view.strides)] if b.view else []
        for text_of, sizes in views:
            for n, size in enumerate(sizes):
                match size:
                    case Var(name):
                        shown.setdefault(name, f"{b.name}.{text_of.format(n)}")
                    case FloorDiv(Var(name), Const(each)):
                        shown.setdefault(name, f"{b.name}.{text_of.format(n)} * {each}")
    for b in made:
        shape, strides = (b.view.shape, b.view.strides) if b.view else ((), ())
        for n in reversed(range(len(shape) - 1)):
            if isinstance(step := strides[n], Var):
                shown.setdefault(step.name, render(simplify(shape[n + 1] * strides[n + 1])))
    return shown


def _stated(b: LaunchBuffer, library: Library) -> tuple[tuple[str, ...], str, str, str]:
    """The library's names of a buffer's type, its shape and strides, and the bytes of an element."""
    if b.view is None:
        return (), "None", "None", str(b.element_bytes)
    kind = b.view.dtype
    types = library.types.get(kind.name, (kind.numpy_name,))
    return (
        types,
        _tuple(map(render, b.view.shape)),
        _tuple(map(render, b.view.strides)),
        str(kind.nbytes),
    )


def _tuple(texts: Iterable[str]) -> str:
    """Texts of expressions as that of a tuple of Python."""
    parts = list(texts)
    return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"


def _needs(step: Step) -> Iterator[tuple[int, bool]]:
    """The compute capability that a kernel needs, and whether it runs on that alone, where it matters."""
    terms = step.terms
    if terms.target:
        yield int(terms.target.removeprefix("sm_").removesuffix("a")), True
    elif terms.maps or math.prod(terms.cluster) > 1:
        yield 90, False


def _keyword(p: Parameter) -> str:
    """An argument by name; an integer that can be one value alone need not be given."""
    return f"{p.name}={p.least}" if p.kind == "int" and p.least == p.most else p.name


def _launch(step: Step) -> Iterator[str]:
    terms = step.terms
    arguments = []
    for p in step.arguments:
        if p.kind == "pointer":
            arguments.append(f"ctypes.c_void_p({step.buffers[p.name]}_start)")
        else:
            arguments.append(f"ctypes.{_C_TYPES[step.types[p.name]]}({p.name})")
    for m in terms.maps:
        yield from _encoded(m, step.buffers[m.source.name])
        arguments.append(m.name)
    yield "    _launch("
    yield f'        "{step.kernel}", device, stream,'
    yield f"        ({', '.join(map(render, terms.grid))}), {tuple(terms.block)},"
    yield f"        {terms.dynamic_shared_bytes}, {2 if terms.cooperative else 6 if terms.early else 0},"
    yield f"        [{', '.join(arguments)}],"
    if LARGE_CLUSTER in terms.attributes:
        yield "        large=True,"
    yield "    )"


def _encoded(m: TensorMapParam, buffer: str) -> Iterator[str]:
    """A variable of a tensor map's name, with its image."""
    steps = m.element_strides or (1,) * m.rank
    kind, swizzle, promotion, fill = (
        number for name, (_, number) in map_enumerators(m).items() if name != "interleave"
    )
    yield f"    {m.name} = _tensor_map("
    yield f'        "{m.name}", {buffer}_start, {kind},'
    yield f"        {_tuple(map(render, m.dims))}, {_tuple(map(render, m.strides_bytes))},"
    yield f"        {_tuple(map(str, m.box))}, {_tuple(map(str, steps))}, {swizzle}, {promotion}, {fill},"
    yield "    )"
