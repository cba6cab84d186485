"""Matrix products: every remainder of 4 in rows, depth and columns, ranks, broadcasting, and each
transposition, with fed and constant factors."""

from __future__ import annotations

from conformance.cases import Case, Input, constant, seeded
from conformance.node_cases import NodeCase

Shape = tuple[int, ...]


def batched(name: str, a: Shape, b: Shape, fixed: str = "", **options: bool) -> Case:
    """Returns a case of BATCH_MATMUL; `fixed` names the constant factors ("a", "b")."""
    inputs = [
        constant(seeded(*shape)) if factor in fixed else Input(shape)
        for factor, shape in (("a", a), ("b", b))
    ]
    return Case(name, "BATCH_MATMUL", 1, tuple(inputs), "BatchMatMulOptions", options)


CASES = [
    *(batched(f"remainder_{n}", (4 + n, 8 + n), (8 + n, 12 + n)) for n in range(4)),
    batched("one_row", (1, 17), (17, 9)),
    batched("depth_1", (9, 1), (1, 7)),
    batched("depth_1500", (3, 1500), (1500, 2)),
    batched("rank_3", (2, 5, 7), (2, 7, 6)),
    batched("rank_4", (2, 3, 5, 7), (2, 3, 7, 6)),
    batched("rank_5", (2, 2, 3, 5, 7), (2, 2, 3, 7, 6)),
    batched("matrix_for_all", (2, 3, 5, 7), (7, 6)),
    batched("first_matrix_for_all", (5, 7), (2, 3, 7, 6)),
    batched("broadcast_both", (2, 1, 5, 7), (3, 7, 6)),
    batched("transpose_b", (2, 5, 7), (2, 6, 7), adjY=True),
    batched("transpose_a", (2, 7, 5), (2, 7, 6), adjX=True),
    batched("transpose_both", (2, 7, 5), (2, 6, 7), adjX=True, adjY=True),
    batched("transpose_both_rank_4", (2, 3, 7, 5), (2, 3, 6, 7), adjX=True, adjY=True),
    batched("constant_matrix", (2, 3, 5, 7), (7, 6), "b"),
    batched("constant_matrix_transposed", (9, 7), (6, 7), "b", adjY=True),
    batched("constant_batch", (2, 5, 7), (2, 7, 6), "b"),
    batched("constant_batch_transposed", (2, 5, 7), (2, 6, 7), "b", adjY=True),
    batched("constant_first", (5, 7), (2, 7, 6), "a"),
    batched("constant_first_transposed", (7, 5), (2, 7, 6), "a", adjX=True),
    batched("attention", (2, 4, 33, 16), (2, 4, 33, 16), adjY=True),
    batched("many_rows", (300, 20), (20, 9)),
]


def product(name: str, a: Shape, b: Shape, fixed: str = "", **attributes: bool) -> NodeCase:
    """Returns a node case; `fixed` names the constant factors ("a", "b")."""
    inputs = [
        constant(seeded(*shape)) if factor in fixed else Input(shape)
        for factor, shape in (("a", a), ("b", b))
    ]
    depth = a[-2] if attributes.get("transpose_a") else a[-1]
    return NodeCase(name, "matmul", tuple(inputs), attributes, terms=depth)


NODES = [
    *(product(f"remainder_{n}", (4 + n, 8 + n), (8 + n, 12 + n)) for n in range(4)),
    product("one_row", (1, 17), (17, 9)),
    product("one_column", (9, 17), (17, 1)),
    product("depth_1", (9, 1), (1, 7)),
    product("depth_5000", (3, 5000), (5000, 2)),
    product("rank_3", (2, 5, 7), (2, 7, 6)),
    product("rank_4", (2, 3, 5, 7), (2, 3, 7, 6)),
    product("rank_5", (2, 2, 3, 5, 7), (2, 2, 3, 7, 6)),
    product("matrix_for_all", (2, 3, 5, 7), (7, 6)),
    product("first_matrix_for_all", (5, 7), (2, 3, 7, 6)),
    product("broadcast_both", (2, 1, 5, 7), (3, 7, 6)),
    product("transpose_b", (2, 5, 7), (2, 6, 7), transpose_b=True),
    *(product(f"transpose_b_{n}", (3, 8 + n), (4 + n, 8 + n), transpose_b=True) for n in range(4)),
    product("transpose_a", (2, 7, 5), (2, 7, 6), transpose_a=True),
    product("transpose_both", (2, 7, 5), (2, 6, 7), transpose_a=True, transpose_b=True),
    product("constant_matrix", (2, 3, 5, 7), (7, 6), "b"),
    product("constant_matrix_transposed", (9, 7), (6, 7), "b", transpose_b=True),
    product("constant_batch", (2, 5, 7), (2, 7, 6), "b"),
    product("constant_first", (5, 7), (2, 7, 6), "a"),
    product("many_rows", (300, 20), (20, 9)),
    product("rank_6", (2, 1, 2, 3, 5, 7), (2, 1, 2, 3, 7, 6)),
    product("rank_6_transpose_both", (2, 1, 2, 3, 7, 5), (2, 1, 2, 3, 6, 7), transpose_a=True,
            transpose_b=True),
    product("rank_7_constant_matrix", (1, 2, 1, 2, 3, 5, 7), (7, 6), "b"),
    product("rank_6_constant_matrix_transposed", (2, 1, 2, 3, 5, 7), (6, 7), "b",
            transpose_b=True),
    product("rank_6_constant_batch", (2, 1, 2, 3, 5, 7), (2, 1, 2, 3, 7, 6), "b"),
    NodeCase("broadcast_rank_6", "matmul", (Input((2, 1, 2, 3, 5, 7)), Input((7, 6)))),
    NodeCase("broadcast_rank_8", "matmul", (Input((2, 1, 3, 1, 2, 1, 5, 7)),
             Input((2, 1, 2, 2, 3, 7, 6)))),
    NodeCase("no_fit", "matmul", (Input((2, 3)), Input((4, 5))), refused=True),
]  # fmt: skip
