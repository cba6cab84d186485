"""The WGSL of two launches that were fused horizontally: two launches of one kernel with equal
parameters, whose operands have different names. Each thread computes the results of the first
launch, then those of the second."""

from __future__ import annotations

import re
from functools import lru_cache

SUFFIX = "_2"  # of names that belong to the second launch
SECOND_OPERANDS = "second_operands"  # key in a variant: pairs (operand, that of the second launch)

_ENTRY = re.compile(r"@compute (@workgroup_size\(.*?\))\s*fn main\((.*?)\) \{", re.DOTALL)
_DECLARED = re.compile(r"^(?:fn|var(?:<\w+>)?|struct|alias|const) (\w+)", re.MULTILINE)
_BUILTIN = re.compile(r"@builtin\(\w+\) ")
# Names that the preamble makes for each operand (see `kernels.__init__`), and its parameters.
_OF_OPERAND = (
    "load put store epilogue place stride padded half padded_half bytes padded_bytes eight "
    "load_eight half_eight vector scalar off channels low scale zero pad"
)


@lru_cache(256)
def fused(main: str, renamed: tuple[tuple[str, str], ...]) -> str:
    """Returns the body of a kernel that does the work of the body `main` twice. The second time it
    uses other operands in place of some: `renamed` has (name, other name). Raises ValueError for a
    body without an entry point."""
    entry = _ENTRY.search(main)
    if entry is None:
        raise ValueError("a kernel without an entry point")
    size, arguments = entry.groups()
    plain = _BUILTIN.sub("", arguments)
    given = ", ".join(argument.split(":")[0].strip() for argument in plain.split(","))
    first = f"{main[: entry.start()]}fn first({plain}) {{{main[entry.end() :]}"
    own = {name: f"{name}{SUFFIX}" for name in _DECLARED.findall(first)}
    given_names = {
        f"{part}_{operand}": f"{part}_{other}"
        for operand, other in renamed
        for part in _OF_OPERAND.split()
    }

    def other_name(found: re.Match[str]) -> str:
        """Returns the name in the second part; a parameter may be called as a function is."""
        dot, name = found.groups()
        return f"{dot}{given_names.get(name) or (name if dot else own[name])}"

    words = re.compile(rf"(\.?)\b({'|'.join(map(re.escape, own | given_names))})\b")
    second = words.sub(other_name, first)
    calls = f"first({given}); first{SUFFIX}({given});"
    return f"{first}\n{second}\n@compute {size}\nfn main({arguments}) {{ {calls} }}\n"
