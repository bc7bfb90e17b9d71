"""Networks of src/ddl/nn/networks as Keras layers: same shapes and numbers of parameters, images channels last.

`build(name, shape, options)` with ours' options and the shape of samples, a dictionary; logits are fp32 whatever the policy. Where TensorFlow's way differs, with the same
sizes and work: windows of stride 2 are padded as "same" has it, at the end only (PyTorch: at both ends); weights start as Keras starts them.
Not here: networks that bench/training.py does not measure.
"""
import math

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

SMALL = 64  # images under this many pixels get the stem for small ones


def convolution(x, channels, kernel, stride=1, bias=True, padding="same"):
    return layers.Conv2D(channels, kernel, stride, padding=padding, use_bias=bias)(x)


def batch_norm(x):
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)


def dense(x, features, activation=None):
    return layers.Dense(features, activation=activation)(x)


def smallcnn(x, shape):
    for channels in (32, 64):
        x = layers.MaxPool2D(2)(layers.ReLU()(convolution(x, channels, 3)))
    return dense(dense(layers.Flatten()(x), 128, "relu"), shape["classes"])


def residual(x, width, stride, bottleneck):
    """He et al. 2016 (v1), the stride in the first 3x3."""
    kernels, after = ((1, 3, 1), 4 * width) if bottleneck else ((3, 3), width)
    short = x
    if stride != 1 or x.shape[-1] != after:
        short = batch_norm(convolution(x, after, 1, stride, False))
    for i, kernel in enumerate(kernels):
        last = i + 1 == len(kernels)
        x = batch_norm(convolution(x, after if last else width, kernel, stride if i == (1 if bottleneck else 0) else 1, False))
        if not last:
            x = layers.ReLU()(x)
    return layers.ReLU()(layers.Add()([x, short]))


def resnet(x, shape, blocks, bottleneck):
    small = shape["height"] < SMALL
    x = layers.ReLU()(batch_norm(convolution(x, 64, 3 if small else 7, 1 if small else 2, False)))
    if not small:
        x = layers.MaxPool2D(3, 2, "same")(x)
    for stage, count in enumerate(blocks):
        for block in range(count):
            x = residual(x, 64 << stage, 2 if stage and not block else 1, bottleneck)
    return dense(layers.GlobalAveragePooling2D()(x), shape["classes"])


def vgg11(x, shape):
    """Images of 32 pixels: five poolings leave one place, and the classifier has 512 hidden units."""
    if shape["height"] != 32:
        raise ValueError(f"[tensorflow_networks] vgg11 is here for images of 32 pixels only; got {shape['height']}")
    for channels in (64, 0, 128, 0, 256, 256, 0, 512, 512, 0, 512, 512, 0):
        x = layers.ReLU()(convolution(x, channels, 3)) if channels else layers.MaxPool2D(2)(x)
    x = layers.Flatten()(x)
    return dense(dense(dense(x, 512, "relu"), 512, "relu"), shape["classes"])


def alexnet(x, shape):
    """Images of 224 pixels: Krizhevsky 2014, as torchvision has it."""
    if shape["height"] != 224:
        raise ValueError(f"[tensorflow_networks] alexnet is here for images of 224 pixels only; got {shape['height']}")
    x = layers.ReLU()(convolution(layers.ZeroPadding2D(2)(x), 64, 11, 4, padding="valid"))
    x = layers.ReLU()(convolution(layers.MaxPool2D(3, 2)(x), 192, 5))
    x = layers.MaxPool2D(3, 2)(x)
    for channels in (384, 256, 256):
        x = layers.ReLU()(convolution(x, channels, 3))
    x = layers.Flatten()(layers.MaxPool2D(3, 2)(x))
    return dense(dense(dense(x, 4096, "relu"), 4096, "relu"), shape["classes"])


def relu6(x):
    return layers.ReLU(6.0)(batch_norm(x))


def mobilenetv2(x, shape):
    x = relu6(convolution(x, 32, 3, 2, False))
    for widen, channels, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            before, step, short = x.shape[-1], 1 if block else stride, x
            if widen != 1:
                x = relu6(convolution(x, before * widen, 1, 1, False))
            x = relu6(layers.DepthwiseConv2D(3, step, padding="same", use_bias=False)(x))
            x = batch_norm(convolution(x, channels, 1, 1, False))
            if step == 1 and before == channels:
                x = layers.Add()([x, short])
    x = layers.GlobalAveragePooling2D()(relu6(convolution(x, 1280, 1, 1, False)))
    return dense(x, shape["classes"])


def attend(x, other, heads, mask=None, causal=False):
    features = x.shape[-1]
    return layers.MultiHeadAttention(heads, features // heads)(x, other, attention_mask=mask, use_causal_mask=causal)


def layer_norm(x):
    return layers.LayerNormalization(epsilon=1e-5)(x)


def feed_forward(x, activation):
    return dense(dense(x, 4 * x.shape[-1], activation), x.shape[-1])


class Sinusoids(layers.Layer):
    """Words scaled by the root of their features, and places added: Vaswani et al. 2017, sections 3.4 and 3.5."""

    def build(self, shape):
        length, features = shape[1], shape[2]
        turn = np.arange(length)[:, None] * 10000.0 ** (-np.arange(0, features, 2) / features)
        self.table = np.stack((np.sin(turn), np.cos(turn)), 2).reshape(length, features).astype(np.float32)

    def call(self, x):
        return x * math.sqrt(x.shape[-1]) + tf.cast(self.table, x.dtype)


class Unpadded(layers.Layer):
    """Which keys may be seen, [batch, 1, words], by word number: 0 pads."""

    def call(self, words):
        return tf.not_equal(words, 0)[:, tf.newaxis, :]


class Places(layers.Layer):
    """Learnt places added to words; there may be more places than words."""

    def __init__(self, places, **named):
        super().__init__(**named)
        self.places = places

    def build(self, shape):
        self.table = self.add_weight(shape=(self.places, shape[-1]), initializer="random_normal", name="places")

    def call(self, x):
        return x + tf.cast(self.table[: x.shape[1]], x.dtype)


def transformer(source, target, shape, hidden=512, heads=8, depth=6):
    """Vaswani et al. 2017 as torch.nn's layers have it: norms after, one table of words for source, target and output."""
    words = layers.ReversibleEmbedding(shape["classes"], hidden)
    seen = Unpadded()(source)
    memory = Sinusoids()(words(source))
    for _ in range(depth):
        memory = layer_norm(layers.Add()([memory, attend(memory, memory, heads, seen)]))
        memory = layer_norm(layers.Add()([memory, feed_forward(memory, "relu")]))
    x = Sinusoids()(words(target))
    for _ in range(depth):
        x = layer_norm(layers.Add()([x, attend(x, x, heads, causal=True)]))
        x = layer_norm(layers.Add()([x, attend(x, memory, heads, seen)]))
        x = layer_norm(layers.Add()([x, feed_forward(x, "relu")]))
    return words(x, reverse=True)


def gpt(target, shape, hidden=768, depth=12, heads=12, places=0, vocabulary=0):
    """Radford et al. 2019: norms before, learnt places, the output shares the table of words."""
    words = layers.ReversibleEmbedding(vocabulary or shape["classes"], hidden)
    x = Places(places or shape["target"] - 1)(words(target))
    for _ in range(depth):
        y = layer_norm(x)
        x = layers.Add()([x, attend(y, y, heads, causal=True)])
        x = layers.Add()([x, feed_forward(layer_norm(x), "gelu")])
    return words(layer_norm(x), reverse=True)


IMAGES = {"smallcnn": smallcnn, "resnet18": lambda x, shape: resnet(x, shape, (2, 2, 2, 2), False), "resnet50": lambda x, shape: resnet(x, shape, (3, 4, 6, 3), True),
          "vgg11": vgg11, "alexnet": alexnet, "mobilenetv2": mobilenetv2}
NAMES = [*IMAGES, "transformer", "gpt"]


def inputs_of(shape):
    """Keras inputs, in the order in which `samples` of tensorflow_training.py gives values."""
    if shape["channels"]:
        return [tf.keras.Input((shape["height"], shape["width"], shape["channels"]))]
    word = [tf.keras.Input((shape["target"] - 1,), dtype="int32")]
    return [tf.keras.Input((shape["source"],), dtype="int32"), *word] if shape["source"] else word


def build(name, shape, options):
    """A Keras model. Errors: ValueError for a network, a shape or an option that is not here."""
    if name not in NAMES:
        raise ValueError(f"[tensorflow_networks] there is no {name}; expected one of {', '.join(NAMES)}")
    options = {key: value for key, value in options.items() if not (key == "dropout" and float(value) == 0)}
    own = {"hidden": "hidden", "layers": "depth", "heads": "heads", "seq": "places", "vocab": "vocabulary"}
    if unknown := [key for key in options if key not in own or name in IMAGES]:
        raise ValueError(f"[tensorflow_networks] {name} has no option {', '.join(unknown)}")
    inputs = inputs_of(shape)
    make = IMAGES.get(name) or {"transformer": transformer, "gpt": gpt}[name]
    logits = make(*inputs, shape, **{own[key]: int(value) for key, value in options.items()})
    return tf.keras.Model(inputs, layers.Activation("linear", dtype="float32")(logits), name=name)


def parameters(model):
    """Trainable ones: batch norm's running statistics do not count, as they do not in ours."""
    return int(sum(np.prod(each.shape) for each in model.trainable_variables))
