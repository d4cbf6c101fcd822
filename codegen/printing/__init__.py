"""CUDA text of kernels, the conditions of their launch, and launchers in C++ and Python.

cuda         to_cuda, print_kernels: the CUDA C++ of a kernel, or of several in one file
value_types  the C++ types of registers, pointers and scalars
names        the names that a text defines and uses
record       LaunchRecord: kernels in order, their parameters, grids and buffers
cpp          cpp_launcher: a C++ function that checks the arguments of a launch and launches
python       python_launcher: the same for arrays of PyTorch and CuPy
standalone   cpp_program: the same with a main that allocates, launches and times; with_launcher: any by name
"""

from __future__ import annotations

from layoutalg.codegen.printing.cpp import cpp_header, cpp_launcher
from layoutalg.codegen.printing.cuda import print_kernels, to_cuda, without_clusters
from layoutalg.codegen.printing.python import LIBRARIES, python_launcher
from layoutalg.codegen.printing.record import (
    BufferView,
    LaunchAnswer,
    LaunchRecord,
    Step,
    buffer_lines,
    launch_answers,
    launch_record,
)
from layoutalg.codegen.printing.standalone import with_launcher
