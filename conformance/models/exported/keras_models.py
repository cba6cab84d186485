"""Networks of Keras: its applications, narrow and for small images, and layers that it expresses in
its own way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

APPLICATIONS: dict[str, dict[str, Any]] = {
    "MobileNet": {"alpha": 0.25},
    "MobileNetV2": {"alpha": 0.35},
    "MobileNetV3Small": {"alpha": 0.75, "include_preprocessing": True},
    "MobileNetV3Large": {"alpha": 0.75},
    "EfficientNetB0": {},
    "EfficientNetV2B0": {},
    "ResNet50": {},
    "ResNet50V2": {},
    "DenseNet121": {},
    "NASNetMobile": {},
    "Xception": {},
    "InceptionV3": {},
    "ConvNeXtTiny": {},
    "VGG16": {},
}
LARGER = {"InceptionV3": 96, "Xception": 96}  # what they take at least


def networks() -> dict[str, Callable[[], Any]]:
    """Returns the function that builds each model, by name; keras is needed."""
    import keras
    from keras import layers

    def application(name: str) -> Callable[[], Any]:
        size = LARGER.get(name, 64)

        def build() -> Any:
            settings = APPLICATIONS[name] | {"input_shape": (size, size, 3), "classes": 10}
            return getattr(keras.applications, name)(weights=None, **settings)

        return build

    def graph(shape: tuple[int, ...], body: Callable[[Any], Any], dtype: str = "float32") -> Any:
        given = keras.Input(shape, dtype=dtype, name="given")
        return keras.Model(given, body(given))

    def mlp() -> Any:
        return graph(
            (32,),
            lambda x: layers.Dense(5, "softmax")(
                layers.Dropout(0.1)(layers.Dense(16, "gelu")(layers.LayerNormalization()(x)))
            ),
        )

    def unet() -> Any:
        def body(x: Any) -> Any:
            high = layers.Conv2D(16, 3, padding="same", activation="relu")(x)
            low = layers.Conv2D(24, 3, padding="same", activation="swish")(
                layers.MaxPooling2D()(high)
            )
            up = layers.Conv2DTranspose(16, 2, 2)(layers.BatchNormalization()(low))
            return layers.Conv2D(2, 1, activation="sigmoid")(layers.Concatenate()([high, up]))

        return graph((32, 32, 3), body)

    def upsampled() -> Any:
        def body(x: Any) -> Any:
            y = layers.SeparableConv2D(12, 3, padding="same")(x)
            y = layers.UpSampling2D(2, interpolation="bilinear")(layers.PReLU()(y))
            y = layers.UpSampling2D(2)(layers.LeakyReLU()(y))
            return layers.Cropping2D(2)(layers.ZeroPadding2D(1)(y))

        return graph((16, 16, 3), body)

    def normalized() -> Any:
        def body(x: Any) -> Any:
            y = layers.GroupNormalization(4)(layers.Conv2D(16, 3)(x))
            y = layers.UnitNormalization()(layers.Activation("hard_silu")(y))
            y = layers.LayerNormalization()(layers.Activation("softplus")(y))
            return layers.GlobalAveragePooling2D()(layers.Activation("mish")(y))

        return graph((16, 16, 3), body)

    def attending() -> Any:
        def body(x: Any) -> Any:
            y = layers.Embedding(50, 32)(x)
            y = layers.Add()([y, layers.MultiHeadAttention(4, 8)(y, y)])
            y = layers.LayerNormalization()(y)
            y = layers.Add()([y, layers.Dense(32)(layers.Dense(64, "gelu")(y))])
            return layers.Dense(4)(layers.GlobalAveragePooling1D()(y))

        return graph((12,), body, "int32")

    def grouped() -> Any:
        def body(x: Any) -> Any:
            y = layers.Dense(32)(x)
            return layers.GroupQueryAttention(8, 4, 2)(y, y, use_causal_mask=True)

        return graph((10, 16), body)

    def recurrent(cell: str, both: bool, **settings: Any) -> Callable[[], Any]:
        def build() -> Any:
            layer = getattr(layers, cell)(16, return_sequences=True, **settings)
            layer = layers.Bidirectional(layer) if both else layer
            return graph((10, 8), lambda x: layers.Dense(3, "softmax")(layer(x)))

        return build

    def conv_lstm(both: bool) -> Callable[[], Any]:
        def build() -> Any:
            layer = layers.ConvLSTM2D(6, 3, padding="same", return_sequences=both)
            layer = layers.Bidirectional(layer) if both else layer
            return graph((5, 12, 10, 3), lambda x: layers.Dense(3)(layer(x)))

        return build

    def sound() -> Any:
        def body(x: Any) -> Any:
            y = layers.Conv1D(16, 9, 4, activation="elu")(x)
            y = layers.DepthwiseConv1D(3, padding="same")(layers.MaxPooling1D(2)(y))
            y = layers.Conv1D(8, 3, dilation_rate=2, activation="tanh")(y)
            return layers.Conv1DTranspose(4, 4, 2)(layers.AveragePooling1D(2)(y))

        return graph((400, 1), body)

    def volume() -> Any:
        def body(x: Any) -> Any:
            y = layers.Conv3D(8, 3, 2, activation="relu", padding="same")(x)
            return layers.Conv3DTranspose(4, 2, 2)(y)

        return graph((8, 8, 8, 2), body)

    def operations() -> Any:
        from keras import ops

        def body(x: Any) -> Any:
            a, b = ops.split(x, 2, axis=-1)
            y = ops.where(a > b, ops.sin(a), ops.exp(-ops.abs(b)))
            top, _ = ops.top_k(y, 3)
            low = ops.matmul(y, ops.transpose(y, (0, 2, 1)))
            picked = ops.take(y, np_indices, axis=1)
            rolled = ops.flip(ops.cumsum(picked, axis=1), axis=1)
            return [
                top,
                low,
                rolled,
                ops.einsum("bij,bkj->bik", y, rolled),
                ops.logsumexp(y, axis=-1),
            ]

        np_indices = [2, 0, 1, 2]
        return graph((6, 8), body)

    return {
        **{name.lower(): application(name) for name in APPLICATIONS},
        "mlp": mlp, "unet": unet, "upsampled": upsampled, "normalized": normalized,
        "attending": attending, "grouped": grouped, "sound": sound, "volume": volume,
        "operations": operations,
        "lstm": recurrent("LSTM", False), "lstm_both": recurrent("LSTM", True),
        "lstm_unrolled": recurrent("LSTM", False, unroll=True),
        "gru": recurrent("GRU", False), "gru_before": recurrent("GRU", False, reset_after=False),
        "rnn": recurrent("SimpleRNN", False),
        "conv_lstm": conv_lstm(False), "conv_lstm_both": conv_lstm(True),
    }  # fmt: skip
