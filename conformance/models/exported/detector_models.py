"""YOLO11 (https://docs.ultralytics.com/models/yolo11/), written in torch after its published table
of layers: of width 0.25 it has the 2.6 million parameters of YOLO11n, of 80 classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

BINS = 16  # of the distribution over each side of a box
CLASSES = 80


def yolo11(width: float, size: int) -> Callable[[], tuple[Any, dict[str, Any]]]:
    """Returns YOLO11 with channels times `width`, for square images of this many pixels (a multiple
    of 32). Its output holds boxes and scores: [1, 4 + 80, positions]."""

    def recipe() -> tuple[Any, dict[str, Any]]:
        import torch

        torch.manual_seed(0)
        return _network(width, size).eval(), {"images": torch.rand(1, 3, size, size)}

    return recipe


def _network(width: float, size: int) -> Any:
    import torch
    from torch import nn

    def conv(i: int, o: int, k: int = 1, s: int = 1, g: int = 1, act: bool = True) -> Any:
        parts = [nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=False), nn.BatchNorm2d(o)]
        return nn.Sequential(*parts, *([nn.SiLU()] if act else []))

    class Bottleneck(nn.Module):
        def __init__(self, c: int, inner: int) -> None:
            super().__init__()
            self.body = nn.Sequential(conv(c, inner, 3), conv(inner, c, 3))

        def forward(self, x: Any) -> Any:
            return x + self.body(x)

    class Csp(nn.Module):
        """The block C3k: two bottlenecks on one of two branches."""

        def __init__(self, c: int) -> None:
            super().__init__()
            h = c // 2
            self.one, self.other, self.out = conv(c, h), conv(c, h), conv(2 * h, c)
            self.body = nn.Sequential(Bottleneck(h, h), Bottleneck(h, h))

        def forward(self, x: Any) -> Any:
            return self.out(torch.cat([self.body(self.one(x)), self.other(x)], 1))

    class Split(nn.Module):
        """The block C3k2: half of the channels go through a bottleneck or a Csp."""

        def __init__(self, i: int, o: int, deep: bool, share: float = 0.5) -> None:
            super().__init__()
            c = int(o * share)
            self.first, self.last = conv(i, 2 * c), conv(3 * c, o)
            self.body = Csp(c) if deep else Bottleneck(c, c // 2)

        def forward(self, x: Any) -> Any:
            a, b = self.first(x).chunk(2, 1)
            return self.last(torch.cat([a, b, self.body(b)], 1))

    class Pools(nn.Module):
        """The block SPPF: maxima of 5, 9 and 13 pixels, joined with the map."""

        def __init__(self, c: int) -> None:
            super().__init__()
            self.first, self.last, self.pool = (
                conv(c, c // 2),
                conv(2 * c, c),
                nn.MaxPool2d(5, 1, 2),
            )

        def forward(self, x: Any) -> Any:
            maps = [self.first(x)]
            for _ in range(3):
                maps.append(self.pool(maps[-1]))
            return self.last(torch.cat(maps, 1))

    class Attention(nn.Module):
        """The block C2PSA: attention over the positions of half of the channels; keys are half as
        wide as values."""

        def __init__(self, c: int) -> None:
            super().__init__()
            h = c // 2
            self.heads = max(1, h // 64)
            self.wide, self.key = h // self.heads, h // self.heads // 2
            self.first, self.last = conv(c, c), conv(c, c)
            self.qkv = conv(h, h + 2 * self.key * self.heads, act=False)
            self.places, self.out = conv(h, h, 3, g=h, act=False), conv(h, h, act=False)
            self.mlp = nn.Sequential(conv(h, 2 * h), conv(2 * h, h, act=False))

        def attended(self, x: Any) -> Any:
            n, c, height, across = x.shape
            parts = self.qkv(x).view(n, self.heads, 2 * self.key + self.wide, height * across)
            q, k, v = parts.split([self.key, self.key, self.wide], 2)
            scores = (q.transpose(-2, -1) @ k * self.key**-0.5).softmax(-1)
            mixed = (v @ scores.transpose(-2, -1)).reshape(n, c, height, across)
            return self.out(mixed + self.places(v.reshape(n, c, height, across)))

        def forward(self, x: Any) -> Any:
            a, b = self.first(x).chunk(2, 1)
            b = b + self.attended(b)
            return self.last(torch.cat([a, b + self.mlp(b)], 1))

    class Head(nn.Module):
        """The head: boxes as distributions over the distances of their sides, and scores, from
        three maps."""

        def __init__(self, channels: list[int]) -> None:
            super().__init__()
            b, c = max(16, channels[0] // 4, 4 * BINS), max(channels[0], CLASSES)
            self.boxes = nn.ModuleList(
                nn.Sequential(conv(x, b, 3), conv(b, b, 3), nn.Conv2d(b, 4 * BINS, 1))
                for x in channels)  # fmt: skip
            self.scores = nn.ModuleList(
                nn.Sequential(conv(x, x, 3, g=x), conv(x, c), conv(c, c, 3, g=c), conv(c, c),
                              nn.Conv2d(c, CLASSES, 1))
                for x in channels)  # fmt: skip
            self.register_buffer(
                "bins", torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1)
            )
            sides = [size // stride for stride in (8, 16, 32)]
            middles = [torch.arange(side) + 0.5 for side in sides]
            grids = [torch.stack(torch.meshgrid(m, m, indexing="xy")).view(2, -1) for m in middles]
            steps = [torch.full((1, s * s), float(size // s)) for s in sides]
            self.register_buffer("middle", torch.cat(grids, 1))
            self.register_buffer("stride", torch.cat(steps, 1))

        def forward(self, maps: list[Any]) -> Any:
            boxes = torch.cat([f(x).flatten(2) for f, x in zip(self.boxes, maps, strict=True)], 2)
            scores = torch.cat([f(x).flatten(2) for f, x in zip(self.scores, maps, strict=True)], 2)
            shares = boxes.view(1, 4, BINS, -1).transpose(1, 2).softmax(1)
            near, far = (shares * self.bins).sum(1).chunk(2, 1)
            low, high = self.middle - near, self.middle + far
            placed = torch.cat([(low + high) / 2, high - low], 1) * self.stride
            return torch.cat([placed, scores.sigmoid()], 1)

    class Yolo(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            c1, c2, c3, c4, c5 = (int(c * width) for c in (64, 128, 256, 512, 1024))
            self.to8 = nn.Sequential(
                conv(3, c1, 3, 2), conv(c1, c2, 3, 2), Split(c2, c3, False, 0.25),
                conv(c3, c3, 3, 2), Split(c3, c4, False, 0.25))  # fmt: skip
            self.to16 = nn.Sequential(conv(c4, c4, 3, 2), Split(c4, c4, True))
            self.to32 = nn.Sequential(
                conv(c4, c5, 3, 2), Split(c5, c5, True), Pools(c5), Attention(c5)
            )
            self.up = nn.Upsample(scale_factor=2)
            self.mid, self.high = Split(c5 + c4, c4, False), Split(c4 + c4, c3, False)
            self.down16, self.low = conv(c3, c3, 3, 2), Split(c3 + c4, c4, False)
            self.down32, self.least = conv(c4, c4, 3, 2), Split(c4 + c5, c5, True)
            self.head = Head([c3, c4, c5])

        def forward(self, image: Any) -> Any:
            at8 = self.to8(image)
            at16 = self.to16(at8)
            at32 = self.to32(at16)
            mid = self.mid(torch.cat([self.up(at32), at16], 1))
            high = self.high(torch.cat([self.up(mid), at8], 1))
            low = self.low(torch.cat([self.down16(high), mid], 1))
            least = self.least(torch.cat([self.down32(low), at32], 1))
            return self.head([high, low, least])

    return Yolo()


RECIPES = {"yolo11": yolo11(0.125, 128)}
