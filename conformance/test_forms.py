"""Each form is refused by a quirk, by the option and by the variable: another form, or the CPU,
then gives the right result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from itertools import islice
from math import prod
from typing import Any

import pytest

from conformance import check, direct, host, node_cases
from conformance.cases import Case
from conformance.models import tflite as models
from conformance.node_cases import NodeCase
from tflgpu_plugin import ops
from tflgpu_plugin.compile import compiler, launches
from tflgpu_plugin.errors import Unsupported
from tflgpu_plugin.ir import Graph, Target, quirks
from tflgpu_plugin.ir.quirks import Quirk
from tflgpu_plugin.runtime import adapter

AnyCase = Case | NodeCase
MAX_ELEMENTS = 1 << 16  # elements of a case
REPLACED = 3  # other forms of each that are tried
REASON = "The form goes wrong on this driver, see issue 1."
# `normalize_sums` needs a product in front, as in tests/ops/test_summed_rows.py, which refuses it.
FORMS = tuple(form for form in ops.form_names() if form != "normalize_sums")


def graph_of(case: AnyCase) -> Graph:
    return node_cases.graph(case) if isinstance(case, NodeCase) else direct.graph(case)


def problem(case: AnyCase, target: Target, wanted: str | None) -> str:
    """Returns what is wrong with a case as planned for the target, or nothing."""
    if isinstance(case, NodeCase):
        return node_cases.check(case, {"": target}, wanted) or ""
    result = check.direct(case, {"": target}, wanted)
    return "" if result.passed else result.text


@cache
def cases_of(family: str) -> tuple[AnyCase, ...]:
    """Returns cases of a family that run, without large ones."""
    every: list[AnyCase] = [*check.family_cases(family), *node_cases.family_nodes(family)]
    running = [case for case in every if not case.refused]
    return tuple(
        case for case in running
        if sum(prod(t.shape) for t in graph_of(case).tensors.values()) < MAX_ELEMENTS
    )  # fmt: skip


def planned(graph: Graph, target: Target) -> set[str] | None:
    """Returns the forms of a plan; None if the graph stays on the CPU."""
    try:
        return {each.form for each in compiler.compile(graph, target).dispatches}
    except Unsupported as refused:
        assert refused.sentence.code in ("device.wrong_result", "option.without")
        return None


def found(form: str, own: Target) -> Iterator[tuple[AnyCase, Target]]:
    """Returns cases that use a form, and the targets for which this adapter selects it: as it
    is, as hardware, or if the form is preferred. There is one for each set of forms that
    replaces it."""
    plain = replace(own, software=False, vendor="amd")
    targets = own, *(replace(each, tuning={form: "always"}) for each in (own, plain))
    instead: set[frozenset[str] | None] = set()
    for family in {ops.rows()[op].family for op in ops.form_names()[form]}:
        for case in cases_of(family):
            graph = graph_of(case)
            for target in targets:
                if form not in (planned(graph, target) or ()):
                    continue
                other = planned(graph, replace(target, without=frozenset({form})))
                key = None if other is None else frozenset(other)
                if key not in instead:
                    instead.add(key)
                    yield case, target


@pytest.mark.adapter
@pytest.mark.parametrize("form", FORMS)
def test_a_form_and_what_takes_its_place_are_right(
    form: str, options: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = options.get("adapter")
    own = adapter.open_device(adapter.select(wanted)).target
    tried = 0
    for case, target in list(islice(found(form, own), REPLACED)):
        graph = graph_of(case)
        assert not problem(case, target, wanted)
        without = replace(target, without=frozenset({form}))
        with monkeypatch.context() as patch:
            patch.setattr(quirks, "QUIRKS", [Quirk(own.name, form, REASON)])
            others = planned(graph, target)
            assert others == planned(graph, without) and form not in (others or ())
            assert others is None or not problem(case, target, wanted)
        assert others is None or not problem(case, without, wanted)
        tried += 1
    assert tried, f"no case is computed in the form {form}"


@pytest.mark.parametrize("op", [op.name for op in ops.rows().values() if op.forms])
def test_without_any_of_its_forms_a_node_stays_on_the_cpu(op: str) -> None:
    row = ops.rows()[op]
    case = next(case for case in cases_of(row.family) if graph_of(case).nodes[0].op == op)
    with pytest.raises(Unsupported) as refused:
        launches.lower(graph_of(case), Target(without=frozenset(row.forms)))
    assert refused.value.sentence.code == "option.without"
    assert f"{op} has no form left:" in refused.value.sentence


def placed(case: Case, options: Mapping[str, Any]) -> host.Placement:
    """Returns where the node of a case is, whose answers in a host are right."""
    model, feeds = models.build(case), host.case_feeds(case)
    name, kernels = host.oracle(model)
    expected = host.cached_on_cpu(model, feeds, name, kernels)
    run = host.run_on_gpu(model, feeds, name, options, kernels)
    assert check.judge(case, feeds, expected, run.outputs).passed and not run.placement.failures
    return run.placement


def own_form(family: str, own: Target) -> Iterator[tuple[str, Case]]:
    """Returns, for each form that this adapter selects by itself, a host case with this form."""
    seen: set[str] = set()
    for case in cases_of(family):
        forms = planned(graph_of(case), own) or set() if isinstance(case, Case) else set()
        for form in forms.intersection(FORMS) - seen:
            assert isinstance(case, Case)
            seen.add(form)
            yield form, case


FAMILIES = tuple(dict.fromkeys(op.family for op in ops.rows().values() if op.forms))


@pytest.mark.adapter
@pytest.mark.parametrize("family", FAMILIES)
def test_in_a_host_forms_are_refused_one_by_one_and_all(
    family: str, options: Mapping[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is refused by the option, by the variable, and by quirks: the node is computed in another
    form, or left to the CPU with the reason."""
    own = adapter.open_device(adapter.select(options.get("adapter"))).target
    given = {**options, "force": True}
    for form, case in own_form(family, own):
        for names in ((form,), tuple(ops.form_names())):
            left = planned(graph_of(case), replace(own, without=frozenset(names)))
            assert left is None or names == (form,)
            wanted = int(left is not None)
            by_option = placed(case, {**given, "without": ",".join(names)})
            with monkeypatch.context() as patch:
                patch.setenv("TFLGPU_WITHOUT", ",".join(names))
                by_variable = placed(case, given)
            with monkeypatch.context() as patch:
                rows = [Quirk(own.name, name, REASON) for name in names]
                patch.setattr(quirks, "QUIRKS", rows)
                by_quirk = placed(case, given)
            assert by_option.on_gpu == by_variable.on_gpu == by_quirk.on_gpu == wanted
            if left is None:
                assert by_option.sentences == by_variable.sentences
                assert "The option without, or TFLGPU_WITHOUT" in by_option.sentences[0]
                assert by_quirk.sentences[0].endswith(REASON)
