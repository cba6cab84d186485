"""Generates text with onnxruntime-genai on the GPU, with any model folder of its builder.

    pip install onnxruntime-genai
    python -m onnxruntime_genai.models.builder -m NAME -o FOLDER -p int4 -e cpu
    python examples/chat.py FOLDER

Type a message and read the answer; an empty line ends. A folder without a tokenizer takes token ids
("5 17 42"). With --compare, which needs no terminal, one message is answered on the CPU, too, and
status 1 tells that the tokens differ."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import tflgpu_plugin

OURS = "TflGpuExecutionProvider"
CONFIGURATION, TOKENIZER = "genai_config.json", "tokenizer.json"


class Unusable(Exception):
    """There is no model to chat with; the text says why."""


@cache
def library() -> Any:
    """Returns onnxruntime-genai, which takes the library of our provider once. Raises Unusable."""
    try:
        og = import_module("onnxruntime_genai")
    except ImportError as error:
        raise Unusable(f"{error}. pip install onnxruntime-genai") from error
    og.register_execution_provider_library(OURS, tflgpu_plugin.get_library_path())
    return og


@dataclass
class Chat:
    """A model in memory. `words` and `ids` convert between text and tokens."""

    og: Any
    model: Any
    longest: int  # text that the model can take, in tokens
    ids: Callable[[str], Sequence[int]]
    words: Callable[[int], str]

    @staticmethod
    def of(og: Any, folder: Path, gpu: bool) -> Chat:
        """Opens the model of this folder. Raises Unusable."""
        if not (folder / CONFIGURATION).exists():
            raise Unusable(f"{folder} has no {CONFIGURATION}: see the docstring of this file")
        config = og.Config(str(folder))
        config.clear_providers()
        if gpu:
            config.append_provider(OURS)
        try:
            model = og.Model(config)
        except Exception as error:  # the library's exceptions have no common class
            raise Unusable(f"onnxruntime-genai cannot open {folder}: {error}") from error
        longest = int(json.loads((folder / CONFIGURATION).read_text())["model"]["context_length"])
        if not (folder / TOKENIZER).exists():
            return Chat(og, model, longest, _numbers, lambda token: f"{token} ")
        tokenizer = og.Tokenizer(model)
        return Chat(og, model, longest, tokenizer.encode, tokenizer.create_stream().decode)

    def generator(self, longest: int, batch: int = 1) -> Any:
        """Returns a generator of this batch, for texts of at most this many tokens."""
        settings = self.og.GeneratorParams(self.model)
        settings.set_search_options(
            max_length=min(longest, self.longest), do_sample=False, batch_size=batch
        )
        return self.og.Generator(self.model, settings)

    def answer(self, generator: Any, message: str, batch: int = 1) -> Iterator[list[int]]:
        """Appends a message to what was said before, and yields the next token of each row."""
        ids = np.array(self.ids(message), np.int32)
        generator.append_tokens(np.tile(ids, (batch, 1)))
        while not generator.is_done():
            generator.generate_next_token()
            yield [int(token) for token in generator.get_next_tokens()]


def _numbers(text: str) -> list[int]:
    try:
        return [*map(int, text.split())]
    except ValueError as error:
        raise Unusable(f"This folder has no {TOKENIZER}: type token ids. {error}") from error


def talk(chat: Chat, given: argparse.Namespace) -> None:
    """Answers lines of the standard input until one is empty, or the text is too long."""
    generator = chat.generator(given.longest)
    while message := input("> ").strip():
        start, made = time.perf_counter(), 0
        for (token,) in islice(chat.answer(generator, message), given.tokens):
            made += 1
            print(chat.words(token), end="", flush=True)
        spent = (time.perf_counter() - start) * 1e3 / max(made, 1)
        print(f"\n[{made} tokens, {spent:.1f} ms each]")


def compared(og: Any, folder: Path, given: argparse.Namespace) -> bool:
    """Prints both answers to one message; returns whether they are the same."""
    answers = []
    for gpu in (True, False):
        chat = Chat.of(og, folder, gpu)
        start = time.perf_counter()
        generator = chat.generator(given.longest, given.batch)
        answer = chat.answer(generator, given.compare, given.batch)
        tokens = [*islice(answer, given.tokens)]
        each = (time.perf_counter() - start) * 1e3 / len(tokens)
        answers.append(tokens)
        text = "".join(chat.words(row[0]) for row in tokens)
        print(f"{'GPU' if gpu else 'CPU'}, {each:.1f} ms a token: {text}")
        if gpu:
            print(tflgpu_plugin.last_report())
    same = answers[0] == answers[1]
    print("the same tokens" if same else "the tokens differ")
    return same


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python examples/chat.py",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tokens", type=int, default=60, help="of an answer, at most")
    parser.add_argument("--longest", type=int, default=500, help="text, in tokens")
    parser.add_argument("--compare", metavar="MESSAGE", help="answer this on the GPU and the CPU")
    parser.add_argument("--batch", type=int, default=1, help="rows of --compare")
    given = parser.parse_args(arguments)
    try:
        og = library()
        if given.compare:
            return int(not compared(og, given.folder, given))
        talk(Chat.of(og, given.folder, True), given)
    except (Unusable, RuntimeError) as error:  # genai's own: such as a text that is too long
        print(error, file=sys.stderr)
        return 2
    except (EOFError, KeyboardInterrupt):
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
