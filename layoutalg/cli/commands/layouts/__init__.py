"""Commands about a layout itself: one that is found, explained, converted or drawn.

solve       the strides, offsets or bases at which accesses have no conflicts or few sectors
synthesize  a layout without conflicts, or which have none, proved
explain     how a result comes about, step by step
index_code  code: the index function of a layout, in C, CUDA, CuTe C++, CuTe DSL, Triton or Python
identify    the layout that a function, an expression or an array of offsets is
convert     a layout in one notation, printed in another
draw        a layout, an access, an atom or a composition as a picture
drawings    what draw draws, by its options
"""

from __future__ import annotations

from layoutalg.cli.commands.layouts.convert import convert_command
from layoutalg.cli.commands.layouts.draw import draw_command, wants_color
from layoutalg.cli.commands.layouts.explain import explain_command
from layoutalg.cli.commands.layouts.identify import identify_command
from layoutalg.cli.commands.layouts.index_code import code_command
from layoutalg.cli.commands.layouts.solve import solve_command
from layoutalg.cli.commands.layouts.synthesize import certificate_sentence, synthesize_command

__all__ = [
    "certificate_sentence",
    "code_command",
    "convert_command",
    "draw_command",
    "explain_command",
    "identify_command",
    "solve_command",
    "synthesize_command",
    "wants_color",
]
