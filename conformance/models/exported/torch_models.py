"""Networks written in torch: what converters spell in their own ways."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

TaggerShape = tuple[int, int, int, int, int]  # words, their width, units, layers, tags
SMALL_TAGGER: TaggerShape = (99, 24, 32, 2, 7)
# Huang, Xu and Yu, Bidirectional LSTM-CRF Models for Sequence Tagging
# (https://arxiv.org/abs/1508.01991): words of 50 dimensions, 300 units each way.
PUBLISHED_TAGGER: TaggerShape = (20_000, 50, 300, 1, 9)


def networks() -> dict[str, Callable[[], tuple[Any, dict[str, Any]]]]:
    """Returns recipes of networks by name; making them needs torch."""
    import torch
    from torch import nn

    class Tagger(nn.Module):
        """A recurrent network over words."""

        def __init__(self, cell: Any, both: bool, shape: TaggerShape = SMALL_TAGGER) -> None:
            super().__init__()
            words, width, units, layers, tags = shape
            self.words = nn.Embedding(words, width)
            self.cell = cell(width, units, num_layers=layers, batch_first=True, bidirectional=both)
            self.head = nn.Linear(units * (1 + both), tags)

        def forward(self, tokens: Any) -> Any:
            return self.head(self.cell(self.words(tokens))[0]).softmax(-1)

    class UNet(nn.Module):
        """Down, up by a transposed convolution, and joined."""

        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Sequential(
                nn.Conv2d(3, 16, 3, padding=1), nn.GroupNorm(4, 16), nn.SiLU()
            )
            self.low = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.Mish())
            self.up = nn.ConvTranspose2d(32, 16, 2, stride=2)
            self.head = nn.Conv2d(32, 2, 1)

        def forward(self, image: Any) -> Any:
            high = self.down(image)
            return self.head(torch.cat([high, self.up(self.low(high))], 1)).sigmoid()

    class SuperResolution(nn.Module):
        """Pixels shuffled, and a resized picture beside them."""

        def __init__(self, mode: str) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(3, 16, 3, padding=1), nn.PReLU(16), nn.Conv2d(16, 12, 3, padding=1),
                nn.PixelShuffle(2))  # fmt: skip
            self.up = nn.Upsample(scale_factor=2, mode=mode)

        def forward(self, image: Any) -> Any:
            return self.body(image) + self.up(image)

    class Detector(nn.Module):
        """A head of boxes as YOLO has it: distributions, anchors, strides."""

        def __init__(self) -> None:
            super().__init__()
            self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1), nn.BatchNorm2d(16), nn.SiLU())
            self.next = nn.Sequential(nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.SiLU())
            self.boxes, self.classes = nn.Conv2d(32, 64, 1), nn.Conv2d(32, 5, 1)

        def forward(self, image: Any) -> Any:
            x = self.next(self.stem(image))
            boxes = self.boxes(x).flatten(2).view(1, 4, 16, -1).softmax(2)
            bins = torch.arange(16, dtype=torch.float32).view(1, 1, 16, 1)
            left, right = (boxes * bins).sum(2).chunk(2, 1)
            scores = self.classes(x).flatten(2).sigmoid()
            best, which = scores.max(1)
            return torch.cat([-left, right, scores], 1), best, which

    class Warped(nn.Module):
        """A spatial transformer."""

        def __init__(self) -> None:
            super().__init__()
            self.place = nn.Sequential(nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(48, 6))

        def forward(self, image: Any) -> Any:
            near = self.place(image).view(-1, 2, 3) * 0.1 + torch.eye(2, 3)
            grid = nn.functional.affine_grid(near, list(image.shape), align_corners=False)
            return nn.functional.grid_sample(image, grid, align_corners=False)

    class Spoken(nn.Module):
        """Convolutions of one axis over sound."""

        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv1d(1, 16, 9, 4), nn.GELU(), nn.Conv1d(16, 32, 5, 2, groups=4), nn.ELU(),
                nn.ConvTranspose1d(32, 8, 4, 2), nn.InstanceNorm1d(8, affine=True), nn.Tanh(),
                nn.AvgPool1d(2))  # fmt: skip

        def forward(self, sound: Any) -> Any:
            return self.body(sound)

    class Attending(nn.Module):
        """torch's own layers of a transformer."""

        def __init__(self) -> None:
            super().__init__()
            layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True)
            self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
            self.mix = nn.MultiheadAttention(32, 4, batch_first=True)

        def forward(self, x: Any) -> Any:
            y = self.layers(x)
            return self.mix(y, x, x, need_weights=False)[0]

    class Indexed(nn.Module):
        """Rows gathered and scattered, masks, sums so far, the largest."""

        def forward(self, x: Any, at: Any) -> Any:
            picked = torch.gather(x, 1, at)
            spread = torch.zeros_like(x).scatter_add(1, at, picked)
            low = torch.tril(x[..., : x.shape[-2]])
            top, where = spread.topk(3, -1)
            return picked.cumsum(1), low, top, where, torch.where(x > 0, x, x.clamp(max=0) * 0.1)

    class Volume(nn.Module):
        """Convolutions of three axes."""

        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv3d(2, 8, 3, padding=1), nn.BatchNorm3d(8), nn.ReLU(), nn.MaxPool3d(2),
                nn.ConvTranspose3d(8, 4, 2, 2))  # fmt: skip

        def forward(self, x: Any) -> Any:
            return self.body(x)

    class Recommender(nn.Module):
        """Numbers and bags of categories, and the products of their vectors (DLRM)."""

        def __init__(self) -> None:
            super().__init__()
            self.tables = nn.ModuleList(
                nn.EmbeddingBag(50, 16, mode=mode) for mode in ("sum", "mean", "sum")
            )
            self.below = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
            self.above = nn.Sequential(nn.Linear(22, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, numbers: Any, places: Any, offsets: Any) -> Any:
            below = self.below(numbers)
            bags = [table(places[k], offsets[k]) for k, table in enumerate(self.tables)]
            each = torch.stack([below, *bags], 1)
            products = torch.bmm(each, each.transpose(1, 2))
            first, second = torch.tril_indices(4, 4, -1)
            return self.above(torch.cat([below, products[:, first, second]], 1)).sigmoid()

    def made(build: Callable[[], Any], **inputs: Callable[[], Any]) -> Callable[[], Any]:
        def recipe() -> tuple[Any, dict[str, Any]]:
            torch.manual_seed(0)
            return build().eval(), {name: one() for name, one in inputs.items()}

        return recipe

    def image(size: int = 32) -> Callable[[], Any]:
        return lambda: torch.rand(1, 3, size, size)

    def tokens(length: int = 12) -> Any:
        return torch.randint(0, 99, (1, length))

    return {
        "lstm_tagger": made(lambda: Tagger(nn.LSTM, True), tokens=tokens),
        "lstm_tagger_published": made(lambda: Tagger(nn.LSTM, True, PUBLISHED_TAGGER),
                                      tokens=lambda: tokens(30)),
        "gru_tagger": made(lambda: Tagger(nn.GRU, True), tokens=tokens),
        "rnn_tagger": made(lambda: Tagger(nn.RNN, False), tokens=tokens),
        "unet": made(UNet, image=image()),
        "sr_bicubic": made(lambda: SuperResolution("bicubic"), image=image()),
        "sr_bilinear": made(lambda: SuperResolution("bilinear"), image=image()),
        "detector": made(Detector, image=image()),
        "warped": made(Warped, image=image()),
        "spoken": made(Spoken, sound=lambda: torch.rand(1, 1, 800)),
        "attending": made(Attending, x=lambda: torch.rand(1, 10, 32)),
        "indexed": made(Indexed, x=lambda: torch.rand(2, 6, 8) - 0.5,
                        at=lambda: torch.randint(0, 6, (2, 4, 8))),
        "recommender": made(Recommender, numbers=lambda: torch.rand(6, 8),
                            places=lambda: torch.randint(0, 50, (3, 11)),
                            offsets=lambda: torch.tensor([[0, 2, 2, 5, 9, 10]] * 3)),
        "volume": made(Volume, x=lambda: torch.rand(1, 2, 8, 8, 8)),
    }  # fmt: skip
