"""A small language model with seeded weights for LiteRT-LM, and its process:

    python -m tests.support.language_model BACKEND MODEL [ACTIVATIONS]

generates a text with the CPU, or with the GPU and this plugin, and prints it with how many nodes
are on the GPU. `packed` makes the file."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from conformance.models.tflite import Model
from conformance.models.tflite_file import schema
from tests.support.signatures import joined

WORDS, WIDTH, LENGTH, CHUNK = 64, 16, 64, 8
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
PROMPT = "w5 w9 w33 w2 w17"
CACHES = {"k_out": "kv_cache_k_0", "v_out": "kv_cache_v_0"}


def graph(tokens: int, scores: bool) -> bytes:
    """Returns one layer of attention over the cache, for this many tokens at once."""
    random = np.random.default_rng(7)
    table, query, last = (
        random.normal(size=size).astype(np.float32) * scale
        for size, scale in (((WORDS, WIDTH), 1), ((WIDTH, WIDTH), 0.25), ((WORDS, WIDTH), 1))
    )
    model, row, cache = Model(), (1, tokens, WIDTH), (1, LENGTH, 1, WIDTH)
    ids = model.input("tokens", (1, tokens), "i32")
    position = model.input("input_pos", (tokens,), "i32")
    caches = [model.input(name, cache) for name in CACHES.values()]
    mask = model.input("mask", (1, 1, tokens, LENGTH))

    def shaped(x: int, *shape: int) -> int:
        wanted = model.constant(np.int32(shape))
        return model.op("RESHAPE", [x, wanted], "ReshapeOptions", {"newShape": shape}, shape=shape)

    def dense(x: int, weights: Any, name: str = "") -> int:
        options = ("FullyConnectedOptions", {"keepNumDims": True})
        shape = (1, tokens, len(weights))
        given = [x, model.constant(weights)]
        return model.op("FULLY_CONNECTED", given, *options, shape=shape, name=name)

    x = model.op("GATHER", [model.constant(table), ids], "GatherOptions", {"axis": 0}, shape=row)
    bounds = [model.constant(np.int32([0])), model.constant(np.int32([1]))]
    first = model.op("SLICE", [position, *bounds], "SliceOptions", {}, shape=(1,), dtype="i32")
    pads = model.constant(np.int32([[1, 2]]))
    start = model.op("PAD", [first, pads], "PadOptions", {}, shape=(4,), dtype="i32")
    update = shaped(x, 1, tokens, 1, WIDTH)
    kept = [
        model.op("DYNAMIC_UPDATE_SLICE", [one, update, start], "DynamicUpdateSliceOptions", {},
                 shape=cache, name=name)
        for one, name in zip(caches, CACHES, strict=True)
    ]  # fmt: skip
    keys, values = (shaped(one, 1, LENGTH, WIDTH) for one in kept)
    shape = (1, tokens, LENGTH)
    product = ("BATCH_MATMUL", "BatchMatMulOptions")
    found = model.op(product[0], [dense(x, query), keys], product[1], {"adjY": True}, shape=shape)
    masked = model.op("ADD", [found, shaped(mask, *shape)], "AddOptions", {}, shape=shape)
    shares = model.op("SOFTMAX", [masked], "SoftmaxOptions", {"beta": 1.0}, shape=shape)
    mixed = model.op(product[0], [shares, values], product[1], {}, shape=row)
    for one in kept:
        model.output(one)
    if scores:
        model.output(dense(mixed, last, "logits"))
    return model.to_bytes()


def content() -> bytes:
    """Returns the model with its two signatures, whose outputs have the names of their inputs."""
    both = joined({f"prefill_{CHUNK}": graph(CHUNK, False), "decode": graph(1, True)})
    whole = schema().ModelT.InitFromPackedBuf(both, 0)
    for signature in whole.signatureDefs:
        for one in signature.outputs:
            name = one.name.decode() if isinstance(one.name, bytes) else one.name
            one.name = CACHES.get(name, name)
    builder = import_module("flatbuffers").Builder(1024)
    builder.Finish(whole.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def tokenizer() -> dict[str, Any]:
    words = [*SPECIAL, *(f"w{number}" for number in range(WORDS - len(SPECIAL)))]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": i, "content": word, "special": True, **flags} for i, word in enumerate(SPECIAL)]
    vocabulary = {word: number for number, word in enumerate(words)}
    return {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added,
        "normalizer": None, "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<unk>"},
    }  # fmt: skip


def packed(folder: Path) -> Path:
    """Writes the model's file into a folder."""
    builder = import_module("litert_lm_builder.litertlm_builder")
    metadata = import_module("litert_lm_builder.runtime.proto.llm_metadata_pb2").LlmMetadata()
    metadata.start_token.token_ids.ids.append(1)
    metadata.stop_tokens.add().token_ids.ids.append(2)
    metadata.max_num_tokens = LENGTH
    metadata.llm_model_type.generic_model.SetInParent()
    chosen = metadata.sampler_params
    chosen.type, chosen.k, chosen.p, chosen.temperature = 2, 1, 1.0, 1.0
    parts = {"model.tflite": content(), "metadata.pb": metadata.SerializeToString()}
    parts["tokenizer.json"] = json.dumps(tokenizer()).encode()
    for name, part in parts.items():
        (folder / name).write_bytes(part)
    made, kinds = builder.LitertLmFileBuilder(), builder.TfLiteModelType
    author = builder.Metadata(key="Authors", value="tflgpu", dtype=builder.DType.STRING)
    made.add_system_metadata(author)
    made.add_llm_metadata(str(folder / "metadata.pb"))
    made.add_hf_tokenizer(str(folder / "tokenizer.json"))
    made.add_tflite_model(str(folder / "model.tflite"), kinds.PREFILL_DECODE)
    result = folder / "small.litertlm"
    with result.open("wb") as file:
        made.build(file)
    return result


def generated(backend: str, path: str, activations: str = "") -> dict[str, Any]:
    """Returns a text, the nodes on the GPU and the runs of each partition."""
    import tflgpu_plugin
    from tflgpu_plugin.providers.tflite import litert_lm as ours

    if backend == "GPU":
        ours.use()
    host, kinds = import_module("litert_lm"), import_module("litert_lm._ffi").ActivationDataType
    engine = host.Engine(
        path, backend=getattr(host.Backend, backend)(), max_num_tokens=LENGTH,
        activation_data_type=kinds.from_str(activations) if activations else None,
    )  # fmt: skip
    session = engine.create_session()
    session.run_prefill([PROMPT])
    (text,) = session.run_decode().texts
    report = tflgpu_plugin.last_report()  # while the engine has the model
    nodes = f"{report.count('gpu')} of {len(report.nodes)}" if report else "0"
    runs = [one.runs for one in report.partitions] if report else []
    return {"text": text, "nodes": nodes, "runs": runs}


def main() -> None:
    print(json.dumps(generated(*sys.argv[1:])))


if __name__ == "__main__":
    main()
