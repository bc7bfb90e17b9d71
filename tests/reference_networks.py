"""The networks of src/ddl/nn/networks once more, in plain torch.nn, from their papers: what ours are held against.

`build(name, **options)` with the options and sample shape of the C++ side. State dicts have the same names.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

SMALL = 64  # images under this many pixels get the stem for small ones


class Plain(nn.Module):
    """A classifier whose forward takes the samples as the dump names them."""

    def forward(self, given):
        return {"logits": self.classify(given["images"])}


def relu():
    return nn.ReLU(inplace=True)


class Sequence(Plain):
    def __init__(self, *layers, **named):
        super().__init__()
        for i, layer in enumerate(layers):
            self.add_module(str(i), layer)
        for name, layer in named.items():
            self.add_module(name, layer)

    def classify(self, x):
        for layer in self.children():
            x = layer(x)
        return x


def mlp(shape, hidden=512, layers=2):
    sizes = [shape.pixels] + [hidden] * layers
    named = {}
    for i in range(layers):
        named[f"fc{i + 1}"] = nn.Linear(sizes[i], sizes[i + 1])
        named[f"relu{i + 1}"] = relu()
    named[f"fc{layers + 1}"] = nn.Linear(sizes[-1], shape.classes)
    return Sequence(**{"flatten": nn.Flatten(), **named})


def lenet(shape):
    pad = 2 if shape.height < 32 else 0
    side = ((shape.height + 2 * pad - 4) // 2 - 4) // 2
    return Sequence(conv1=nn.Conv2d(shape.channels, 6, 5, padding=pad), relu1=relu(), pool1=nn.MaxPool2d(2), conv2=nn.Conv2d(6, 16, 5),
                    relu2=relu(), pool2=nn.MaxPool2d(2), flatten=nn.Flatten(), fc1=nn.Linear(16 * side * side, 120), relu3=relu(),
                    fc2=nn.Linear(120, 84), relu4=relu(), fc3=nn.Linear(84, shape.classes))


def smallcnn(shape):
    return Sequence(nn.Conv2d(shape.channels, 32, 3, padding=1), relu(), nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), relu(),
                    nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * (shape.height // 4) * (shape.width // 4), 128), relu(),
                    nn.Linear(128, shape.classes))


class Residual(nn.Module):
    """Both blocks of He et al. 2016 (v1): `widths` and kernels of its convolutions, the stride in the 3x3 that comes first."""

    def __init__(self, before, width, stride, bottleneck):
        super().__init__()
        kernels = (1, 3, 1) if bottleneck else (3, 3)
        after = width * (4 if bottleneck else 1)
        channels = [before] + [width] * (len(kernels) - 1) + [after]
        self.count = len(kernels)
        for i, kernel in enumerate(kernels):
            step = stride if i == (1 if bottleneck else 0) else 1
            self.add_module(f"conv{i + 1}", nn.Conv2d(channels[i], channels[i + 1], kernel, step, kernel // 2, bias=False))
            self.add_module(f"bn{i + 1}", nn.BatchNorm2d(channels[i + 1]))
        self.downsample = None
        if stride != 1 or before != after:
            self.downsample = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        self.after = after

    def forward(self, x):
        y = x
        for i in range(1, self.count + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.count:
                y = F.relu_(y)
        return F.relu_(y.add_(x if self.downsample is None else self.downsample(x)))


BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


class ResNet(Plain):
    def __init__(self, shape, depth, classes=True):
        super().__init__()
        self.small = shape.height < SMALL
        self.conv1 = nn.Conv2d(shape.channels, 64, 3 if self.small else 7, 1 if self.small else 2, 1 if self.small else 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        before = 64
        for stage, blocks in enumerate(BLOCKS[depth]):
            layers = []
            for block in range(blocks):
                layers.append(Residual(before, 64 << stage, 2 if stage and not block else 1, depth >= 50))
                before = layers[-1].after
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.features = before
        if classes:
            self.fc = nn.Linear(before, shape.classes)

    def encode(self, x):
        x = F.relu_(self.bn1(self.conv1(x)))
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return x.mean((2, 3))

    def classify(self, x):
        return self.fc(self.encode(x))


class PreActivation(nn.Module):
    """He et al. 2016b: batch norm and ReLU before each convolution; the short cut leaves after the first pair."""

    def __init__(self, before, width, stride):
        super().__init__()
        after = 4 * width
        self.bn1, self.conv1 = nn.BatchNorm2d(before), nn.Conv2d(before, width, 1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(width), nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn3, self.conv3 = nn.BatchNorm2d(width), nn.Conv2d(width, after, 1, bias=False)
        self.downsample = nn.Conv2d(before, after, 1, stride, bias=False) if stride != 1 or before != after else None

    def forward(self, x):
        start = F.relu_(self.bn1(x))
        y = self.conv1(start)
        y = self.conv2(F.relu_(self.bn2(y)))
        y = self.conv3(F.relu_(self.bn3(y)))
        return y.add_(x if self.downsample is None else self.downsample(start))


class ResNetV2(Plain):
    def __init__(self, shape, depth):
        super().__init__()
        self.small = shape.height < SMALL
        self.conv1 = nn.Conv2d(shape.channels, 64, 3 if self.small else 7, 1 if self.small else 2, 1 if self.small else 3, bias=False)
        before = 64
        for stage, blocks in enumerate(BLOCKS[depth]):
            layers = []
            for block in range(blocks):
                layers.append(PreActivation(before, 64 << stage, 2 if stage and not block else 1))
                before = 256 << stage
            self.add_module(f"layer{stage + 1}", nn.Sequential(*layers))
        self.bn = nn.BatchNorm2d(before)
        self.fc = nn.Linear(before, shape.classes)

    def classify(self, x):
        x = self.conv1(x)
        if not self.small:
            x = F.max_pool2d(x, 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(F.relu_(self.bn(x)).mean((2, 3)))


class Tower(Plain):
    """Features, an average pool, a classifier: VGG, AlexNet, MobileNetV2."""

    def __init__(self, features, pool, classifier):
        super().__init__()
        self.features, self.pool, self.classifier = features, pool, classifier

    def classify(self, x):
        return self.classifier(torch.flatten(self.pool(self.features(x)), 1))


def vgg(shape, depth, dropout):
    small = shape.height < SMALL
    plan = {11: "1 M 2 M 4 4 M 8 8 M 8 8 M", 16: "1 1 M 2 2 M 4 4 4 M 8 8 8 M 8 8 8 M"}[depth].split()
    layers, before, side = [], shape.channels, shape.height
    for item in plan:
        if item == "M":
            layers.append(nn.MaxPool2d(2) if side > 1 else nn.Identity())
            side = max(1, side // 2)
        else:
            layers += [nn.Conv2d(before, 64 * int(item), 3, padding=1), relu()]
            before = 64 * int(item)
    pool, hidden = (1, 512) if small else (7, 4096)
    classifier = nn.Sequential(nn.Linear(512 * pool * pool, hidden), relu(), nn.Dropout(dropout), nn.Linear(hidden, hidden), relu(),
                               nn.Dropout(dropout), nn.Linear(hidden, shape.classes))
    return Tower(nn.Sequential(*layers), nn.AdaptiveAvgPool2d(pool), classifier)


def alexnet(shape, dropout):
    small = shape.height < SMALL
    first = nn.Conv2d(shape.channels, 64, 3, 1, 1) if small else nn.Conv2d(shape.channels, 64, 11, 4, 2)

    def pool():
        return nn.MaxPool2d(2) if small else nn.MaxPool2d(3, 2)

    features = nn.Sequential(first, relu(), pool(), nn.Conv2d(64, 192, 5, padding=2), relu(), pool(), nn.Conv2d(192, 384, 3, padding=1), relu(),
                             nn.Conv2d(384, 256, 3, padding=1), relu(), nn.Conv2d(256, 256, 3, padding=1), relu(), pool())
    flat, hidden = (256 * (shape.height // 8) * (shape.width // 8), 1024) if small else (256 * 36, 4096)
    classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(flat, hidden), relu(), nn.Dropout(dropout), nn.Linear(hidden, hidden), relu(),
                               nn.Linear(hidden, shape.classes))
    return Tower(features, nn.Identity() if small else nn.AdaptiveAvgPool2d(6), classifier)


def conv_bn_relu6(before, after, kernel, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(before, after, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(after),
                         nn.ReLU6(inplace=True))


class InvertedResidual(nn.Module):
    def __init__(self, before, after, stride, widen):
        super().__init__()
        wide = before * widen
        layers = [conv_bn_relu6(before, wide, 1)] if widen != 1 else []
        layers += [conv_bn_relu6(wide, wide, 3, stride, wide), nn.Conv2d(wide, after, 1, bias=False), nn.BatchNorm2d(after)]
        self.conv = nn.Sequential(*layers)
        self.shortcut = stride == 1 and before == after

    def forward(self, x):
        return self.conv(x) + x if self.shortcut else self.conv(x)


def mobilenetv2(shape, dropout):
    small = shape.height < SMALL
    layers, before = [conv_bn_relu6(shape.channels, 32, 3, 1 if small else 2)], 32
    for widen, channels, blocks, stride in ((1, 16, 1, 1), (6, 24, 2, 1 if small else 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
                                            (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(blocks):
            layers.append(InvertedResidual(before, channels, 1 if block else stride, widen))
            before = channels
    layers.append(conv_bn_relu6(before, 1280, 1))
    return Tower(nn.Sequential(*layers), nn.AdaptiveAvgPool2d(1), nn.Sequential(nn.Dropout(dropout), nn.Linear(1280, shape.classes)))


class ConvBnRelu(nn.Module):
    def __init__(self, before, after, kernel, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(before, after, kernel, stride, padding, bias=False)
        self.bn = nn.BatchNorm2d(after, eps=0.001)

    def forward(self, x):
        return F.relu_(self.bn(self.conv(x)))


class Mixed(nn.Module):
    """Branches that are joined: each a list of (name, channels, kernel, stride, padding), or a pooling before such a list.
    A branch whose last item is a list ends in two convolutions of the same input."""

    def __init__(self, before, branches):
        super().__init__()
        self.branches, self.after = [], 0
        for pool, layers in branches:
            width, names = before, []
            for item in layers:
                ends = item if isinstance(item, list) else [item]
                for name, channels, kernel, stride, padding in ends:
                    self.add_module(name, ConvBnRelu(width, channels, kernel, stride, padding))
                names.append([end[0] for end in ends])
                width = sum(end[1] for end in ends)
            self.branches.append((pool, names))
            self.after += width

    def forward(self, x):
        joined = []
        for pool, names in self.branches:
            y = pool(x) if pool else x
            for ends in names:
                several = [getattr(self, name)(y) for name in ends]
                y = several[0] if len(several) == 1 else torch.cat(several, 1)
            joined.append(y)
        return torch.cat(joined, 1)


def average(x):
    return F.avg_pool2d(x, 3, 1, 1)


def maximum(x):
    return F.max_pool2d(x, 3, 2)


def mixed_a(before, pooled):
    return Mixed(before, [(None, [("branch1x1", 64, 1, 1, 0)]),
                          (None, [("branch5x5_1", 48, 1, 1, 0), ("branch5x5_2", 64, 5, 1, 2)]),
                          (None, [("branch3x3dbl_1", 64, 1, 1, 0), ("branch3x3dbl_2", 96, 3, 1, 1), ("branch3x3dbl_3", 96, 3, 1, 1)]),
                          (average, [("branch_pool", pooled, 1, 1, 0)])])


def mixed_b(before):
    return Mixed(before, [(None, [("branch3x3", 384, 3, 2, 0)]),
                          (None, [("branch3x3dbl_1", 64, 1, 1, 0), ("branch3x3dbl_2", 96, 3, 1, 1), ("branch3x3dbl_3", 96, 3, 2, 0)]),
                          (maximum, [])])


ROW, COLUMN = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))


def mixed_c(before, narrow):
    return Mixed(before, [(None, [("branch1x1", 192, 1, 1, 0)]),
                          (None, [("branch7x7_1", narrow, 1, 1, 0), ("branch7x7_2", narrow, *ROW), ("branch7x7_3", 192, *COLUMN)]),
                          (None, [("branch7x7dbl_1", narrow, 1, 1, 0), ("branch7x7dbl_2", narrow, *COLUMN), ("branch7x7dbl_3", narrow, *ROW),
                                  ("branch7x7dbl_4", narrow, *COLUMN), ("branch7x7dbl_5", 192, *ROW)]),
                          (average, [("branch_pool", 192, 1, 1, 0)])])


def mixed_d(before):
    return Mixed(before, [(None, [("branch3x3_1", 192, 1, 1, 0), ("branch3x3_2", 320, 3, 2, 0)]),
                          (None, [("branch7x7x3_1", 192, 1, 1, 0), ("branch7x7x3_2", 192, *ROW), ("branch7x7x3_3", 192, *COLUMN),
                                  ("branch7x7x3_4", 192, 3, 2, 0)]),
                          (maximum, [])])


def mixed_e(before):
    def both(name):
        return [(f"{name}a", 384, (1, 3), 1, (0, 1)), (f"{name}b", 384, (3, 1), 1, (1, 0))]

    return Mixed(before, [(None, [("branch1x1", 320, 1, 1, 0)]),
                          (None, [("branch3x3_1", 384, 1, 1, 0), both("branch3x3_2")]),
                          (None, [("branch3x3dbl_1", 448, 1, 1, 0), ("branch3x3dbl_2", 384, 3, 1, 1), both("branch3x3dbl_3")]),
                          (average, [("branch_pool", 192, 1, 1, 0)])])


class AuxiliaryHead(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv0, self.conv1, self.fc = ConvBnRelu(768, 128, 1), ConvBnRelu(128, 768, 5), nn.Linear(768, classes)

    def forward(self, x):
        x = F.avg_pool2d(x, 5, 3) if x.shape[2] >= 17 else F.adaptive_avg_pool2d(x, 5)
        return self.fc(self.conv1(self.conv0(x)).mean((2, 3)))


class Inception(nn.Module):
    def __init__(self, shape, dropout):
        super().__init__()
        self.Conv2d_1a_3x3 = ConvBnRelu(shape.channels, 32, 3, 2)
        self.Conv2d_2a_3x3, self.Conv2d_2b_3x3 = ConvBnRelu(32, 32, 3), ConvBnRelu(32, 64, 3, 1, 1)
        self.Conv2d_3b_1x1, self.Conv2d_4a_3x3 = ConvBnRelu(64, 80, 1), ConvBnRelu(80, 192, 3)
        self.middle, self.end, before = [], [], 192
        for name, make in (("5b", lambda b: mixed_a(b, 32)), ("5c", lambda b: mixed_a(b, 64)), ("5d", lambda b: mixed_a(b, 64)), ("6a", mixed_b),
                           ("6b", lambda b: mixed_c(b, 128)), ("6c", lambda b: mixed_c(b, 160)), ("6d", lambda b: mixed_c(b, 160)),
                           ("6e", lambda b: mixed_c(b, 192)), ("7a", mixed_d), ("7b", mixed_e), ("7c", mixed_e)):
            block = make(before)
            self.add_module(f"Mixed_{name}", block)
            (self.end if name[0] == "7" else self.middle).append(f"Mixed_{name}")
            before = block.after
        self.AuxLogits = AuxiliaryHead(shape.classes)
        self.dropout = nn.Dropout(dropout)
        self.fc = nn.Linear(2048, shape.classes)

    def forward(self, given):
        x = self.Conv2d_2b_3x3(self.Conv2d_2a_3x3(self.Conv2d_1a_3x3(given["images"])))
        x = self.Conv2d_4a_3x3(self.Conv2d_3b_1x1(F.max_pool2d(x, 3, 2)))
        x = F.max_pool2d(x, 3, 2)
        for name in self.middle:
            x = getattr(self, name)(x)
        auxiliary = self.AuxLogits(x)
        for name in self.end:
            x = getattr(self, name)(x)
        return {"logits": self.fc(self.dropout(x.mean((2, 3)))), "auxiliary": auxiliary}


def sinusoids(length, features, dtype):
    """Vaswani et al. 2017, section 3.5, rounded to fp32 as a table of constants is."""
    place = torch.arange(length, dtype=torch.float64).unsqueeze(1)
    turn = place * torch.pow(10000.0, -torch.arange(0, features, 2, dtype=torch.float64) / features)
    return torch.stack((turn.sin(), turn.cos()), 2).flatten(1).float().to(dtype)


def causal(length, device=None):
    return nn.Transformer.generate_square_subsequent_mask(length, device=device).isinf()


class Stack(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.layers = nn.ModuleList(layers)


class Transformer(nn.Module):
    def __init__(self, shape, features, inner, heads, dropout, layers=6):
        super().__init__()
        how = {"dim_feedforward": inner, "dropout": dropout, "batch_first": True}
        self.embedding = nn.Embedding(shape.classes, features)
        self.encoder = Stack(nn.TransformerEncoderLayer(features, heads, **how) for _ in range(layers))
        self.decoder = Stack(nn.TransformerDecoderLayer(features, heads, **how) for _ in range(layers))

    def words(self, words):
        features = self.embedding.embedding_dim
        x = self.embedding(words) * math.sqrt(features)
        return x + sinusoids(words.shape[1], features, x.dtype)

    def forward(self, given):
        padded = given["source"] == 0
        memory = self.words(given["source"])
        for layer in self.encoder.layers:
            memory = layer(memory, src_key_padding_mask=padded)
        x = self.words(given["target"])
        for layer in self.decoder.layers:
            x = layer(x, memory, tgt_mask=causal(x.shape[1]), memory_key_padding_mask=padded)
        return {"logits": F.linear(x, self.embedding.weight)}


class GptBlock(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.attn = nn.MultiheadAttention(hidden, heads, batch_first=True)
        self.mlp = nn.ModuleDict({"c_fc": nn.Linear(hidden, 4 * hidden), "c_proj": nn.Linear(4 * hidden, hidden)})

    def forward(self, x):
        y = self.ln_1(x)
        x = x + self.attn(y, y, y, attn_mask=causal(x.shape[1]), is_causal=True, need_weights=False)[0]
        return x + self.mlp.c_proj(F.gelu(self.mlp.c_fc(self.ln_2(x))))


class Gpt(nn.Module):
    def __init__(self, shape, hidden=768, layers=12, heads=12, dropout=0, seq=0, vocab=0):
        super().__init__()
        assert dropout == 0
        self.wte = nn.Embedding(vocab or shape.classes, hidden)
        self.wpe = nn.Embedding(seq or shape.target - 1, hidden)
        self.h = nn.ModuleList(GptBlock(hidden, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(hidden)

    def forward(self, given):
        words = given["target"]
        x = self.wte(words) + self.wpe(torch.arange(words.shape[1]))
        for block in self.h:
            x = block(x)
        return {"logits": F.linear(self.ln_f(x), self.wte.weight)}


class Captioner(nn.Module):
    """Show and Tell (Vinyals et al. 2015): the image comes before the first word."""

    def __init__(self, shape, encoder="frozen", depth=152, hidden=512, dropout=0):
        super().__init__()
        assert dropout == 0
        self.encoder = ResNet(shape, depth, classes=False)
        self.frozen = encoder == "frozen"
        if self.frozen:
            self.encoder.requires_grad_(False)
        self.image, self.embedding = nn.Linear(self.encoder.features, hidden), nn.Embedding(shape.classes, hidden)
        self.lstm, self.output = nn.LSTM(hidden, hidden, batch_first=True), nn.Linear(hidden, shape.classes)

    def forward(self, given):
        if self.frozen:
            self.encoder.eval()
        image = self.image(self.encoder.encode(given["images"]))
        x = torch.cat((image.unsqueeze(1), self.embedding(given["target"])), 1)
        return {"logits": self.output(self.lstm(x)[0][:, 1:])}


def build(name, shape, options):
    """`options` as strings; those of dropout default to what the C++ side has."""
    options = {key: float(value) if key == "dropout" else int(value) if value.isdigit() else value for key, value in options.items()}
    dropout = options.get("dropout", 0)
    if name.startswith("resnet") and name.endswith("v2"):
        return ResNetV2(shape, int(name[6:-2]))
    if name.startswith("resnet"):
        return ResNet(shape, int(name[6:]))
    if name.startswith("vgg"):
        return vgg(shape, int(name[3:]), dropout)
    if name.startswith("transformer"):
        hidden, heads = (1024, 16) if name.endswith("big") else (512, 8)
        hidden, heads = options.get("hidden", hidden), options.get("heads", heads)
        return Transformer(shape, hidden, 4 * hidden, heads, dropout, options.get("layers", 6))
    make = {"mlp": mlp, "lenet": lenet, "smallcnn": smallcnn, "alexnet": alexnet, "mobilenetv2": mobilenetv2, "inceptionv3": Inception,
            "gpt": Gpt, "captioner": Captioner}[name]
    return make(shape, **options)
