"""Tests options as hosts pass them: text is parsed to values, and anything else gives a
sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tflgpu_plugin.options import TABLE, OptionError, Options, parse

# Python values as hosts pass them: everything is text.
GOOD = [
    ("is_precision_loss_allowed", "True", 1),
    ("is_precision_loss_allowed", "-1", -1),
    ("is_precision_loss_allowed", "0", 0),
    ("inference_preference", "1", 1),
    ("inference_preference", "balanced", 2),
    ("inference_preference", "TFLITE_GPU_INFERENCE_PREFERENCE_SUSTAINED_SPEED", 1),
    ("inference_priority1", "2", 2),
    ("inference_priority1", "MIN_MEMORY_USAGE", 3),
    ("inference_priority1", "TFLITE_GPU_INFERENCE_PRIORITY_MIN_LATENCY", 2),
    ("experimental_flags", "9", 9),
    ("enable_quantized_inference", "False", False),
    ("enable_quantized_inference", "1", True),
    ("max_delegated_partitions", "3", 3),
    ("max_delegated_partitions", "0", 1),
    ("max_delegated_partitions", "-2", 1),
    ("serialization_dir", "/tmp/x", "/tmp/x"),
    ("model_token", "mobilenet", "mobilenet"),
    ("adapter", "llvmpipe", "llvmpipe"),
    ("adapter", "0", "0"),
    ("device_id", "0", "0"),
    ("device_id", "01", "1"),
    ("exclude", "CONV_2D, scores/mul", ("CONV_2D", "scores/mul")),
    ("exclude", "['CONV_2D', 'a,b']", ("CONV_2D", "a,b")),
    ("exclude", "", ()),
    ("force", "true", True),
    ("capabilities", "documented-2019", "documented-2019"),
    ("capabilities", "all", "all"),
    ("double", "float32", "float32"),
    ("double", "refuse", "refuse"),
]
BAD = [
    ("is_precision_loss_allowed", "2"),
    ("inference_preference", "3"),
    ("inference_preference", "fast"),
    ("inference_priority1", "-1"),
    ("experimental_flags", "16"),
    ("experimental_flags", "x"),
    ("enable_quantized_inference", "yes"),
    ("max_delegated_partitions", "many"),
    ("serialization_dir", ""),
    ("adapter", ""),
    ("device_id", "-1"),
    ("device_id", "nvidia"),
    ("device_id", "\u0661"),
    ("exclude", "['a'"),
    ("exclude", "[1]"),
    ("exclude", "('a')"),
    ("force", "2"),
    ("capabilities", "documented-2020"),
    ("double", "True"),
]


@pytest.mark.parametrize(("name", "text", "value"), GOOD)
def test_a_valid_value(name: str, text: str, value: object) -> None:
    row = next(row for row in TABLE if row.name == name)
    assert getattr(parse({name: text}), row.stands_for or name) == value


@pytest.mark.parametrize(("name", "text"), BAD)
def test_a_bad_value_names_the_option_and_what_it_takes(name: str, text: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse({name: text})
    row = next(row for row in TABLE if row.name == name)
    assert f"Option {name!r} cannot be {text!r}; it takes {row.values}." == str(caught.value)


def test_an_unknown_key_lists_the_valid_ones() -> None:
    with pytest.raises(OptionError, match="no option 'adaptor'") as caught:
        parse({"adaptor": "x"})
    assert all(row.name in str(caught.value) for row in TABLE)


@pytest.mark.parametrize(
    ("key", "near"),
    [("adaptor", "adapter"), ("Device_ID", "device_id"), ("excludes", "exclude"),
     ("gpu_mem_limit", ""), ("\0", ""), ("a" * 100_000, "")],
)  # fmt: skip
def test_an_unknown_key_names_what_may_be_meant(key: str, near: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse({key: "1"})
    assert ("Did you mean" in str(caught.value)) == bool(near)
    assert not near or f"Did you mean {near!r}?" in str(caught.value)


@pytest.mark.parametrize("order", [1, -1])
def test_the_adapter_goes_before_the_number_of_a_device(order: int) -> None:
    """Programs that pass a device_id to every provider also pass it together with the user's
    choice."""
    given = dict([("adapter", "nvidia"), ("device_id", "0")][::order])
    assert parse(given).adapter == "nvidia"


def test_python_values_are_read_as_hosts_would_write_them() -> None:
    given = {"force": True, "max_delegated_partitions": 2, "exclude": ["ADD"], "adapter": None}
    assert parse(given) == parse({k: str(v) for k, v in given.items()})


def test_none_leaves_the_default() -> None:
    assert parse({row.name: "None" for row in TABLE}) == Options() == parse(None) == parse({})


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        ({}, None),
        ({"capabilities": "documented"}, 1),
        ({"capabilities": "documented-2019"}, 1),
        ({"capabilities": "documented", "max_delegated_partitions": "4"}, 4),
        ({"max_delegated_partitions": "4"}, 4),
    ],
)
def test_the_partition_limit(given: dict[str, str], limit: int | None) -> None:
    """There is no limit by default, except in the documented editions, whose default is one."""
    assert parse(given).max_delegated_partitions == limit


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({}, True),
        ({"experimental_flags": "0"}, False),
        ({"experimental_flags": "8"}, False),
        ({"experimental_flags": "0", "enable_quantized_inference": "True"}, True),
        ({"enable_quantized_inference": "False"}, False),
    ],
)
def test_whether_quantized_models_are_wanted(given: dict[str, str], wanted: bool) -> None:
    assert parse(given).quantized is wanted


@pytest.mark.parametrize("ranked", ["100", "120", "123", "200", "213", "231", "312", "321", "300"])
def test_valid_orders_of_priorities(ranked: str) -> None:
    parse({f"inference_priority{k}": p for k, p in enumerate(ranked, start=1)})


@pytest.mark.parametrize("ranked", ["000", "010", "102", "110", "101", "122", "222", "012"])
def test_invalid_orders_of_priorities(ranked: str) -> None:
    """Auto must come after all set priorities, the first must be set, and none may occur twice."""
    with pytest.raises(OptionError, match="contradict each other"):
        parse({f"inference_priority{k}": p for k, p in enumerate(ranked, start=1)})


def test_every_row_is_an_attribute_with_a_default() -> None:
    own = [row.name for row in TABLE if not row.stands_for]
    assert own == list(Options.__dataclass_fields__)
    for row in TABLE:
        assert row.default == getattr(Options(), row.stands_for or row.name)
        assert row.meaning.endswith(".") and row.values


@pytest.mark.adapter
@pytest.mark.parametrize("by_option", [True, False])
def test_an_unknown_form_says_what_may_be_meant(
    by_option: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.support import onnx_models
    from tflgpu_plugin import engine
    from tflgpu_plugin.cli import check
    from tflgpu_plugin.frontend import callbacks

    given = {"without": "stem,winograd_row"} if by_option else {}
    if not by_option:
        monkeypatch.setenv("TFLGPU_WITHOUT", "winograd_row")
    with pytest.raises(OptionError) as caught:
        engine.judge(parse(given))
    where = "The option without" if by_option else "TFLGPU_WITHOUT"
    start = f"{where} names 'winograd_row', which is neither a form nor an op."
    assert str(caught.value).startswith(f"{start} Did you mean 'winograd_rows'? The forms are: ")
    if by_option:  # which is read when a host hands it over
        with pytest.raises(OptionError, match="winograd_row"):
            callbacks.opened(parse(given))
    model = tmp_path / "model.onnx"
    model.write_bytes(onnx_models.convolutions())
    with pytest.raises(OptionError, match="winograd_row"):
        check.check(model, given)
    monkeypatch.setenv("TFLGPU_WITHOUT", "winograd_rows, squeeze_excite")
    found = engine.judge(parse({"without": "stem"})).target.without
    assert found == {"stem", "winograd_rows", "squeeze_excite"}
